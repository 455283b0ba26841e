"""Where the engine's commands are carried out; none of it in the thread that gives them."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from jobq.worker.engine.commands import (
    Abandon,
    Ack,
    AnnounceStop,
    DeadLetter,
    Extend,
    Nack,
    Receive,
    Run,
)
from jobq.worker.engine.events import Finished, NotStarted
from jobq.worker.pools import Pool

if TYPE_CHECKING:
    import threading
    from collections.abc import Awaitable, Callable, Coroutine
    from contextvars import Context

    from jobq.worker.dispatch import Dispatcher, Record
    from jobq.worker.engine.events import Event
    from jobq.worker.loops import HandlersLoop
    from jobq.worker.polls import Polls
    from jobq.worker.settling import Settling

    Order: TypeAlias = Receive | Run | Abandon | Ack | DeadLetter | Nack | Extend | AnnounceStop

Answer = TypeVar("Answer")


class Executors:
    """Carries out commands and hands on each one's answer, once: `bring` gets it in a thread of
    this object's own, where it may take its time, `put` gets it on a loop.

    Receives, deletes and hides, copies, extensions and sync handlers have threads of their own, so
    that none waits for another kind. Each queue has its own for all but receives and handlers: one
    that never answers costs no other its leases. `crashed` is told what should never be raised.
    """

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        polls: Polls,
        settling: Settling,
        loop: HandlersLoop,
        stopping: threading.Event,
        concurrency: int,
        bring: Callable[[Event], None],
        put: Callable[[Event], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        context = dispatcher.context
        self._dispatcher = dispatcher
        self._polls = polls
        self._stopping = stopping
        self._concurrency = concurrency
        self._loop = loop
        self._bring = bring
        self._put = put
        self._crashed = crashed
        self._polling = Pool("jobq-poll", context=context)
        self._calling: dict[tuple[str, str], Pool] = {}
        self._handling = self._pool("jobq-handler", most=concurrency)
        self._running: dict[int, Run] = {}
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._to_loop: list[Run] = []
        self._ways: dict[type[Any], Callable[[Any], None]] = {
            Receive: lambda command: self._polling.submit(self._receive, command),
            Ack: self._way("jobq-settle", settling.ack, most=concurrency + 1),
            DeadLetter: self._way("jobq-dead-letter", settling.dead_letter, most=1),
            Nack: self._way("jobq-settle", settling.nack, most=concurrency + 1),
            Extend: self._way("jobq-extend", settling.extend, most=2),
            Run: self._start,
            Abandon: self._abandon,
            AnnounceStop: self._announce_stop,
        }

    def begin(self, order: Order) -> None:
        """See that a command is carried out; waits for nothing. Async runs begin with `flush`."""
        self._ways[type(order)](order)

    def flush(self) -> None:
        """Wake the loop once for all the async runs that there are."""
        if self._to_loop:
            runs, self._to_loop = self._to_loop, []
            try:
                self._loop.call(self._start_tasks, runs)
            except RuntimeError:
                for run in runs:
                    self._finish(self._not_started(run))

    def stuck(self) -> bool:
        """Whether every slot is held by a job that is past its longest runtime."""
        now, runs = self._dispatcher.clock(), list(self._running.values())
        return len(runs) == self._concurrency and all(now >= run.runtime_ends for run in runs)

    def close(self) -> None:
        """Let the threads and our own loop go; waits for no handler."""
        for pool in (self._polling, self._handling, *self._calling.values()):
            pool.close()
        self._loop.close()

    def _way(self, name: str, call: Callable[[Any], Event], *, most: int) -> Callable[[Any], None]:
        """How a kind of call is made, `most` at once for each queue."""

        def answer(command: Any) -> Event | None:
            try:
                return call(command)
            except BaseException as error:  # noqa: BLE001 - the engine must hear of it
                self._crashed(error)
                return None

        def begin(command: Any) -> None:
            pool = self._calling.get((name, command.queue))
            if pool is None:
                pool = self._pool(name, most=most)
                self._calling[name, command.queue] = pool
            pool.submit(answer, command)

        return begin

    def _pool(self, name: str, *, most: int) -> Pool:
        """Threads whose work returns an event, or None after a crash."""

        def bring(answer: Event | None) -> None:
            if answer is not None:
                self._bring(answer)

        def put(answer: Event | None) -> None:
            if answer is not None:
                self._put(answer)

        # While this thread is busy others' answers come too, and one turn takes in all of them.
        context = self._dispatcher.context
        return Pool(name, context=context, most=most, then=bring, in_passing=put)

    def _receive(self, command: Receive) -> None:
        try:
            self._polls.receive(command, self._bring)
        except BaseException as error:  # noqa: BLE001 - the engine must hear of it
            self._crashed(error)

    def _announce_stop(self, command: AnnounceStop) -> None:
        self._stopping.set()
        self._polls.stop_waiting()

    def _start(self, run: Run) -> None:
        self._running[run.key] = run
        record: Record = run.job
        if record.handler is not None and record.handler.is_async:
            self._to_loop.append(run)
        else:
            self._handling.submit(self._run_sync, run)

    def _finish(self, finished: Finished) -> None:
        self._running.pop(finished.key, None)
        self._put(finished)

    def _not_started(self, run: Run) -> Finished:
        return Finished(run.key, NotStarted(), self._dispatcher.clock())

    def _run_sync(self, run: Run) -> Finished | None:
        try:
            finished = self._dispatcher.run_sync(run, self._settle)
        except BaseException as error:  # noqa: BLE001 - the engine must hear of it
            self._crashed(error)
            return None
        self._running.pop(run.key, None)
        return finished

    def _start_tasks(self, runs: list[Run]) -> None:
        for run in runs:
            context = self._dispatcher.context.copy()
            task = self._task(run, self._dispatcher.run_async(run), context)
            task.add_done_callback(lambda done, run=run: self._ended(run, done))

    def _task(
        self, run: Run, coroutine: Coroutine[Any, Any, Answer], context: Context
    ) -> asyncio.Task[Answer]:
        task = asyncio.get_running_loop().create_task(coroutine, context=context)
        self._tasks[run.key] = task
        task.add_done_callback(lambda _: self._tasks.pop(run.key, None))
        if run.job.lease_lost.is_set():
            self._cancel(run.key)
        return task

    def _ended(self, run: Run, task: asyncio.Task[Finished]) -> None:
        if task.cancelled():
            # Whatever begins answers for itself, so this was cancelled before its first step.
            self._finish(self._not_started(run))
        elif (error := task.exception()) is not None:
            self._crashed(error)
        else:
            self._finish(task.result())

    def _abandon(self, command: Abandon) -> None:
        run = self._running.get(command.key)
        if run is None:
            return
        record: Record = run.job
        record.lease_lost.set()
        if command.key in self._tasks or (record.handler is not None and record.handler.is_async):
            with contextlib.suppress(RuntimeError):  # a closed loop runs nothing any more
                self._loop.call(self._cancel, command.key)

    def _cancel(self, key: int) -> None:
        task = self._tasks.get(key)
        if task is not None:
            task.cancel("the lease of this job's message is lost")

    def _settle(self, run: Run, awaitable: Awaitable[Any]) -> Any:
        """Await, on the loop, what a sync handler returned; blocks the handler's thread."""
        ended: SimpleQueue[asyncio.Task[tuple[Any, BaseException | None]]] = SimpleQueue()
        context = copy_context()

        def start() -> None:
            self._task(run, result_of(awaitable), context).add_done_callback(ended.put)

        self._loop.call(start)
        answer, error = ended.get().result()
        if error is not None:
            raise error
        return answer


async def result_of(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """What came of it, nothing raised: a task that ends with SystemExit takes its loop along."""
    try:
        return await awaitable, None
    except BaseException as error:  # noqa: BLE001 - raised again in the handler's own thread
        return None, error
