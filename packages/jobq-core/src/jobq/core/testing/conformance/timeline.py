"""How time passes for the suite: really, or at once."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from jobq.core import clock as system

if TYPE_CHECKING:
    from jobq.core.memory import ManualClock


class Timeline(Protocol):
    """Time as the queues under test see it, in seconds."""

    @property
    def travels(self) -> bool:
        """Whether hours cost nothing; tests that need them are skipped where they do."""
        ...

    @property
    def poll_seconds(self) -> int:
        """The wait of a receive for what is there; 0 where nothing comes by waiting."""
        ...

    def now(self) -> float:
        """The clock that `Lease.expires_at` is dated on."""
        ...

    def unix_time(self) -> float:
        """The clock that `Lease.sent_at` is dated on."""
        ...

    def sleep(self, seconds: float) -> None: ...

    def until_polling(self) -> None:
        """Return once a long poll that another thread has just begun is really out."""
        ...


class RealTime:
    """For queues on a server."""

    travels = False
    poll_seconds = 1

    def now(self) -> float:
        return system.now()

    def unix_time(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def until_polling(self) -> None:
        time.sleep(0.3)


class ManualTime:
    """For queues in memory."""

    travels = True
    poll_seconds = 0

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.now()

    def unix_time(self) -> float:
        return self._clock.unix_time()

    def sleep(self, seconds: float) -> None:
        self._clock.advance(seconds)

    def until_polling(self) -> None:
        assert self._clock.until_waiting(1), "no long poll waits on the clock"
