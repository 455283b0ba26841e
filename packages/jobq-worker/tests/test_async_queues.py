"""A worker over async queues, in memory: what it serves, and where."""

import asyncio
import threading
import time
from collections import defaultdict
from typing import Any, Self

import pytest
from working import (
    QUICK,
    Lines,
    async_group_of,
    group_of,
    last_line,
    own_loops,
    serving,
    until,
)

from jobq.core import (
    AsyncQueueGroup,
    JobMiddleware,
    Message,
)
from jobq.core.memory import AsyncMemoryQueue, MemoryQueue, MemoryServer
from jobq.worker import Worker


class TestServing:
    @pytest.mark.usefixtures("short_bursts", "lines")
    def test_groups_of_both_kinds_and_handlers_of_both_colours(
        self, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue
    ) -> None:
        ran: list[tuple[str, int]] = []

        def sync(payload: dict[str, Any]) -> None:
            ran.append(("sync", payload["n"]))

        async def awaited(payload: dict[str, Any]) -> None:
            await asyncio.sleep(0)
            ran.append(("async", payload["n"]))

        threaded = MemoryQueue("threaded")
        for queue in (jobs, threaded):
            for number in range(20):
                group_of(queue).enqueue(queue.name, "sync", {"n": number})
                group_of(queue).enqueue(queue.name, "async", {"n": number})
        groups = [group_of(threaded), async_group_of(async_jobs)]
        Worker(groups, {"sync": sync, "async": awaited}, concurrency=3).run(burst=True)
        assert sorted(ran) == sorted(2 * [(c, n) for c in ("sync", "async") for n in range(20)])
        assert jobs.stats() == threaded.stats()
        assert jobs.stats().in_flight == 0

    @pytest.mark.usefixtures("short_bursts", "lines")
    @pytest.mark.parametrize("claim_size", [None, 10])
    def test_a_group_runs_in_order_and_different_groups_side_by_side(
        self, claim_size: int | None, server: MemoryServer
    ) -> None:
        ledger = MemoryQueue("ledger.fifo", server=server)
        ran: dict[str, list[int]] = defaultdict(list)
        running: set[str] = set()
        most: list[int] = []

        async def handler(payload: dict[str, Any]) -> None:
            account = payload["account"]
            assert account not in running
            running.add(account)
            most.append(len(running))
            await asyncio.sleep(0.002)
            running.remove(account)
            ran[account].append(payload["n"])

        for number in range(15):
            for account in ("a", "b", "c"):
                group_of(ledger).enqueue(
                    "ledger.fifo",
                    "a",
                    {"account": account, "n": number},
                    message_group_id=account,
                    message_deduplication_id=f"{account}{number}",
                )
        queues = async_group_of(
            AsyncMemoryQueue("ledger.fifo", server=server), claim_size=claim_size
        )
        Worker(queues, {"a": handler}, concurrency=4).run(burst=True)
        assert ran == {account: [*range(15)] for account in ("a", "b", "c")}
        assert max(most) > 1

    @pytest.mark.usefixtures("lines")
    def test_a_job_on_an_idle_queue_starts_at_once(
        self, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue
    ) -> None:
        began = threading.Event()

        def handler(payload: Any) -> None:
            began.set()

        with serving(Worker(async_group_of(async_jobs), {"a": handler}, **QUICK)):
            time.sleep(0.3)
            group_of(jobs).enqueue("jobs", "a")
            assert began.wait(0.5)

    @pytest.mark.parametrize("colour", ["sync", "async"])
    def test_l8_a_handler_that_blocks_its_thread_or_loop_past_its_visibility_timeout_runs_once(
        self, colour: str, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue, lines: Lines
    ) -> None:
        def sync(payload: Any) -> None:
            time.sleep(3.2)

        async def blocking(payload: Any) -> None:
            time.sleep(3.2)  # noqa: ASYNC251 - what it is for

        group_of(jobs).enqueue("jobs", "a")
        queues = async_group_of(async_jobs, visibility_timeout=1)
        handler = sync if colour == "sync" else blocking
        with serving(Worker(queues, {"a": handler}, concurrency=2, **QUICK)):
            until(lambda: jobs.stats().waiting + jobs.stats().in_flight == 0)
        assert [line["outcome"] for line in lines.of("job_finished")] == ["success"]

    @pytest.mark.usefixtures("short_bursts")
    def test_a_burst_counts_what_is_left(
        self, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue, lines: Lines
    ) -> None:
        jobs.publish(Message('{"job_type": "a", "payload": {}}', delay_seconds=60))
        group_of(jobs).enqueue("jobs", "a")
        Worker(async_group_of(async_jobs), {"a": lambda payload: None}).run(burst=True)
        assert last_line(lines)["started"] == 1
        assert last_line(lines)["remaining"] == {
            "jobs": {"waiting": 0, "in_flight": 0, "delayed": 1}
        }

    @pytest.mark.usefixtures("short_bursts")
    def test_what_is_given_up_goes_to_the_dead_letter_queue(
        self, server: MemoryServer, lines: Lines
    ) -> None:
        dead = AsyncMemoryQueue("dead", server=server)
        queue = AsyncMemoryQueue("jobs", dead_letter_queue=dead, max_receive_count=5)
        MemoryQueue("jobs", server=server).publish(Message("no job"))
        Worker(async_group_of(queue), {"a": print}, on_malformed="dead_letter").run(burst=True)
        (copy,) = MemoryQueue("dead", server=server).claim_batch(10)
        assert copy.body == "no job"
        assert lines.of("message_dead_lettered")

    @pytest.mark.usefixtures("short_bursts", "lines")
    def test_it_runs_a_second_time_and_leaves_no_loop(
        self, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue
    ) -> None:
        ran: list[Any] = []

        async def handler(payload: Any) -> None:
            ran.append(payload)

        worker = Worker(async_group_of(async_jobs), {"a": handler})
        for count in (1, 2):
            group_of(jobs).enqueue("jobs", "a")
            worker.run(burst=True)
            assert len(ran) == count
            assert own_loops() == set()

    @pytest.mark.usefixtures("short_bursts", "lines")
    def test_without_async_queues_there_is_no_loop_for_them(self) -> None:
        seen: list[set[str]] = []

        def handler(payload: Any) -> None:
            seen.append(own_loops())

        jobs = MemoryQueue("jobs")
        group_of(jobs).enqueue("jobs", "a")
        Worker(group_of(jobs), {"a": handler}).run(burst=True)
        assert seen == [set()]

    @pytest.mark.usefixtures("short_bursts", "lines")
    def test_only_the_queues_that_are_chosen_are_served_and_handlers_enqueue_on_any(
        self, server: MemoryServer
    ) -> None:
        entered: set[tuple[str, ...]] = set()

        class Noted(AsyncQueueGroup):
            async def __aenter__(self) -> Self:
                entered.add((*self.names, threading.current_thread().name))
                return await super().__aenter__()

        one, other = (
            Noted({name: {"queue": AsyncMemoryQueue(name, server=server)}})
            for name in ("one", "other")
        )
        ran: list[str] = []

        async def handler(payload: dict[str, Any]) -> None:
            ran.append(payload["name"])
            await other.enqueue("other", "a", {"name": "enqueued"})

        queues = [MemoryQueue(name, server=server) for name in ("one", "other")]
        for queue in queues:
            group_of(queue).enqueue(queue.name, "a", {"name": queue.name})
        worker = Worker([one, other], {"a": handler})
        worker.override(queues=["one"])
        worker.run(burst=True)
        assert ran == ["one"]
        assert [queue.stats().waiting for queue in queues] == [0, 2]
        assert entered == {
            ("one", "jobq-queues-loop"),
            ("one", "jobq-handlers-loop"),
            ("other", "jobq-handlers-loop"),
        }


class TestHooks:
    @pytest.mark.usefixtures("short_bursts", "lines")
    def test_hooks_of_both_colours_stand_around_receives_and_jobs(
        self, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue
    ) -> None:
        seen: set[Any] = set()

        class Plain(JobMiddleware):
            def poll(self, call_next: Any) -> Any:
                came = call_next()
                seen.add(("plain poll", call_next.queue, came))
                return came

            def consume(self, job: Any, call_next: Any) -> Any:
                seen.add("plain consume")
                return call_next(job)

        class Awaited(JobMiddleware):
            async def poll(self, call_next: Any) -> Any:
                await asyncio.sleep(0)
                came = await call_next()
                seen.add(("async poll", call_next.queue, came))
                return came

            async def consume(self, job: Any, call_next: Any) -> Any:
                seen.add("async consume")
                return await call_next(job)

        async def handler(payload: Any) -> None:
            seen.add("handler")

        group_of(jobs).enqueue("jobs", "a")
        queues = async_group_of(async_jobs, middleware=[Plain(), Awaited()])
        Worker(queues, {"a": handler}).run(burst=True)
        assert seen == {
            *(("plain poll", "jobs", n) for n in (0, 1)),
            *(("async poll", "jobs", n) for n in (0, 1)),
            "plain consume",
            "async consume",
            "handler",
        }

    @pytest.mark.usefixtures("lines")
    def test_an_async_poll_hook_may_wait_for_what_belongs_to_the_callers_loop(
        self, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue
    ) -> None:
        class Pause(JobMiddleware):
            def __init__(self) -> None:
                self.resumed = asyncio.Event()
                self.loops: set[Any] = set()

            async def poll(self, call_next: Any) -> Any:
                self.loops.add(asyncio.get_running_loop())
                await self.resumed.wait()
                return await call_next()

        async def main() -> None:
            pause, ran = Pause(), asyncio.Event()

            async def handler(payload: Any) -> None:
                pause.resumed.clear()  # so that the next one waits when the worker ends
                ran.set()

            queues = async_group_of(async_jobs, middleware=[pause])
            worker = Worker(queues, {"a": handler}, **QUICK)
            run = asyncio.create_task(worker.run_async())
            waits = asyncio.create_task(pause.resumed.wait())
            await asyncio.sleep(0.1)
            pause.resumed.set()
            await asyncio.wait_for(ran.wait(), 5)
            await asyncio.sleep(0.1)
            worker.stop()
            await run
            await waits
            await asyncio.sleep(0)
            assert pause.loops == {asyncio.get_running_loop()}
            assert asyncio.all_tasks() == {asyncio.current_task()}

        group_of(jobs).enqueue("jobs", "a")
        asyncio.run(main())

    @pytest.mark.usefixtures("lines")
    def test_an_async_poll_hook_that_blocks_costs_no_lease(
        self, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue
    ) -> None:
        ran: list[Any] = []

        class Blocks(JobMiddleware):
            async def poll(self, call_next: Any) -> Any:
                came = await call_next()
                time.sleep(1.8)  # noqa: ASYNC251
                return came

        def handler(payload: Any) -> None:
            ran.append(payload)
            time.sleep(2.2)

        group_of(jobs).enqueue("jobs", "a")
        queues = async_group_of(async_jobs, middleware=[Blocks()], visibility_timeout=1)
        with serving(Worker(queues, {"a": handler}, concurrency=2, **QUICK)):
            until(lambda: jobs.stats().waiting + jobs.stats().in_flight == 0)
        assert len(ran) == 1
