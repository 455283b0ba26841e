"""The loop of the handlers under handlers that would end it."""

import asyncio
import sys
import threading
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any

import pytest
from working import QUICK, group_of

from jobq.core.memory import MemoryQueue
from jobq.worker import Worker
from jobq.worker.loops import DaemonExecutor


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
