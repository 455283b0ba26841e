"""A worker in somebody else's event loop, over queues in memory."""

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest
from working import QUICK, Lines, group_of, last_line, until

from jobq.core import QueueNotFoundError, QueueStats
from jobq.core.memory import MemoryQueue
from jobq.worker import Worker


class TestInsideALoop:
    @pytest.mark.usefixtures("short_bursts")
    def test_async_handlers_run_on_the_callers_loop(self, jobs: MemoryQueue, lines: Lines) -> None:
        queues = group_of(jobs)
        queues.enqueue("jobs", "a")
        loops: list[Any] = []

        async def handler(payload: Any) -> None:
            loops.append(asyncio.get_running_loop())

        async def main() -> None:
            await Worker(queues, {"a": handler}).run_async(burst=True)
            assert loops == [asyncio.get_running_loop()]

        asyncio.run(main())

    @pytest.mark.parametrize("cancels", [1, 3])
    @pytest.mark.parametrize("colour", ["sync", "async"])
    def test_cancelling_is_a_stop_that_lets_what_runs_end(
        self, colour: str, cancels: int, jobs: MemoryQueue, lines: Lines
    ) -> None:
        queues = group_of(jobs)
        queues.enqueue("jobs", "a")
        began, ended = threading.Event(), threading.Event()

        def sync(payload: Any) -> None:
            began.set()
            time.sleep(0.5)
            ended.set()

        async def awaited(payload: Any) -> None:
            began.set()
            await asyncio.sleep(0.5)
            ended.set()

        async def main() -> None:
            handler = sync if colour == "sync" else awaited
            run = asyncio.create_task(Worker(queues, {"a": handler}, **QUICK).run_async())
            await asyncio.to_thread(began.wait, 5)
            for _ in range(cancels):
                run.cancel()
                await asyncio.sleep(0.05)
            assert not run.done()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert ended.is_set()

        asyncio.run(main())
        assert last_line(lines)["started"] == 1
        assert lines.of("job_finished")[0]["outcome"] == "success"
        assert jobs.stats().in_flight == 0

    def test_the_error_that_ended_it_is_raised(self, lines: Lines) -> None:
        class Missing(MemoryQueue):
            def describe(self) -> Any:
                raise QueueNotFoundError("no such queue")

        with pytest.raises(QueueNotFoundError, match="no such queue"):
            asyncio.run(Worker(group_of(Missing("jobs")), {"a": print}).run_async())

    def test_a_handler_may_stop_its_worker(self, jobs: MemoryQueue, lines: Lines) -> None:
        queues = group_of(jobs)
        queues.enqueue("jobs", "a")

        async def main() -> None:
            async def handler(payload: Any) -> None:
                worker.stop()

            worker = Worker(queues, {"a": handler}, **QUICK)
            await worker.run_async()

        asyncio.run(main())
        assert jobs.stats().in_flight == 0

    @pytest.mark.usefixtures("short_bursts")
    def test_two_workers_share_a_loop(self, lines: Lines) -> None:
        groups = [group_of(MemoryQueue("jobs")) for _ in range(2)]
        ran: list[Any] = []

        async def handler(payload: Any) -> None:
            ran.append(payload)

        async def main() -> None:
            for one in groups:
                one.enqueue("jobs", "a")
            workers = [Worker(one, {"a": handler}).run_async(burst=True) for one in groups]
            await asyncio.gather(*workers)

        asyncio.run(main())
        assert len(ran) == 2


def test_a_loop_that_is_closed_under_a_worker_ends_it_and_all_is_given_back(
    jobs: MemoryQueue, lines: Lines
) -> None:
    async def handler(payload: Any) -> None: ...

    async def begin() -> asyncio.Task[None]:
        run = asyncio.create_task(Worker(group_of(jobs), {"a": handler}, **QUICK).run_async())
        await asyncio.to_thread(until, lambda: lines.of("worker_started"))
        return run

    loop = asyncio.new_event_loop()
    left = loop.run_until_complete(begin())
    loop.close()
    for _ in range(3):
        group_of(jobs).enqueue("jobs", "a")
    until(lambda: lines.of("worker_stopped"), seconds=5)
    (line,) = lines.of("worker_stopping")
    assert (line["level"], last_line(lines)["exit_code"]) == ("error", 1)
    assert "loop" in line["reason"]
    assert last_line(lines)["left"] == 0
    assert jobs.stats() == QueueStats(waiting=3, in_flight=0, delayed=0)
    left.get_coro().close()


def test_a_timeout_around_a_worker_stops_it(jobs: MemoryQueue, lines: Lines) -> None:
    async def main() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await Worker(group_of(jobs), {"a": print}, **QUICK).run_async()

    asyncio.run(main())
    assert last_line(lines)["exit_code"] == 0
