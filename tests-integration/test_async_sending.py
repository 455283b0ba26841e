"""Many awaited sends at once, over one client and its pool of connections (ministack)."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import aioboto3
import breakages
import pytest
from aiobotocore.config import AioConfig
from bench import Bench
from sqs_proxy import Forward, Reply, Request

from jobq.core import AsyncQueueGroup, ConfigurationError, Message
from jobq.sqs.standard import AsyncSqsStandardQueue

LATENCY = 0.5
SENDS = 50


async def _send(group: AsyncQueueGroup) -> float:
    """How long fifty concurrent sends take, once the first one has gone out, in seconds."""
    async with group:
        await group.enqueue("jobs", "warm")
        began = time.monotonic()
        ids = await asyncio.gather(*(group.enqueue("jobs", "work", {"n": n}) for n in range(SENDS)))
        took = time.monotonic() - began
    assert len(set(ids)) == SENDS
    return took


@pytest.fixture(autouse=True)
def by_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions find the proxy as they would find an endpoint of somebody's own."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", bench.proxy.url)


def test_fifty_concurrent_sends_wait_for_no_connection(bench: Bench) -> None:
    queue = bench.queue("jobs")
    bench.proxy.intercept = breakages.late(LATENCY)
    session = aioboto3.Session()
    group = AsyncQueueGroup.build(session=session, queues={"jobs": {"name": queue.name}})
    took = asyncio.run(_send(group))
    assert LATENCY <= took < 4 * LATENCY


@pytest.mark.parametrize("connections", [5, 10])
def test_through_a_client_with_fewer_connections_they_go_by_so_many_at_a_time(
    bench: Bench, connections: int
) -> None:
    queue = bench.queue("jobs")
    bench.proxy.intercept = breakages.late(LATENCY)

    async def send() -> float:
        config = AioConfig(max_pool_connections=connections)
        session: Any = aioboto3.Session()
        async with session.client("sqs", config=config) as client:
            return await _send(
                AsyncQueueGroup.build(client=client, queues={"jobs": {"name": queue.name}})
            )

    rounds = SENDS / connections
    assert rounds * LATENCY <= asyncio.run(send()) < (rounds + 4) * LATENCY


def test_a_queue_of_one_loop_is_refused_on_another(bench: Bench) -> None:
    name = bench.queue("jobs").name
    queue = AsyncSqsStandardQueue(name)

    async def publish() -> str:
        return await queue.publish(Message("{}"))

    first = asyncio.new_event_loop()
    try:
        assert first.run_until_complete(publish())
        with pytest.raises(ConfigurationError, match="loop"):
            asyncio.run(publish())
        assert first.run_until_complete(publish()), "it goes on where it belongs"
        first.run_until_complete(queue.close())
    finally:
        first.close()


def test_tasks_that_meet_a_new_queue_at_once_look_it_up_once(bench: Bench) -> None:
    queue = bench.queue("jobs")
    bench.proxy.intercept = breakages.late(0.05)

    async def main() -> None:
        group = AsyncQueueGroup.build(queues={"jobs": {"name": queue.name}})
        async with group:
            await asyncio.gather(*(group.enqueue("jobs", "work", {"n": n}) for n in range(20)))

    asyncio.run(main())
    asked = [exchange.request.operation for exchange in bench.proxy.exchanges]
    assert (asked.count("GetQueueUrl"), asked.count("SendMessage")) == (1, 20)


def test_a_send_that_is_out_while_its_group_is_left_is_not_repeated(
    bench: Bench, recwarn: pytest.WarningsRecorder
) -> None:
    queue = bench.queue("jobs")
    asked: list[str] = []

    def note(request: Request, forward: Forward) -> Reply:
        asked.append(request.operation)
        time.sleep(LATENCY)
        return forward(request)

    bench.proxy.intercept = note

    async def main() -> None:
        group = AsyncQueueGroup.build(queues={"jobs": {"name": queue.name}})
        async with group:
            await group.enqueue("jobs", "warm")
            sending = asyncio.create_task(group.enqueue("jobs", "work"))
            await asyncio.sleep(LATENCY / 2)
        with pytest.raises(ConfigurationError, match="its group was left"):
            await sending

    asyncio.run(main())
    gc.collect()
    assert asked.count("SendMessage") == 2
    assert [str(one.message) for one in recwarn if "nclosed" in str(one.message)] == []
