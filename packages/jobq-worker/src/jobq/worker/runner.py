"""What drives the engine, one thread at a time: events in, commands out."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

from jobq.worker.engine import PULSE_SECONDS
from jobq.worker.engine.commands import Exit, JobDiscarded, JobEnded, Notice
from jobq.worker.engine.events import Tick

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobq.worker.engine.commands import Command
    from jobq.worker.engine.engine import Engine
    from jobq.worker.engine.events import Event
    from jobq.worker.executors import Executors
    from jobq.worker.inbox import Inbox
    from jobq.worker.reporting import Reporting

# Nothing that the engine waits for is finer, and a clock that lags a little must not make it spin.
SHORTEST_WAIT_SECONDS = 0.001


class Runner:
    """Turns until the engine says `Exit`. Does no IO and waits for nothing but the inbox.

    The thread of `run` turns when time is due and for what a loop or a signal handler puts into
    `inbox`. One that calls `bring` takes one turn itself, and may find its own next work in what
    that hands out: between two jobs no thread is woken and none falls asleep.
    """

    _executors: Executors

    def __init__(
        self,
        engine: Engine,
        *,
        inbox: Inbox,
        reporting: Reporting,
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._inbox = inbox
        self._reporting = reporting
        self._clock = clock
        self._turning = threading.Lock()
        self._wakes_at = self._sleeps_until = -math.inf
        self._crash: BaseException | None = None
        self._end: Exit | None = None
        self.turned_at = clock()

    def bring(self, event: Event) -> None:
        """Have the engine take in `event`, in this thread unless another one is at it."""
        self._inbox.add(event)
        self._turn()

    def crash(self, error: BaseException) -> None:
        """End with `error`, from any thread: an answer that the engine waits for won't come."""
        self._crash = error
        self._inbox.ring()

    def run(self, executors: Executors) -> Exit:
        """Raises what a bug raises; what is in hand then comes back by its visibility timeout."""
        self._executors = executors
        self._inbox.add(Tick())
        while True:
            self._turn()
            if self._crash is not None:
                raise self._crash
            if self._end is not None:
                return self._end
            if not self._inbox.wait(self._rest()):
                self._inbox.add(Tick())

    def _rest(self) -> float:
        """How long nothing is due, in seconds."""
        now = self._clock()
        self._sleeps_until = min(self._wakes_at, now + PULSE_SECONDS)
        # Looked at once more: whoever turned meanwhile may not have seen the line above.
        until = min(self._wakes_at, self._sleeps_until)
        return max(until - now, SHORTEST_WAIT_SECONDS)

    def _turn(self) -> None:
        if not self._inbox or not self._turning.acquire(blocking=False):
            return
        try:
            self._step(self._inbox.take())
        except BaseException as error:  # noqa: BLE001 - the thread of `run` raises it
            self.crash(error)
        finally:
            self._turning.release()
        # What came meanwhile, from those that found the turn taken, is for the thread of `run`.
        if self._inbox:
            self._inbox.ring()

    def _step(self, events: Sequence[Event]) -> None:
        if self._crash is not None:
            return
        self.turned_at = now = self._clock()
        self._hand_out(self._engine.handle(events, now))
        self._wakes_at = self._engine.wake_at()
        if self._end is not None or self._wakes_at < self._sleeps_until:
            self._sleeps_until = -math.inf
            self._inbox.ring()

    def _hand_out(self, commands: Sequence[Command]) -> None:
        lines: list[JobEnded | JobDiscarded | Notice] = []
        executors = self._executors
        for command in commands:
            if isinstance(command, JobEnded | JobDiscarded | Notice):
                lines.append(command)
            elif isinstance(command, Exit):
                self._end = command
            else:
                executors.begin(command)
        executors.flush()
        if lines:
            self._reporting.write(lines)
