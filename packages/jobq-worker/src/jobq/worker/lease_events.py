"""The event behind `current_job().lease_lost`."""

from __future__ import annotations

import threading


class LeaseLost:
    """Set once, from any thread. As cheap as a flag until somebody waits for it."""

    __slots__ = ("_event", "_lock", "_set")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._event: threading.Event | None = None
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        with self._lock:
            self._set = True
            if self._event is not None:
                self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until it is set, `timeout` seconds at most; tells whether it is."""
        with self._lock:
            if self._set:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(timeout)
