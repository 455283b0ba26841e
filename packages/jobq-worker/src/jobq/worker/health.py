"""A file whose age tells whether the worker turns."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from jobq.worker.pools import spawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context
    from os import PathLike

EVERY_SECONDS = 5.0


class HealthFile:
    """Touches a file every five seconds while `healthy()`; in a thread, for a disk may block.

    `failed` is told, once, of what keeps it from being touched.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        healthy: Callable[[], bool],
        failed: Callable[[OSError], None],
        context: Context,
    ) -> None:
        self._path = Path(path)
        self._healthy = healthy
        self._failed = failed
        self._closed = threading.Event()
        self._complained = False
        spawn(self._serve, name="jobq-health", context=context)

    def close(self) -> None:
        self._closed.set()

    def _serve(self) -> None:
        while not self._closed.is_set():
            if self._healthy():
                self._touch()
            self._closed.wait(EVERY_SECONDS)

    def _touch(self) -> None:
        try:
            self._path.touch()
        except OSError as error:
            if not self._complained:
                self._complained = True
                self._failed(error)
