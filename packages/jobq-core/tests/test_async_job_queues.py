"""The fixture `async_job_queues`: the queues of `job_queues`, awaited."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from jobq.core import AsyncQueueGroup, ConfigurationError, JobMiddleware
from jobq.core.memory import ManualClock, MemoryQueue
from jobq.core.testing.async_job_queues import async_twin
from jobq.core.testing.job_queues import JobQueues

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.core import Job


def send(queues: AsyncQueueGroup, queue: str, **options: Any) -> str:
    """As a producer does whose application entered its group."""

    async def main() -> str:
        async with queues:
            return await queues.enqueue(queue, "greet", {"who": "you"}, **options)

    return asyncio.run(main())


def test_what_a_producer_awaits_is_in_the_queues_of_the_test(
    job_queues: JobQueues, async_job_queues: AsyncQueueGroup
) -> None:
    message_id = send(async_job_queues, "default")
    lease = job_queues.queue("default").claim()
    assert lease
    assert lease.message_id == message_id
    send(async_job_queues, "ledger", message_group_id="g")
    assert job_queues.stats()["ledger"].waiting == 1


def test_what_the_test_sends_is_there_to_be_awaited(
    job_queues: JobQueues, async_job_queues: AsyncQueueGroup
) -> None:
    message_id = job_queues.enqueue("default", "greet")

    async def claimed() -> str | None:
        async with async_job_queues:
            lease = await async_job_queues.queue("default").claim()
        return lease and lease.message_id

    assert asyncio.run(claimed()) == message_id


def test_it_lives_by_the_clock_of_the_test(
    job_queues: JobQueues, async_job_queues: AsyncQueueGroup
) -> None:
    send(async_job_queues, "default", delay_seconds=600)
    assert job_queues.stats()["default"].delayed == 1
    job_queues.clock.advance(600)
    assert job_queues.stats()["default"].waiting == 1


def test_a_coroutine_that_never_entered_it_is_refused_as_by_every_group(
    async_job_queues: AsyncQueueGroup,
) -> None:
    async def forgetful() -> None:
        await async_job_queues.enqueue("default", "greet")

    with pytest.raises(ConfigurationError, match="hasn't entered"):
        asyncio.run(forgetful())


def test_a_queue_made_by_hand_is_the_same_queue_in_both() -> None:
    clock = ManualClock()
    dead = MemoryQueue("dead", clock=clock)
    queue = MemoryQueue("jobs", dead_letter_queue=dead, max_receive_count=1)
    queues = JobQueues({"mine": {"queue": queue}, "other": {"name": "other"}}, clock=clock)
    send(async_twin(queues), "mine")
    assert queue.claim(visibility=30)
    clock.advance(30)
    assert queue.claim() is None
    assert dead.claim()


def test_a_queue_made_by_hand_that_is_not_in_memory_is_refused(job_clock: ManualClock) -> None:
    class Elsewhere:
        def publish(self, message: object) -> None: ...

    queues = JobQueues({"mine": {"queue": Elsewhere()}}, clock=job_clock)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match=r"'mine'.*only a MemoryQueue has an async twin"):
        async_twin(queues)


def test_its_hooks_are_those_of_the_queues() -> None:
    class Stamp(JobMiddleware):
        async def produce(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
            stamped.append(job.job_type)
            return await call_next(job)

    stamped: list[str] = []
    send(async_twin(JobQueues(middleware=[Stamp()])), "default")
    assert stamped == ["greet"]
