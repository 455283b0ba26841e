"""The clocks that an in-memory queue can live by: the system's, or one that a test moves."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from jobq.core import clock as system
from jobq.core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager


class Clock(Protocol):
    """What an in-memory queue asks of time. All values are seconds."""

    def now(self) -> float:
        """The clock that leases, delays and waits are dated on; it never goes back."""
        ...

    def unix_time(self) -> float:
        """The same moment as Unix time, for `Lease.sent_at`."""
        ...

    def seconds_until(self, moment: float) -> float | None:
        """How long a waiter may sleep until `now()` is `moment`; None: until it is woken."""
        ...

    def waking(self, wake: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `wake`, from any thread, whenever the clock jumps while the context is open."""
        ...


class SystemClock:
    """Real time; it never jumps."""

    def now(self) -> float:
        return system.now()

    def unix_time(self) -> float:
        return time.time()

    def seconds_until(self, moment: float) -> float | None:
        # A condition refuses more than TIMEOUT_MAX; waking early is harmless.
        return min(max(0.0, moment - system.now()), 3600.0)

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Generator[None]:
        yield


class ManualClock:
    """Time that stands still until `advance` is called, from any thread.

    A long poll on a queue with this clock ends when a message comes or the clock has been advanced
    past its wait: a test that polls with a `wait` needs another thread, or task, that advances.
    """

    def __init__(self, *, now: float = 0.0, unix_time: float = 1_800_000_000.0) -> None:
        self._now = now
        self._offset = unix_time - now
        self._changed = threading.Condition()
        self._wakes: list[Callable[[], None]] = []

    def now(self) -> float:
        return self._now

    def unix_time(self) -> float:
        return self._now + self._offset

    def seconds_until(self, moment: float) -> float | None:
        return None

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Generator[None]:
        with self._changed:
            self._wakes.append(wake)
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._wakes.remove(wake)

    @property
    def waiting(self) -> int:
        """How many long polls wait for this clock now."""
        return len(self._wakes)

    def until_waiting(self, count: int = 1, *, timeout: float = 5) -> bool:
        """Block until `count` long polls wait, `timeout` real seconds at most; tells whether."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._wakes) >= count, timeout)

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`, 0 or more, and wake what waits. Raises `ConfigurationError`."""
        if not seconds >= 0:
            raise ConfigurationError(
                f"a clock only goes forward: advance by 0 or more, not {seconds!r}"
            )
        with self._changed:
            self._now += seconds
            wakes = list(self._wakes)
        # Outside the lock: a wake takes its queue's lock, under which a poll takes this one.
        for wake in wakes:
            wake()
