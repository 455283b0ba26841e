"""SIGTERM and SIGINT: the first is a stop, the second ends the process at once."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Supervisors signal a process and then its group, which it is in: that is one request.
SAME_SIGNAL_SECONDS = 0.02


def can_handle_signals() -> bool:
    """Python lets only the main thread set handlers."""
    return threading.current_thread() is threading.main_thread()


class StopSignals:
    """While entered, in the main thread, the first signal calls `stop` there.

    `wait` sleeps until `wake` was called, from any thread; a signal interrupts it, whichever thread
    the system gave that to. What handled signals before handles them again after. A process that a
    handler forks is none of ours: there a signal does what it does by default.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._first_at: float | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._fd_before = -1
        self._ended = False
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._fd_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            self._before[number] = signal.signal(number, self._handle)
        return self

    def wake(self) -> None:
        """Let `wait` return."""
        self._ended = True
        with contextlib.suppress(OSError):  # a signal came first, and nobody waits any more
            self._writer.send(b"\0")

    def wait(self) -> None:
        while not self._ended:
            select.select([self._reader], [], [])
            self._reader.recv(4096)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        signal.set_wakeup_fd(self._fd_before)
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        self._reader.close()
        self._writer.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            return
        now = time.monotonic()
        if self._first_at is None:
            self._first_at = now
            self._stop()
        elif now - self._first_at > SAME_SIGNAL_SECONDS:
            os._exit(128 + number)
