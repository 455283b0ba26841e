"""Poll hooks that take their time, or don't poll at all."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from jobq.core import JobMiddleware


class Pause(JobMiddleware):
    """Lets nothing be received."""

    def poll(self, call_next: Any) -> int:
        return 0


class LingerBefore(JobMiddleware):
    """Waits before each receive, in the way of `time.sleep`: nothing can interrupt it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def poll(self, call_next: Any) -> int:
        time.sleep(self._seconds)
        return call_next()


class LingerAfter(JobMiddleware):
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def poll(self, call_next: Any) -> int:
        received: int = call_next()
        time.sleep(self._seconds)
        return received


HOOKS: dict[str, Callable[..., JobMiddleware]] = {
    "pause": Pause,
    "linger_before": LingerBefore,
    "linger_after": LingerAfter,
}
