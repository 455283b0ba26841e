"""Where time goes when nothing happens."""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING

from jobq.worker.engine.commands import JobEnded, Nack
from jobq.worker.engine.engine import PULSE_SECONDS
from jobq.worker.engine.events import Tick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.core.memory import ManualClock
    from jobq.worker.engine.commands import Command
    from jobq.worker.engine.events import Event
    from jobq.worker.testing.receives import Receives

# What rounding leaves of a step is not worth steps of its own.
SHORTEST_STEP_SECONDS = 0.001


class Travel:
    """Moves the clock on to what happens next, and remembers when messages come back."""

    def __init__(self, clock: ManualClock, receives: Receives) -> None:
        self._clock = clock
        self._receives = receives
        self._returns: list[float] = []

    def note(self, command: Command) -> None:
        if isinstance(command, Nack):
            heappush(self._returns, self._clock.now() + command.delay)
        elif isinstance(command, JobEnded):
            # Where it was left, its message comes back then; where it wasn't, nothing happens.
            heappush(self._returns, command.lease.expires_at)

    def go(self, wake_at: float) -> Sequence[Event]:
        """Move the clock no further than `wake_at`; returns what to tell the engine.

        While only a retry is waited for, that is one leap. The engine takes so long a silence for a
        standstill of the process, in which the receives that were out came back with nothing.
        """
        now = self._clock.now()
        if self._receives.idle:
            moment = min(wake_at, self._next_return(now))
            if now + PULSE_SECONDS < moment < inf:
                self._clock.advance(moment - now)
                return [Tick(), *self._receives.give_up()]
        moment = min(wake_at, self._receives.next_until(), now + PULSE_SECONDS)
        self._clock.advance(max(moment - now, SHORTEST_STEP_SECONDS))
        return [Tick()]

    def _next_return(self, now: float) -> float:
        while self._returns and self._returns[0] <= now:
            heappop(self._returns)
        return self._returns[0] if self._returns else inf
