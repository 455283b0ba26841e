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
from jobq.worker.engine.events import Finished, LoopClosed, NotStarted
from jobq.worker.loops import result_of
from jobq.worker.queue_calls import Kind, answering_pool

if TYPE_CHECKING:
    import threading
    from collections.abc import Awaitable, Callable, Container, Coroutine
    from contextvars import Context

    from jobq.worker.dispatch import Dispatcher, Record
    from jobq.worker.engine.events import Event
    from jobq.worker.loops import WorkerLoop
    from jobq.worker.queue_calls import Call, QueueTasks, QueueThreads

    Order: TypeAlias = Call | Run | Abandon | AnnounceStop

Answer = TypeVar("Answer")


class Executors:
    """Carries out commands and hands on each one's answer, once: `bring` gets it in a thread of
    this object's own, where it may take its time, `put` gets it on a loop.

    Sync handlers have threads of their own, and no kind of call waits for another. The queues named
    in `awaited` are served by `tasks`, the others by `threads`. `stop_waiting` is called when a
    stop is announced, `crashed` with what should never be raised.
    """

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        threads: QueueThreads,
        tasks: QueueTasks,
        awaited: Container[str],
        loop: WorkerLoop,
        stopping: threading.Event,
        stop_waiting: Callable[[], None],
        concurrency: int,
        bring: Callable[[Event], None],
        put: Callable[[Event], None],
        crashed: Callable[[BaseException], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._threads = threads
        self._queue_tasks = tasks
        self._awaited = awaited
        self._stopping = stopping
        self._stop_waiting = stop_waiting
        self._concurrency = concurrency
        self._loop = loop
        self._put = put
        self._crashed = crashed
        self._handling = answering_pool(
            Kind("jobq-handler", concurrency), context=dispatcher.context, bring=bring, put=put
        )
        self._running: dict[int, Run] = {}
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._to_loop: list[Run] = []
        self._loop_closed = False
        self._ways: dict[type[Any], Callable[[Any], None]] = {
            **dict.fromkeys((Receive, Ack, DeadLetter, Nack, Extend), self._call),
            Run: self._start,
            Abandon: self._abandon,
            AnnounceStop: self._announce_stop,
        }

    def begin(self, order: Order) -> None:
        """See that a command is carried out; waits for nothing. What is async begins by `flush`."""
        self._ways[type(order)](order)

    def flush(self) -> None:
        """Wake each loop once for all that there is for it."""
        self._queue_tasks.flush()
        if self._loop.closed():
            self._miss_loop()
        elif self._to_loop:
            runs, self._to_loop = self._to_loop, []
            try:
                self._loop.call(self._start_tasks, runs)
            except RuntimeError:  # closed this very moment
                self._miss_loop()

    def _miss_loop(self) -> None:
        """Say that the handlers' loop is closed, and answer for what never got a task there."""
        self._to_loop = []
        if not self._loop_closed:
            self._loop_closed = True
            self._put(LoopClosed())
        for run in list(self._running.values()):
            if self._is_async(run) and run.key not in self._tasks:
                self._finish(self._not_started(run))

    def stuck(self) -> bool:
        """Whether every slot is held by a job that is past its longest runtime."""
        now, runs = self._dispatcher.clock(), list(self._running.values())
        return len(runs) == self._concurrency and all(now >= run.runtime_ends for run in runs)

    def close(self) -> None:
        """Let the threads go; waits for no handler."""
        self._threads.close()
        self._handling.close()

    def _call(self, call: Call) -> None:
        calls = self._queue_tasks if call.queue in self._awaited else self._threads
        calls.begin(call)

    def _announce_stop(self, command: AnnounceStop) -> None:
        self._stopping.set()
        self._stop_waiting()

    def _start(self, run: Run) -> None:
        self._running[run.key] = run
        if self._is_async(run):
            self._to_loop.append(run)
        else:
            self._handling.submit(self._run_sync, run)

    def _is_async(self, run: Run) -> bool:
        record: Record = run.job
        return record.handler is not None and record.handler.is_async

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
        if command.key in self._tasks or self._is_async(run):
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
