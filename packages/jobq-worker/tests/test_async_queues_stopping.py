"""A worker over async queues that is stopped: what its end gives back, and leaves behind."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from working import (
    QUICK,
    Lines,
    Serving,
    async_group_of,
    group_of,
    last_line,
    own_loops,
    serving,
    until,
)

from jobq.core import (
    AsyncQueueGroup,
    BackendError,
    JobMiddleware,
    Lease,
    SettleResult,
)
from jobq.core.memory import AsyncMemoryQueue, MemoryQueue, MemoryServer
from jobq.worker import Worker


class Slow(AsyncMemoryQueue):
    """Answers a receive when it is told to, whatever its wait."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__("jobs", server=server)
        self.asked = threading.Event()
        self.may_answer = threading.Event()
        self.cut = 0

    async def claim_batch(self, max_messages: int, **arguments: Any) -> list[Lease]:
        self.asked.set()
        try:
            await asyncio.to_thread(self.may_answer.wait, 10)
        except asyncio.CancelledError:
            self.cut += 1
            raise
        return await super().claim_batch(max_messages, **{**arguments, "wait": 0})


class TestStopping:
    @pytest.mark.parametrize("colour", ["sync", "async"])
    def test_a_stop_under_load_loses_nothing_and_runs_nothing_twice(
        self, colour: str, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue, lines: Lines
    ) -> None:
        ran: list[int] = []

        def sync(payload: dict[str, Any]) -> None:
            time.sleep(0.003)
            ran.append(payload["n"])

        async def awaited(payload: dict[str, Any]) -> None:
            await asyncio.sleep(0.003)
            ran.append(payload["n"])

        for number in range(300):
            group_of(jobs).enqueue("jobs", "a", {"n": number})
        handler = sync if colour == "sync" else awaited
        worker = Worker(async_group_of(async_jobs), {"a": handler}, concurrency=4, **QUICK)
        with serving(worker) as served:
            until(lambda: len(ran) > 50)
        assert served.code == 0
        left = [int(one.body.split(":")[-1].strip(" }")) for one in _all_of(jobs)]
        assert sorted(ran + left) == [*range(300)]
        assert left
        line = last_line(lines)
        assert (line["started"], line["left"]) == (len(ran), 0)

    def test_what_a_long_poll_brings_after_a_stop_is_given_back(
        self, server: MemoryServer, jobs: MemoryQueue, lines: Lines
    ) -> None:
        queue = Slow(server)
        ran: list[Any] = []
        with serving(Worker(async_group_of(queue), {"a": ran.append}, **QUICK)) as served:
            assert queue.asked.wait(5)
            group_of(jobs).enqueue("jobs", "a")
            served.stop()
            time.sleep(0.1)
            queue.may_answer.set()
        assert (served.code, ran, queue.cut) == (0, [], 0)
        assert jobs.stats().waiting == 1
        assert last_line(lines)["given_back"] == 1

    def test_cancelling_it_during_a_long_poll_awaits_the_poll(
        self, server: MemoryServer, jobs: MemoryQueue, lines: Lines
    ) -> None:
        queue = Slow(server)

        async def main() -> None:
            async with async_group_of(queue) as queues:
                run = asyncio.create_task(Worker(queues, {"a": print}, **QUICK).run_async())
                await asyncio.to_thread(queue.asked.wait, 5)
                group_of(jobs).enqueue("jobs", "a")
                for _ in range(3):
                    run.cancel()
                    await asyncio.sleep(0.05)
                assert not run.done()
                queue.may_answer.set()
                with pytest.raises(asyncio.CancelledError):
                    await run

        asyncio.run(main())
        assert queue.cut == 0
        assert jobs.stats().waiting == 1
        assert last_line(lines)["given_back"] == 1

    def test_a_queue_whose_calls_hang_costs_another_neither_leases_nor_deletes(
        self, server: MemoryServer, lines: Lines
    ) -> None:
        class Hangs(AsyncMemoryQueue):
            async def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
                await asyncio.sleep(60)
                return []

            async def extend_batch(self, leases: Sequence[Lease], visibility: float) -> Any:
                await asyncio.sleep(60)

        def handler(payload: dict[str, Any]) -> None:
            time.sleep(payload["seconds"])

        well = MemoryQueue("well", server=server)
        for _ in range(20):
            group_of(MemoryQueue("hangs", server=server)).enqueue("hangs", "a", {"seconds": 0})
        for _ in range(4):
            group_of(well).enqueue("well", "a", {"seconds": 2})
        queues = async_group_of(
            Hangs("hangs", server=server),
            AsyncMemoryQueue("well", server=server),
            visibility_timeout=1,
        )
        worker = Worker(
            queues, {"a": handler}, concurrency=8, idle_wait_seconds=1, shutdown_timeout=1.5
        )
        with serving(worker):
            until(lambda: well.stats().waiting + well.stats().in_flight == 0)
        ended = [one for one in lines.of("job_finished") if one["queue"] == "well"]
        assert [one["outcome"] for one in ended] == ["success"] * 4
        assert own_loops() == set()

    @pytest.mark.parametrize("colour", ["sync", "async"])
    def test_a_poll_hook_that_waits_holds_up_no_stop(
        self, colour: str, async_jobs: AsyncMemoryQueue, lines: Lines
    ) -> None:
        waits, go_on = threading.Event(), threading.Event()

        class Plain(JobMiddleware):
            def poll(self, call_next: Any) -> Any:
                waits.set()
                go_on.wait(20)
                return call_next()

        class Awaited(JobMiddleware):
            async def poll(self, call_next: Any) -> Any:
                waits.set()
                await asyncio.sleep(20)
                return await call_next()

        hook = Plain() if colour == "sync" else Awaited()
        served = Serving(
            Worker(async_group_of(async_jobs, middleware=[hook]), {"a": print}, **QUICK)
        )
        assert waits.wait(5)
        stopped_at = time.monotonic()
        served.stop()
        served.join(seconds=5)
        go_on.set()
        assert time.monotonic() - stopped_at < 2
        assert last_line(lines)["exit_code"] == 0
        assert own_loops() == set()

    @pytest.mark.usefixtures("short_bursts")
    def test_what_leaving_a_group_raises_is_said_and_ends_nothing_else(
        self, async_jobs: AsyncMemoryQueue, lines: Lines
    ) -> None:
        class Stuck(AsyncQueueGroup):
            async def __aexit__(self, *raised: object) -> None:
                raise BackendError("its client won't close")

        Worker(Stuck({"jobs": {"queue": async_jobs}}), {"a": print}).run(burst=True)
        said = lines.of("group_not_closed")
        assert [(line["level"], line["queue"]) for line in said] == [("warning", "jobs")] * 2
        assert all("its client won't close" in line["exception"] for line in said)
        assert last_line(lines)["exit_code"] == 0


def _all_of(queue: MemoryQueue) -> list[Lease]:
    leases: list[Lease] = []
    while more := queue.claim_batch(10):
        leases += more
    return leases
