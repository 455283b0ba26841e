"""Receives of sync queues, inside their poll hooks."""

from __future__ import annotations

import threading
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from jobq.core.logs import get_logger
from jobq.core.middleware import Hook, call_sync
from jobq.worker.engine.events import Received, ReceiveFailed, ReceiveSkipped
from jobq.worker.faults import as_jobq_error, traceback_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobq.core import JobqError, Lease, Queue
    from jobq.worker.engine.commands import Receive
    from jobq.worker.engine.events import Delivery

    Answer: TypeAlias = Received | ReceiveSkipped | ReceiveFailed


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


class Polls:
    """Answers each `Receive` with one event; raises nothing.

    `examine` turns a received lease into what the engine is told of it.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        *,
        examine: Callable[[str, Lease], Delivery],
        clock: Callable[[], float],
        stop: StopFlag,
    ) -> None:
        self._sources = sources
        self._out: dict[int, Attempt] = {}
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

    def receive(self, command: Receive, answer: Callable[[Answer], object]) -> None:
        """Calls `answer` once: with messages as soon as they are there, else when the hooks have
        ended, or after a stop while they still wait.
        """
        source = self._sources[command.queue]
        attempt = Attempt(command, source, self, answer)
        raised: BaseException | None = None
        self._out[command.poll] = attempt
        try:
            if source.hooks:
                # What a hook binds is gone before the next receive in this thread.
                copy_context().run(partial(call_sync, source.hooks, attempt, queue=command.queue))
            else:
                attempt()
        except BaseException as error:  # noqa: BLE001 - what to make of it is the engine's to say
            raised = error
        del self._out[command.poll]
        attempt.hooks_ended = True
        attempt.end(raised)

    def stop_waiting(self) -> None:
        """After a stop: answer for receives whose hooks wait, before their `call_next` or after."""
        self.stopped = True
        for attempt in list(self._out.values()):
            attempt.end()


class Attempt:
    """What the hooks of one receive wrap: calling it receives, and returns how many came.

    It receives nothing after a stop.
    """

    def __init__(
        self, command: Receive, source: Source, polls: Polls, answer: Callable[[Answer], object]
    ) -> None:
        self._command = command
        self._source = source
        self._polls = polls
        self._answer = answer
        self._lock = threading.Lock()
        self.hooks_ended = False
        self._answered = False
        self._under_way = False
        self._asked = False
        self._deliveries: tuple[Delivery, ...] = ()
        self._failure: BaseException | None = None

    def __call__(self) -> int:
        polls = self._polls
        with self._lock:
            if self._answered or polls.stop.requested:
                return 0
            self._asked = self._under_way = True
        try:
            leases = self._claim()
            examined = [polls.examine(self._command.queue, lease) for lease in leases]
            self._deliveries = tuple(examined)
        except BaseException as error:
            self._failure = error
            raise
        finally:
            with self._lock:
                self._under_way = False
            # Messages in hand wait for no hook: their leases run.
            if polls.stopped or self.hooks_ended or self._deliveries:
                self.end()
        return len(leases)

    def end(self, raised: BaseException | None = None) -> None:
        """Answer, once, with what is known by now, unless the receive itself is still out."""
        with self._lock:
            if self._under_way:
                return
            answered, self._answered = self._answered, True
        late = answered or bool(self._deliveries)
        if late and raised is not None and raised is not self._failure:
            self._warn(raised)
        if not answered:
            self._answer(self._event(raised))

    def _claim(self) -> list[Lease]:
        command, polls = self._command, self._polls
        polls.due[command.poll] = polls.clock() + max(command.wait, self._source.timeout or 0)
        try:
            return self._source.queue.claim_batch(
                command.max_messages, visibility=command.visibility, wait=command.wait
            )
        finally:
            del polls.due[command.poll]

    def _event(self, raised: BaseException | None) -> Answer:
        poll, queue = self._command.poll, self._command.queue
        if self._deliveries:
            return Received(poll, self._deliveries)
        failure = raised or self._failure
        if failure is not None:
            what = "a receive" if failure is self._failure else "a poll hook"
            error = as_jobq_error(failure, f"{what} of queue {queue!r}")
            self._polls.last_failure = error
            return ReceiveFailed(poll, error)
        return Received(poll) if self._asked else ReceiveSkipped(poll)

    def _warn(self, raised: BaseException) -> None:
        with suppress(Exception):  # messages are in hand: no log is worth them
            get_logger("jobq.worker").warning(
                "poll_hook_failed", queue=self._command.queue, exception=traceback_of(raised)
            )
