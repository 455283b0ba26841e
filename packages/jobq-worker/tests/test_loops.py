"""The loop of the handlers under handlers that would end it."""

import asyncio
import sys
import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any

import pytest
from working import QUICK, group_of

from jobq.core.memory import MemoryQueue
from jobq.worker import Worker
from jobq.worker.loops import DaemonExecutor, WorkerLoop


async def _exits(error: type[BaseException]) -> None:
    raise error


@pytest.mark.usefixtures("short_bursts")
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_leaves_the_loop_from_a_task_of_a_handler_reaches_that_handler_alone(
    error: type[BaseException],
) -> None:
    seen: SimpleQueue[str] = SimpleQueue()

    async def gathers(payload: dict[str, Any]) -> None:
        try:
            await asyncio.gather(_exits(error))
        except BaseException as raised:  # noqa: BLE001
            seen.put(type(raised).__name__)

    async def after(payload: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        seen.put("after")

    jobs = MemoryQueue("jobs")
    queues = group_of(jobs)
    queues.enqueue("jobs", "gathers")
    queues.enqueue("jobs", "after")
    handlers = {"gathers": gathers, "after": after}
    Worker(queues, handlers, **QUICK).run(burst=True)
    assert {seen.get_nowait(), seen.get_nowait()} == {error.__name__, "after"}
    assert jobs.stats().in_flight == 0


@pytest.mark.usefixtures("short_bursts")
def test_a_handler_that_stops_the_loop_stops_no_job() -> None:
    async def stops(payload: dict[str, Any]) -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)

    jobs = MemoryQueue("jobs")
    queues = group_of(jobs)
    for _ in range(2):
        queues.enqueue("jobs", "stops")
    Worker(queues, {"stops": stops}, **QUICK).run(burst=True)
    stats = jobs.stats()
    assert stats.waiting + stats.in_flight == 0


def test_to_thread_runs_in_daemon_threads_and_hands_on_what_is_raised() -> None:
    async def use() -> None:
        asyncio.get_running_loop().set_default_executor(DaemonExecutor(context=copy_context()))
        thread = await asyncio.to_thread(threading.current_thread)
        assert thread.daemon
        with pytest.raises(SystemExit):
            await asyncio.to_thread(sys.exit, 3)
        assert await asyncio.gather(*(asyncio.to_thread(abs, -n) for n in range(50))) == [
            *range(50)
        ]

    asyncio.run(use())


class TestTheWorkersOwnLoop:
    def test_it_ends_and_closes_over_a_task_that_holds_its_cancellation_back(self) -> None:
        loop, began = WorkerLoop(name="l", context=copy_context()), threading.Event()
        loops: list[asyncio.AbstractEventLoop] = []

        async def stubborn() -> None:
            loops.append(asyncio.get_running_loop())
            began.set()
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(60)
            await asyncio.sleep(60)

        loop.start(stubborn)
        assert began.wait(5)
        loop.close()
        loop.join(seconds=5)
        assert loops[0].is_closed()

    def test_whoever_waits_for_an_answer_waits_no_longer_than_the_loop_is_there(self) -> None:
        loop, let_go = WorkerLoop(name="l", context=copy_context()), threading.Event()
        ended: SimpleQueue[type[BaseException]] = SimpleQueue()

        def wait() -> None:
            try:
                loop.wait(lambda: asyncio.sleep(0))
            except BaseException as error:  # noqa: BLE001
                ended.put(type(error))

        loop.call(let_go.wait, 10)
        waiting = threading.Thread(target=wait)
        waiting.start()
        loop.close()
        assert ended.get(timeout=5) is CancelledError
        let_go.set()
        loop.join(seconds=5)
        waiting.join(5)
        with pytest.raises(RuntimeError):
            loop.wait(lambda: asyncio.sleep(0))

    def test_it_hands_on_what_is_raised_and_gives_up_after_so_many_seconds(self) -> None:
        loop = WorkerLoop(name="l", context=copy_context())
        with pytest.raises(SystemExit):
            loop.wait(lambda: _exits(SystemExit))
        with pytest.raises(TimeoutError):
            loop.wait(lambda: asyncio.sleep(60), seconds=0.05)
        assert loop.wait(lambda: asyncio.sleep(0, "answered")) == "answered"
        loop.close()
        loop.join(seconds=5)
