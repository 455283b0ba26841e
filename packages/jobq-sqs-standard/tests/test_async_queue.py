"""Async queues over moto's server."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import Any

import aioboto3
import pytest

from jobq.core import (
    BackendError,
    ConfigurationError,
    Message,
    QueueDefinition,
)
from jobq.sqs.standard import AsyncSqsStandardQueue, SqsStandardQueue
from jobq.sqs.standard.aio import backend

UNREACHABLE = "http://127.0.0.1:9"


def test_a_queue_of_its_own_client_from_create_to_close(server: str, name: str) -> None:
    async def main() -> None:
        async with await AsyncSqsStandardQueue.create(name, endpoint_url=server) as queue:
            await queue.publish(Message('{"event": "paid"}'))
            lease = await queue.claim(visibility=30, wait=2)
            assert lease is not None
            await queue.extend(lease, 60)
            await queue.nack(lease)
            again = await queue.claim(visibility=30, wait=2)
            assert again is not None
            assert again.receive_count == 2
            await queue.ack(again)
            assert (await queue.stats()).in_flight == 0

    asyncio.run(main())


def test_it_is_one_queue_with_the_sync_class_s(server: str, client: Any, name: str) -> None:
    there = SqsStandardQueue.create(name, client=client)
    there.publish_batch([Message(str(number)) for number in range(12)])

    async def main() -> None:
        async with AsyncSqsStandardQueue(name, endpoint_url=server) as queue:
            got = await queue.claim_batch(12, visibility=30, wait=2)
            settled = await queue.ack_batch(got)
            assert sorted(int(lease.body) for lease in got) == list(range(12))
            assert all(result.error is None for result in settled)

    asyncio.run(main())


@pytest.mark.parametrize("way", ["queue", "name", "arn"])
def test_a_dead_letter_queue_may_be_given_in_any_way(server: str, name: str, way: str) -> None:
    async def main() -> None:
        session: Any = aioboto3.Session()
        async with session.client("sqs", endpoint_url=server) as client:
            dead = await AsyncSqsStandardQueue.create(f"{name}-dead", client=client)
            given = {"queue": dead, "name": f"{name}-dead", "arn": await dead.arn()}[way]
            queue = await AsyncSqsStandardQueue.create(
                name, client=client, dead_letter_queue=given, max_receive_count=3
            )
            assert (await queue.describe()).max_receive_count == 3
            found = await queue.dead_letter_queue()
            assert type(found) is AsyncSqsStandardQueue
            await found.publish(Message("dead"))
            assert (await dead.stats()).waiting == 1
            assert await dead.dead_letter_queue() is None

    asyncio.run(main())


def test_an_operator_s_work_is_awaited(server: str, name: str) -> None:
    async def main() -> None:
        async with await AsyncSqsStandardQueue.create(name, endpoint_url=server) as queue:
            await queue.publish(Message("hello"))
            found = await queue.operations.diagnose()
            assert [finding.severity for finding in found] == ["warning"]
            await queue.operations.purge()
            assert (await queue.stats()).waiting == 0

    asyncio.run(main())


def test_fifty_sends_at_once_over_one_client_are_fifty_messages(server: str, name: str) -> None:
    async def main() -> None:
        async with await AsyncSqsStandardQueue.create(name, endpoint_url=server) as queue:
            sends = (queue.publish(Message(str(number))) for number in range(50))
            assert len(set(await asyncio.gather(*sends))) == 50
            assert (await queue.stats()).waiting == 50

    asyncio.run(main())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: AsyncSqsStandardQueue("https://sqs/1/orders.fifo"), "use the FIFO backend"),
        (lambda: AsyncSqsStandardQueue("orders", client=print, region_name="eu"), "'eu'.*client="),
        (lambda: AsyncSqsStandardQueue("orders", client="http://sqs"), "'http://sqs'"),
        (lambda: AsyncSqsStandardQueue("orders", client=object()), "no async client.*sync class"),
        (
            lambda: backend(QueueDefinition(queue=AsyncSqsStandardQueue("orders"))),
            "'name' or a 'url'",
        ),
        (lambda: asyncio.run(AsyncSqsStandardQueue.create("orders.fifo")), "use the FIFO backend"),
        (
            lambda: asyncio.run(AsyncSqsStandardQueue.create("orders", visibility_timeout=43_201)),
            "43201",
        ),
    ],
)
def test_what_cannot_be_made_is_refused_before_any_call(make: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()


class TestLoops:
    def test_a_queue_made_on_one_loop_is_refused_on_another(self, server: str, name: str) -> None:
        async def make() -> AsyncSqsStandardQueue:
            return AsyncSqsStandardQueue(name, endpoint_url=server)

        queue = asyncio.run(make())
        with pytest.raises(ConfigurationError, match="another event loop"):
            asyncio.run(queue.publish(Message("hello")))

    def test_one_made_where_no_loop_runs_belongs_to_that_of_its_first_call(
        self, server: str, name: str
    ) -> None:
        queue = AsyncSqsStandardQueue(name, endpoint_url=server)

        async def use() -> int:
            made = await AsyncSqsStandardQueue.create(name, endpoint_url=server)
            await made.close()
            return (await queue.stats()).waiting

        async def main() -> None:
            assert await use() == 0
            with pytest.raises(ConfigurationError, match="another event loop"):
                await asyncio.to_thread(lambda: asyncio.run(queue.publish(Message("hello"))))
            await queue.close()

        asyncio.run(main())

    def test_closed_it_may_open_a_client_on_another(self, server: str, name: str) -> None:
        queue = AsyncSqsStandardQueue(name, endpoint_url=server)

        async def use() -> None:
            made = await AsyncSqsStandardQueue.create(name, endpoint_url=server)
            await made.close()
            async with queue:
                await queue.publish(Message("hello"))

        asyncio.run(use())
        asyncio.run(use())


def test_a_cancelled_call_is_cancelled_and_the_queue_goes_on(server: str, name: str) -> None:
    async def main() -> None:
        async with await AsyncSqsStandardQueue.create(name, endpoint_url=server) as queue:
            poll = asyncio.ensure_future(queue.claim(visibility=30, wait=20))
            await asyncio.sleep(0.3)
            poll.cancel()
            with pytest.raises(asyncio.CancelledError):
                await poll
            assert await queue.publish(Message("hello"))

    asyncio.run(main())


def test_an_endpoint_that_refuses_connections_is_worth_another_try() -> None:
    async def main() -> None:
        url = f"{UNREACHABLE}/1/orders"
        async with AsyncSqsStandardQueue(url, endpoint_url=UNREACHABLE) as queue:
            with pytest.raises(BackendError, match="check the endpoint") as raised:
                await queue.claim(visibility=30)
            assert raised.value.retryable

    asyncio.run(main())


WITHOUT = """
import sys
sys.modules["aioboto3"] = None  # as if it were not installed
from jobq.core import BackendNotInstalledError
from jobq.core.backends import find_async_backend
import jobq.sqs.standard
for ask in (
    lambda: jobq.sqs.standard.AsyncSqsStandardQueue,
    lambda: __import__("jobq.sqs.standard.aio"),
    lambda: find_async_backend("sqs-standard"),
):
    try:
        ask()
    except BackendNotInstalledError as error:
        print(error)
"""


def in_a_process(code: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert result.stderr == ""
    return result.stdout.splitlines()


def test_without_aioboto3_the_error_names_the_command() -> None:
    said = in_a_process(WITHOUT)
    assert len(said) == 3
    assert all('pip install "jobq-sqs-standard[aio]"' in line for line in said)


def test_the_sync_side_never_imports_aioboto3() -> None:
    code = "import sys, jobq.sqs.standard; print({'aioboto3', 'aiohttp'} & set(sys.modules))"
    assert in_a_process(code) == ["set()"]


FORKING = """
import asyncio, os, sys
from jobq.core import Message
from jobq.sqs.standard import AsyncSqsStandardQueue

url, name = sys.argv[1:]
queue = AsyncSqsStandardQueue(name, endpoint_url=url)

async def parent():
    made = await AsyncSqsStandardQueue.create(name, endpoint_url=url)
    await made.close()
    print(await queue.publish(Message("parent")), flush=True)
    if os.fork() == 0:
        return True
    os.wait()
    await queue.close()
    return False

async def child():
    try:
        await queue.publish(Message("child"))
    except Exception as error:
        print(type(error).__name__, error, flush=True)

forked = asyncio.run(parent())
if forked:
    asyncio.run(child())
    os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system doesn't fork")
def test_after_a_fork_a_queue_that_was_used_is_refused(server: str, name: str) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, server, name],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "ConfigurationError an async client of process" in result.stdout
