"""Receives inside their poll hooks; what the twins share is in `Outstanding` and `Attempt`."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from jobq.core.logs import get_logger
from jobq.core.middleware import Hook, call_async, call_sync
from jobq.worker.engine.events import Received, ReceiveFailed, ReceiveSkipped
from jobq.worker.faults import as_jobq_error, traceback_of
from jobq.worker.loops import result_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from jobq.core import AsyncQueue, JobqError, Lease, Queue
    from jobq.worker.engine.commands import Receive
    from jobq.worker.engine.events import Delivery
    from jobq.worker.loops import WorkerLoop

    Answer: TypeAlias = Received | ReceiveSkipped | ReceiveFailed
    Receiving: TypeAlias = Callable[[], Coroutine[Any, Any, int]]


@dataclass(slots=True)
class StopFlag:
    """Whether somebody asked for the end: an attribute, which a signal handler may set."""

    requested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One queue with its poll hooks; `timeout` is what a request may take, None if unknown."""

    queue: Queue
    hooks: tuple[Hook, ...] = ()
    timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncSource:
    """The same with an async queue."""

    queue: AsyncQueue
    hooks: tuple[Hook, ...] = ()
    timeout: float | None = None


class Outstanding:
    """The receives that are out, of queues of either kind.

    `examine` turns a received lease into what the engine is told of it.
    """

    def __init__(
        self,
        *,
        examine: Callable[[str, Lease], Delivery],
        clock: Callable[[], float],
        stop: StopFlag,
    ) -> None:
        self._attempts: dict[int, Attempt] = {}
        self.examine = examine
        self.clock = clock
        self.stop = stop
        self.stopped = False
        self.due: dict[int, float] = {}
        self.last_failure: JobqError | None = None

    def overdue(self, *, grace: float) -> bool:
        """Whether a receive is out for longer than its timeout and `grace` seconds."""
        now = self.clock()
        return any(due + grace < now for due in list(self.due.values()))

    def begin(
        self,
        command: Receive,
        source: Source | AsyncSource,
        answer: Callable[[Answer], object],
    ) -> Attempt:
        attempt = Attempt(command, source.timeout, self, answer)
        self._attempts[command.poll] = attempt
        if self.stopped:  # or its hooks might wait, and nobody would answer for it
            attempt.end()
        return attempt

    def finish(self, attempt: Attempt, raised: BaseException | None) -> None:
        """Its hooks have ended, with what they raised."""
        del self._attempts[attempt.command.poll]
        attempt.hooks_ended = True
        attempt.end(raised)

    def stop_waiting(self) -> None:
        """After a stop: answer for receives whose hooks wait, before their `call_next` or after."""
        self.stopped = True
        for attempt in list(self._attempts.values()):
            attempt.end()


class Polls:
    """Answers each `Receive` with one event; raises nothing."""

    def __init__(self, sources: Mapping[str, Source], outstanding: Outstanding) -> None:
        self._sources = sources
        self._outstanding = outstanding

    def receive(self, command: Receive, answer: Callable[[Answer], object]) -> None:
        """Calls `answer` once: with messages as soon as they are there, else when the hooks have
        ended, or after a stop while they still wait.
        """
        source = self._sources[command.queue]
        attempt = self._outstanding.begin(command, source, answer)
        raised: BaseException | None = None
        call = partial(_receive, source.queue, attempt)
        try:
            if source.hooks:
                # What a hook binds is gone before the next receive in this thread.
                copy_context().run(partial(call_sync, source.hooks, call, queue=command.queue))
            else:
                call()
        except BaseException as error:  # noqa: BLE001 - what to make of it is the engine's to say
            raised = error
        self._outstanding.finish(attempt, raised)


class AsyncPolls:
    """The same for async queues, on the loop that they belong to; in a task for each receive.

    Where hooks of one are `async def`, all of its hooks run on the loop `handlers`.
    """

    def __init__(
        self,
        sources: Mapping[str, AsyncSource],
        outstanding: Outstanding,
        *,
        handlers: WorkerLoop,
    ) -> None:
        self._sources = sources
        self._outstanding = outstanding
        self._handlers = handlers
        self._tasks: set[asyncio.Task[tuple[int, BaseException | None]]] = set()

    async def receive(self, command: Receive, answer: Callable[[Answer], object]) -> None:
        """Calls `answer` once: with messages as soon as they are there, else when the hooks have
        ended, or after a stop while they still wait. A hook that is cancelled, or gives up its
        `call_next`, cancels no receive. Returns at once where hooks run on the other loop.
        """
        source = self._sources[command.queue]
        attempt = self._outstanding.begin(command, source, answer)
        call = partial(_receive_async, source.queue, attempt)
        if not any(hook.awaited for hook in source.hooks):
            inner = partial(self._shielded, call) if source.hooks else call
            await self._run(source.hooks, inner, attempt)
            return
        inner = partial(self._from_elsewhere, call, asyncio.get_running_loop())
        try:
            self._handlers.start(partial(self._run, source.hooks, inner, attempt))
        except RuntimeError as error:  # it is closed, and the engine hears of it
            self._outstanding.finish(attempt, error)

    async def _run(
        self, hooks: tuple[Hook, ...], inner: Callable[[], Awaitable[int]], attempt: Attempt
    ) -> None:
        raised: BaseException | None = None
        try:
            await call_async(hooks, inner, queue=attempt.command.queue)
        except BaseException as error:  # noqa: BLE001 - what to make of it is the engine's to say
            raised = error
        self._outstanding.finish(attempt, raised)

    async def _from_elsewhere(self, call: Receiving, loop: asyncio.AbstractEventLoop) -> int:
        if self._outstanding.stop.requested:  # the loop of the queues may be closed by now
            return 0
        future = asyncio.run_coroutine_threadsafe(self._shield(call), loop)
        return _came(await asyncio.wrap_future(future))

    async def _shielded(self, call: Receiving) -> int:
        return _came(await self._shield(call))

    async def _shield(self, call: Receiving) -> tuple[int, BaseException | None]:
        task = asyncio.create_task(result_of(call()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)


def _came(result: tuple[int, BaseException | None]) -> int:
    came, error = result
    if error is not None:
        raise error
    return came


def _receive(queue: Queue, attempt: Attempt) -> int:
    """What the hooks of one receive wrap."""
    if not attempt.begin():
        return 0
    command = attempt.command
    try:
        leases = queue.claim_batch(
            command.max_messages, visibility=command.visibility, wait=command.wait
        )
    except BaseException as error:
        attempt.failed(error)
        raise
    return attempt.came(leases)


async def _receive_async(queue: AsyncQueue, attempt: Attempt) -> int:
    if not attempt.begin():
        return 0
    command = attempt.command
    try:
        leases = await queue.claim_batch(
            command.max_messages, visibility=command.visibility, wait=command.wait
        )
    except BaseException as error:
        attempt.failed(error)
        raise
    return attempt.came(leases)


class Attempt:
    """One receive, from its command to its answer; safe to use from several threads.

    It receives nothing after a stop.
    """

    def __init__(
        self,
        command: Receive,
        timeout: float | None,
        outstanding: Outstanding,
        answer: Callable[[Answer], object],
    ) -> None:
        self.command = command
        self._timeout = timeout
        self._outstanding = outstanding
        self._answer = answer
        self._lock = threading.Lock()
        self.hooks_ended = False
        self._answered = False
        self._under_way = False
        self._asked = False
        self._deliveries: tuple[Delivery, ...] = ()
        self._failure: BaseException | None = None
        self._raised: BaseException | None = None

    def begin(self) -> bool:
        """Whether to receive; then `came` or `failed` is called next."""
        outstanding, command = self._outstanding, self.command
        with self._lock:
            if self._answered or outstanding.stop.requested:
                return False
            self._asked = self._under_way = True
        longest = max(command.wait, self._timeout or 0)
        outstanding.due[command.poll] = outstanding.clock() + longest
        return True

    def came(self, leases: Sequence[Lease]) -> int:
        """Returns how many came."""
        examine, queue = self._outstanding.examine, self.command.queue
        try:
            self._deliveries = tuple([examine(queue, lease) for lease in leases])
        except BaseException as error:
            self.failed(error)
            raise
        self._returned()
        return len(leases)

    def failed(self, error: BaseException) -> None:
        self._failure = error
        self._returned()

    def end(self, raised: BaseException | None = None) -> None:
        """Answer, once, with what is known by now, unless the receive itself is still out.

        What its hooks `raised` while it is out is told with its answer.
        """
        with self._lock:
            raised = raised or self._raised
            if self._under_way:
                self._raised = raised
                return
            answered, self._answered = self._answered, True
            self._raised = None
        late = answered or bool(self._deliveries)
        if late and raised is not None and raised is not self._failure:
            self._warn(raised)
        if not answered:
            self._answer(self._event(raised))

    def _returned(self) -> None:
        del self._outstanding.due[self.command.poll]
        with self._lock:
            self._under_way = False
        # Messages in hand wait for no hook: their leases run.
        if self._outstanding.stopped or self.hooks_ended or self._deliveries:
            self.end()

    def _event(self, raised: BaseException | None) -> Answer:
        poll, queue = self.command.poll, self.command.queue
        if self._deliveries:
            return Received(poll, self._deliveries)
        failure = raised or self._failure
        if failure is not None:
            what = "a receive" if failure is self._failure else "a poll hook"
            error = as_jobq_error(failure, f"{what} of queue {queue!r}")
            self._outstanding.last_failure = error
            return ReceiveFailed(poll, error)
        return Received(poll) if self._asked else ReceiveSkipped(poll)

    def _warn(self, raised: BaseException) -> None:
        with suppress(Exception):  # messages are in hand: no log is worth them
            get_logger("jobq.worker").warning(
                "poll_hook_failed", queue=self.command.queue, exception=traceback_of(raised)
            )
