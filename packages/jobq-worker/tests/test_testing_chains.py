"""Async handlers under test that send the next job themselves."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Self

import pytest

from jobq.core import AsyncQueueGroup, ConfigurationError, RetryPolicy
from jobq.core.testing.async_job_queues import async_twin
from jobq.core.testing.job_queues import JobQueues
from jobq.worker.testing import RunJobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jobq.worker.testing import AsyncRunJobs

pytestmark = pytest.mark.usefixtures("lines")

CHAIN = [("welcome", "success"), ("book", "success")]


class Shop:
    """An application whose handlers await its `queues`, a name that a test replaces."""

    def __init__(self) -> None:
        self.queues = AsyncQueueGroup.build(queues={"x": {"name": "x", "backend": "memory"}})
        self.booked: list[str] = []

    async def welcome(self, payload: dict[str, Any]) -> None:
        customer = payload["customer"]
        await self.queues.enqueue(
            "ledger", "book", {"customer": customer}, message_group_id=customer
        )

    def book(self, payload: dict[str, Any]) -> None:
        self.booked.append(payload["customer"])

    @property
    def handlers(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        return {"welcome": self.welcome, "book": self.book}


@pytest.fixture
def shop(async_job_queues: AsyncQueueGroup, monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop()
    monkeypatch.setattr(shop, "queues", async_job_queues)
    return shop


def test_a_job_that_an_async_handler_sends_runs_in_the_same_call(
    shop: Shop, job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    job_queues.enqueue("default", "welcome", {"customer": "c-1"})
    ran = run_jobs(shop.handlers)
    assert ran.outcomes == CHAIN
    assert shop.booked == ["c-1"]


def test_so_it_does_where_a_plain_function_returns_the_awaitable(
    shop: Shop, job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    def welcome(payload: dict[str, Any]) -> Awaitable[None]:
        return shop.welcome(payload)

    job_queues.enqueue("default", "welcome", {"customer": "c-1"})
    assert run_jobs({**shop.handlers, "welcome": welcome}).outcomes == CHAIN


def test_each_call_enters_the_group_anew(
    shop: Shop, job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    for _ in range(2):
        job_queues.enqueue("default", "welcome", {"customer": "c-1"})
        assert run_jobs(shop.handlers).outcomes == CHAIN


def test_a_chain_over_an_hour_of_retries_takes_no_hour(
    shop: Shop, job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    tries: list[float] = []

    async def welcome(payload: dict[str, Any]) -> None:
        tries.append(job_queues.clock.now())
        if len(tries) == 1:
            raise ConnectionError("try again")
        await shop.welcome(payload)

    job_queues.enqueue("default", "welcome", {"customer": "c-1"})
    began = time.monotonic()
    ran = run_jobs({**shop.handlers, "welcome": welcome}, retry=RetryPolicy(base_delay=900))
    assert time.monotonic() - began < 5
    assert ran.outcomes == [("welcome", "retry"), *CHAIN]
    assert tries == [0, 900]


def test_what_is_sent_with_a_delay_is_left_as_by_any_burst(
    job_queues: JobQueues, async_job_queues: AsyncQueueGroup, run_jobs: RunJobs
) -> None:
    async def remind_later(payload: object) -> None:
        await async_job_queues.enqueue("default", "remind", delay_seconds=60)

    job_queues.enqueue("default", "remind_later")
    ran = run_jobs({"remind_later": remind_later})
    assert ran.outcomes == [("remind_later", "success")]
    assert ran.remaining["default"].delayed == 1


class Told(AsyncQueueGroup):
    """Says on which loop it is entered and left."""

    def __init__(self) -> None:
        super().__init__({"x": {"name": "x", "backend": "memory"}})
        self.loops: list[asyncio.AbstractEventLoop] = []

    async def __aenter__(self) -> Self:
        self.loops.append(asyncio.get_running_loop())
        return await super().__aenter__()

    async def __aexit__(self, *_: object) -> None:
        self.loops.append(asyncio.get_running_loop())
        await super().__aexit__(None, None, None)


def test_the_group_is_left_on_that_loop_even_where_a_handler_ends_the_test(
    job_queues: JobQueues,
) -> None:
    told = Told()

    async def give_up(payload: object) -> None:
        told.loops.append(asyncio.get_running_loop())
        raise KeyboardInterrupt

    job_queues.enqueue("default", "give_up")
    with pytest.raises(KeyboardInterrupt):
        RunJobs(job_queues, async_queues=told)({"give_up": give_up})
    assert len(told.loops) == 3
    assert len(set(told.loops)) == 1


def test_a_coroutine_test_needs_to_enter_nothing(
    shop: Shop, job_queues: JobQueues, run_jobs_async: AsyncRunJobs
) -> None:
    async def test() -> None:
        job_queues.enqueue("default", "welcome", {"customer": "c-1"})
        assert (await run_jobs_async(shop.handlers)).outcomes == CHAIN
        with pytest.raises(ConfigurationError, match="hasn't entered"):
            await shop.queues.stats()

    asyncio.run(test())


def test_a_coroutine_test_that_sends_over_it_keeps_what_it_entered(
    shop: Shop, run_jobs_async: AsyncRunJobs
) -> None:
    async def test() -> None:
        async with shop.queues as queues:
            for _ in range(2):
                await queues.enqueue("default", "welcome", {"customer": "c-1"})
                assert (await run_jobs_async(shop.handlers)).outcomes == CHAIN

    asyncio.run(test())


def test_without_fixtures_the_twin_is_given_by_hand() -> None:
    queues, shop = JobQueues(), Shop()
    shop.queues = async_twin(queues)
    queues.enqueue("default", "welcome", {"customer": "c-1"})
    assert RunJobs(queues, async_queues=shop.queues)(shop.handlers).outcomes == CHAIN


def test_the_async_group_in_the_place_of_the_sync_one_is_refused(
    async_job_queues: AsyncQueueGroup,
) -> None:
    run_jobs = RunJobs(async_job_queues)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigurationError, match=r"of an async group: .*from job_queues"):
        run_jobs({"greet": lambda _: None})
