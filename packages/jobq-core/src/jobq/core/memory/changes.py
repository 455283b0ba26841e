"""What a long poll waits for: a change of its queue."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import TracebackType


class Changes:
    """The changes of one queue, under the lock of its server, which is held inside `with`."""

    def __init__(self, lock: threading.RLock) -> None:
        self._condition = threading.Condition(lock)
        self._wakes: list[Callable[[], None]] = []

    def __enter__(self) -> None:
        self._condition.__enter__()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        self._condition.__exit__(exc_type, exc, traceback)

    def announce(self) -> None:
        """Wake every thread that waits, and call every wake."""
        with self._condition:
            self._condition.notify_all()
            for wake in self._wakes:
                wake()

    def wait(self, seconds: float | None) -> None:
        """Let the lock go until the next change, `seconds` at most."""
        self._condition.wait(seconds)

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Generator[None]:
        """Call `wake`, from any thread, with every change while the context is open.

        It is called under the lock, so it may not wait.
        """
        with self._condition:
            self._wakes.append(wake)
        try:
            yield
        finally:
            with self._condition:
                self._wakes.remove(wake)
