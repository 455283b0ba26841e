"""What only an async FIFO queue has, over moto's server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any
from uuid import uuid4

import pytest

from jobq.core import ConfigurationError, Message, QueueDefinition
from jobq.core.backends import find_async_backend
from jobq.sqs.fifo import AsyncSqsFifoQueue
from jobq.sqs.fifo.aio import backend


@pytest.fixture
def name() -> str:
    return f"orders-{uuid4().hex}"


def test_a_queue_of_its_own_client_from_create_to_close(server: str, name: str) -> None:
    async def main() -> None:
        async with await AsyncSqsFifoQueue.create(name, endpoint_url=server) as queue:
            assert queue.name == f"{name}.fifo"
            await queue.publish(Message('{"event": "paid"}', group_id="order-42"))
            lease = await queue.claim(visibility=30, wait=2)
            assert lease is not None
            assert lease.group_id == "order-42"
            await queue.extend(lease, 60)
            await queue.nack(lease)
            again = await queue.claim(visibility=30, wait=2)
            assert again is not None
            await queue.ack(again)

    asyncio.run(main())


def test_its_dead_letter_queue_is_fifo(server: str, name: str) -> None:
    async def main() -> None:
        async with await AsyncSqsFifoQueue.create(f"{name}-dead", endpoint_url=server) as dead:
            client = (await dead.connection()).client
            queue = await AsyncSqsFifoQueue.create(
                name, client=client, dead_letter_queue=dead, max_receive_count=2
            )
            found = await queue.dead_letter_queue()
            assert type(found) is AsyncSqsFifoQueue
            assert found.name == f"{name}-dead.fifo"

    asyncio.run(main())


def test_the_backend_adds_the_suffix_to_a_name_and_not_to_a_url(name: str) -> None:
    assert find_async_backend("sqs-fifo") is backend
    assert backend(QueueDefinition(name=name)).name == f"{name}.fifo"
    with pytest.raises(ConfigurationError, match=r"names end in '\.fifo'"):
        backend(QueueDefinition(url=f"https://sqs/1/{name}"))


def test_a_long_batch_keeps_its_group_in_order(server: str, name: str) -> None:
    async def main() -> None:
        async with await AsyncSqsFifoQueue.create(name, endpoint_url=server) as queue:
            results = await queue.publish_batch([Message(str(n), group_id="g") for n in range(25)])
            assert all(result.error is None for result in results)
            received: list[str] = []
            while leases := await queue.claim_batch(10, visibility=30):
                received += [lease.body for lease in leases]
                await queue.ack_batch(leases)
            assert received == [str(n) for n in range(25)]

    asyncio.run(main())


def test_a_cancelled_claim_is_asked_again_with_the_next(server: str, name: str) -> None:
    async def main() -> None:
        async with await AsyncSqsFifoQueue.create(name, endpoint_url=server) as queue:
            asked: asyncio.Queue[str] = asyncio.Queue()

            def note(params: dict[str, str], **_: object) -> None:
                asked.put_nowait(params["ReceiveRequestAttemptId"])

            client: Any = (await queue.connection()).client
            client.meta.events.register("provide-client-params.sqs.ReceiveMessage", note)
            poll = asyncio.ensure_future(queue.claim(visibility=30, wait=1))
            first = await asyncio.wait_for(asked.get(), 5)
            poll.cancel()
            # Kept, since a flow that nobody holds any more is told of its end as well.
            with pytest.raises(asyncio.CancelledError) as cancelled:
                await poll
            for _ in range(2):
                await queue.claim(visibility=30)
            assert asked.get_nowait() == first != asked.get_nowait()
            del cancelled

    asyncio.run(main())


WITHOUT = """
import sys
sys.modules["aioboto3"] = None  # as if it were not installed
from jobq.core import BackendNotInstalledError
import jobq.sqs.fifo
try:
    jobq.sqs.fifo.AsyncSqsFifoQueue
except BackendNotInstalledError as error:
    print(error)
"""


def test_without_aioboto3_the_error_names_the_command() -> None:
    said = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stderr == ""
    assert 'pip install "jobq-sqs-fifo[aio]"' in said.stdout
