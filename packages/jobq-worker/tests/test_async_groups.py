"""The groups of async queues that a worker is given: what it enters, refuses and tries again."""

import asyncio
import threading
import time
from typing import Any

import pytest
from working import (
    QUICK,
    Lines,
    async_group_of,
    group_of,
    own_loops,
    serving,
    until,
)

from jobq.core import (
    AsyncQueueGroup,
    BackendError,
    ConfigurationError,
    QueueGroup,
    QueueInfo,
)
from jobq.core.memory import AsyncMemoryQueue, MemoryQueue
from jobq.worker import Worker


class TestTheHandlersLoop:
    @pytest.mark.usefixtures("short_bursts", "lines")
    def test_an_async_handler_enqueues_the_next_job_on_the_group(
        self, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue
    ) -> None:
        queues = async_group_of(async_jobs)
        ran: list[int] = []

        async def handler(payload: dict[str, Any]) -> None:
            ran.append(payload["n"])
            if payload["n"] < 3:
                await queues.enqueue("jobs", "a", {"n": payload["n"] + 1})

        group_of(jobs).enqueue("jobs", "a", {"n": 0})
        Worker(queues, {"a": handler}).run(burst=True)
        assert ran == [0, 1, 2, 3]

    @pytest.mark.usefixtures("short_bursts")
    @pytest.mark.parametrize("entered", [False, True])
    def test_in_somebodys_loop_that_loop_has_entered_the_group_or_its_handlers_may_not_enqueue(
        self, entered: object, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue, lines: Lines
    ) -> None:
        queues = async_group_of(async_jobs)
        raised: list[BaseException | None] = []

        async def handler(payload: dict[str, Any]) -> None:
            try:
                await queues.enqueue("jobs", "b")
            except ConfigurationError as error:
                raised.append(error)

        async def main() -> None:
            worker = Worker(queues, {"a": handler, "b": raised.append})
            if not entered:
                await worker.run_async(burst=True)
                return
            async with queues:
                await worker.run_async(burst=True)
                assert await queues.stats()

        group_of(jobs).enqueue("jobs", "a")
        asyncio.run(main())
        assert [type(one) for one in raised] == [dict if entered else ConfigurationError]
        assert jobs.stats().waiting + jobs.stats().in_flight == 0

    @pytest.mark.usefixtures("short_bursts", "lines")
    def test_groups_from_the_environment_meet_in_memory(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("JOBQ_CONNECTION", "memory")
        queues = AsyncQueueGroup.from_env(["met-first", "met-next"])
        ran: list[str] = []

        async def first(payload: Any) -> None:
            ran.append("first")
            await queues.enqueue("met-next", "next")

        def following(payload: Any) -> None:
            ran.append("next")

        QueueGroup.from_env(["met-first"]).enqueue("met-first", "first")
        Worker(queues, {"first": first, "next": following}).run(burst=True)
        assert ran == ["first", "next"]


class TestStarting:
    def test_a_group_that_only_publishes_is_refused_with_the_remedy(
        self, async_jobs: AsyncMemoryQueue
    ) -> None:
        class OverAnEnteredClient(AsyncQueueGroup):
            @property
            def publishes_only(self) -> bool:
                return True

        queues = OverAnEnteredClient({"jobs": {"queue": async_jobs}})
        with pytest.raises(ConfigurationError, match=r"'jobs'.*session="):
            Worker(queues, {"a": print})

    def test_anything_but_groups_is_refused(self, async_jobs: AsyncMemoryQueue) -> None:
        wrong: Any
        for wrong in (async_jobs, [async_jobs], []):
            with pytest.raises(ConfigurationError, match="queues must"):
                Worker(wrong, {"a": print})

    def test_queues_of_groups_of_both_kinds_need_distinct_names(
        self, jobs: MemoryQueue, async_jobs: AsyncMemoryQueue
    ) -> None:
        with pytest.raises(ConfigurationError, match="two groups have a queue named 'jobs'"):
            Worker([group_of(jobs), async_group_of(async_jobs)], {"a": print})

    @pytest.mark.usefixtures("short_bursts", "lines")
    @pytest.mark.parametrize("loop", ["jobq-queues-loop", "jobq-handlers-loop"])
    def test_a_group_that_cannot_be_entered_ends_the_start(
        self, loop: str, async_jobs: AsyncMemoryQueue
    ) -> None:
        class Wrong(AsyncQueueGroup):
            async def __aenter__(self) -> Any:
                if threading.current_thread().name == loop:
                    raise ConfigurationError("no region")
                return await super().__aenter__()

        worker = Worker(Wrong({"jobs": {"queue": async_jobs}}), {"a": print})
        with pytest.raises(ConfigurationError, match="no region"):
            worker.run(burst=True)
        assert own_loops() == set()

    @pytest.mark.usefixtures("short_bursts")
    def test_what_may_be_entered_yet_is_tried_again(
        self, async_jobs: AsyncMemoryQueue, lines: Lines
    ) -> None:
        tries: list[str] = []

        class Late(AsyncQueueGroup):
            async def __aenter__(self) -> Any:
                tries.append("entered")
                if len(tries) == 1:
                    raise BackendError("no credentials yet", retryable=True)
                return await super().__aenter__()

        Worker(Late({"jobs": {"queue": async_jobs}}), {"a": print}).run(burst=True)
        assert [line["queue"] for line in lines.of("queue_not_reached")] == ["jobs"]

    @pytest.mark.usefixtures("lines")
    def test_a_queue_that_refuses_this_loop_ends_the_start(
        self, async_jobs: AsyncMemoryQueue
    ) -> None:
        class Elsewhere(AsyncMemoryQueue):
            async def describe(self) -> QueueInfo:
                raise ConfigurationError("made on another loop")

        with pytest.raises(ConfigurationError, match="another loop"):
            Worker(async_group_of(Elsewhere("jobs")), {"a": print}).run(burst=True)

    @pytest.mark.usefixtures("lines")
    def test_a_stop_while_it_waits_for_a_queue_leaves_nothing_behind(self) -> None:
        asked = threading.Event()

        class Hangs(AsyncMemoryQueue):
            async def describe(self) -> QueueInfo:
                asked.set()
                await asyncio.sleep(60)
                return await super().describe()

        with serving(Worker(async_group_of(Hangs("jobs")), {"a": print}, **QUICK)) as served:
            assert asked.wait(5)
            stopped_at = time.monotonic()
        assert time.monotonic() - stopped_at < 1
        assert served.code == 0
        until(lambda: not [one for one in threading.enumerate() if one.name == "jobq-start"])
        assert own_loops() == set()
