"""What the fixtures `run_jobs` and `run_jobs_async` give: two ways to run a burst's jobs."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Unpack

from jobq.core import ConfigurationError
from jobq.worker.handlers import handler_table
from jobq.worker.loops import result_of
from jobq.worker.options import Options
from jobq.worker.subscriptions import subscribe
from jobq.worker.testing.burst import Burst
from jobq.worker.testing.loops import OwnLoop, loop_is_running

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping
    from contextlib import AbstractAsyncContextManager

    from jobq.core import AsyncQueueGroup
    from jobq.core.testing.job_queues import JobQueues
    from jobq.worker.dispatch import Dispatcher, Record
    from jobq.worker.engine.commands import Run
    from jobq.worker.engine.events import Finished
    from jobq.worker.handlers import Handler, HandlerFunction
    from jobq.worker.options import WorkerOptions
    from jobq.worker.testing.outcomes import JobRuns


class RunJobs:
    """Runs the jobs of `queues`, in the calling thread, and moves their clock instead of sleeping.

    Jobs run one after another, whatever `concurrency` is; async handlers run on a loop of this
    call's own. Retries come at their full delay, without jitter. A handler that moves the clock
    past its visibility timeout loses its lease: nothing extends it meanwhile.

    `async_queues`, the `async_twin` of `queues`, is entered on the loop of the async handlers, so
    that they may `await async_queues.enqueue(…)`: what they send runs too.

    An exception in `through` leaves the call, where others are the job's own.
    """

    def __init__(
        self,
        queues: JobQueues,
        *,
        async_queues: AsyncQueueGroup | None = None,
        through: tuple[type[BaseException], ...] = (KeyboardInterrupt,),
    ) -> None:
        self._queues = queues
        self._entered: AbstractAsyncContextManager[object] = async_queues or nullcontext()
        self._through = through

    def __call__(
        self,
        handlers: Mapping[str, HandlerFunction | Handler],
        *,
        seconds: float | None = None,
        **options: Unpack[WorkerOptions],
    ) -> JobRuns:
        """What `Worker(queues, handlers, **options).run(burst=True)` would do, and what came of it.

        With `seconds` it stops after so many on the queues' clock. Raises `ConfigurationError` and,
        where the worker would end with an error or never, `JobqError`.
        """
        if loop_is_running():
            raise ConfigurationError(
                "run_jobs was called inside a running event loop, which would stand still "
                "meanwhile: use the fixture run_jobs_async, and `await run_jobs_async(…)`"
            )
        burst = _burst(self._queues, handlers, options, seconds=seconds, through=self._through)
        with OwnLoop() as loop, loop.inside(self._entered):
            steps = burst.steps()
            try:
                run = next(steps)
                while True:
                    run = steps.send(run_one(burst.dispatcher, run, loop))
            except StopIteration as end:
                return end.value


class AsyncRunJobs:
    """The same on the running loop: async handlers run there, sync ones in a thread."""

    def __init__(
        self,
        queues: JobQueues,
        *,
        async_queues: AsyncQueueGroup | None = None,
        through: tuple[type[BaseException], ...] = (KeyboardInterrupt,),
    ) -> None:
        self._queues = queues
        self._entered: AbstractAsyncContextManager[object] = async_queues or nullcontext()
        self._through = through

    async def __call__(
        self,
        handlers: Mapping[str, HandlerFunction | Handler],
        *,
        seconds: float | None = None,
        **options: Unpack[WorkerOptions],
    ) -> JobRuns:
        burst = _burst(self._queues, handlers, options, seconds=seconds, through=self._through)
        async with self._entered:
            steps = burst.steps()
            try:
                run = next(steps)
                while True:
                    run = steps.send(await _run_async(burst.dispatcher, run))
            except StopIteration as end:
                return end.value


def _burst(
    queues: JobQueues,
    handlers: Mapping[str, HandlerFunction | Handler],
    options: WorkerOptions,
    *,
    seconds: float | None,
    through: tuple[type[BaseException], ...],
) -> Burst:
    return Burst(
        queues,
        subscribe(queues),
        handler_table(handlers),
        Options(**options),
        seconds=seconds,
        through=through,
    )


def run_one(dispatcher: Dispatcher, run: Run, loop: OwnLoop) -> Finished:
    """Run one job in this thread; blocks until it has ended."""
    if _is_async(run):
        return loop.run(dispatcher.run_async(run), context=dispatcher.context.copy())

    def settle(_: Run, awaitable: Awaitable[Any]) -> Any:
        return _answer(loop.run(result_of(awaitable), context=copy_context()))

    return dispatcher.run_sync(run, settle)


async def _run_async(dispatcher: Dispatcher, run: Run) -> Finished:
    loop = asyncio.get_running_loop()
    if _is_async(run):
        context = dispatcher.context.copy()
        return await loop.create_task(dispatcher.run_async(run), context=context)

    def settle(_: Run, awaitable: Awaitable[Any]) -> Any:
        return _answer(asyncio.run_coroutine_threadsafe(result_of(awaitable), loop).result())

    return await asyncio.to_thread(dispatcher.run_sync, run, settle)


def _is_async(run: Run) -> bool:
    record: Record = run.job
    return record.handler is not None and record.handler.is_async


def _answer(result: tuple[Any, BaseException | None]) -> Any:
    answer, error = result
    if error is not None:
        raise error
    return answer
