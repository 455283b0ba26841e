"""Receives of sync queues, inside their poll hooks."""

from __future__ import annotations

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
        self._log = get_logger("jobq.worker")
        self.examine = examine
        self.clock = clock
        self.stop = stop
        self.due: dict[int, float] = {}
        self.last_failure: JobqError | None = None

    def overdue(self, *, grace: float) -> bool:
        """Whether a receive is out for longer than its timeout and `grace` seconds."""
        now = self.clock()
        return any(due + grace < now for due in list(self.due.values()))

    def receive(self, command: Receive) -> Answer:
        source = self._sources[command.queue]
        attempt = Attempt(command, source, self)
        try:
            if source.hooks:
                # What a hook binds is gone before the next receive in this thread.
                copy_context().run(partial(call_sync, source.hooks, attempt, queue=command.queue))
            else:
                attempt()
        except BaseException as raised:  # noqa: BLE001 - what to make of it is the engine's to say
            return self._answer(attempt, raised)
        return self._answer(attempt, None)

    def _answer(self, attempt: Attempt, raised: BaseException | None) -> Answer:
        poll, queue = attempt.poll, attempt.queue
        if attempt.deliveries:
            if raised is not None:
                self._warn(queue, raised)
            return Received(poll, attempt.deliveries)
        failure = raised or attempt.failure
        if failure is not None:
            what = "a receive" if failure is attempt.failure else "a poll hook"
            self.last_failure = error = as_jobq_error(failure, f"{what} of queue {queue!r}")
            return ReceiveFailed(poll, error)
        return Received(poll) if attempt.asked else ReceiveSkipped(poll)

    def _warn(self, queue: str, raised: BaseException) -> None:
        with suppress(Exception):  # messages are in hand: no log is worth them
            self._log.warning("poll_hook_failed", queue=queue, exception=traceback_of(raised))


class Attempt:
    """What the hooks of one receive wrap: calling it receives, and returns how many came.

    It receives nothing after a stop. `asked` is whether it tried, `failure` what that raised.
    """

    def __init__(self, command: Receive, source: Source, polls: Polls) -> None:
        self._command = command
        self._source = source
        self._polls = polls
        self.poll = command.poll
        self.queue = command.queue
        self.deliveries: tuple[Delivery, ...] = ()
        self.asked = False
        self.failure: BaseException | None = None

    def __call__(self) -> int:
        command, polls = self._command, self._polls
        if polls.stop.requested:
            return 0
        self.asked = True
        polls.due[self.poll] = polls.clock() + max(command.wait, self._source.timeout or 0)
        try:
            leases = self._source.queue.claim_batch(
                command.max_messages, visibility=command.visibility, wait=command.wait
            )
        except BaseException as error:
            self.failure = error
            raise
        finally:
            del polls.due[self.poll]
        self.deliveries = tuple([polls.examine(self.queue, lease) for lease in leases])
        return len(leases)
