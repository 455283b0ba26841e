"""Many awaited sends at once, over one client and its pool of connections (ministack)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aioboto3
import breakages
import pytest
from aiobotocore.config import AioConfig
from bench import Bench

from jobq.core import AsyncQueueGroup, ConfigurationError, Message
from jobq.sqs.standard import AsyncSqsStandardQueue

LATENCY = 0.2
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
