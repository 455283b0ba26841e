"""Where time goes when nothing happens."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from jobq.worker.engine.engine import PULSE_SECONDS
from jobq.worker.engine.events import Tick

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jobq.core.memory import ManualClock, MemoryServer
    from jobq.worker.engine.events import Event
    from jobq.worker.testing.receives import Receives

# What rounding leaves of a step is not worth steps of its own.
SHORTEST_STEP_SECONDS = 0.001


class Travel:
    """Moves the clock on to what happens next; `servers` hold all the queues."""

    def __init__(
        self, clock: ManualClock, servers: Collection[MemoryServer], receives: Receives
    ) -> None:
        self._clock = clock
        self._servers = servers
        self._receives = receives

    def go(self, wake_at: float) -> Sequence[Event]:
        """Move the clock no further than `wake_at`; returns what to tell the engine.

        While only a retry is waited for, that is one leap. The engine takes so long a silence for a
        standstill of the process, in which the receives that were out came back with nothing.
        """
        now = self._clock.now()
        moment = min(wake_at, self._next_due())
        if self._receives.idle and now + PULSE_SECONDS < moment < inf:
            self._clock.advance(moment - now)
            return [Tick(), *self._receives.give_up()]
        moment = min(moment, self._receives.next_until(), now + PULSE_SECONDS)
        self._clock.advance(max(moment - now, SHORTEST_STEP_SECONDS))
        return [Tick()]

    def _next_due(self) -> float:
        moments = [server.next_due() for server in self._servers]
        return min((moment for moment in moments if moment is not None), default=inf)
