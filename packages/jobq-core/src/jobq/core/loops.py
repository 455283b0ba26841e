"""The loop that something belongs to, and a lock that goes along."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from weakref import ref

from jobq.core.errors import ConfigurationError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class Home:
    """The one loop of one process on which something may be used.

    That is the loop that runs where this is made, else the one of its first `check`. `what` and
    `remedy` are for the error.
    """

    def __init__(self, what: str, remedy: str) -> None:
        self._what = what
        self._remedy = remedy
        self._loop: ref[AbstractEventLoop] | None = None
        self._pid = 0
        running = running_loop()
        if running is not None:
            self._settle(running)

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that it belongs to."""
        return self._loop is not None and self._pid != os.getpid()

    def check(self) -> None:
        """Raises `ConfigurationError` on another loop, on none, and after a fork."""
        running = running_loop()
        if running is None:
            raise ConfigurationError(f"{self._what} is used on a running event loop: await it")
        if self._loop is None:
            self._settle(running)
        elif self.forked:
            raise ConfigurationError(
                f"{self._what} of process {self._pid} can't be used after a fork, in process "
                f"{os.getpid()}: {self._remedy}"
            )
        elif self._loop() is not running:
            raise ConfigurationError(
                f"{self._what} belongs to another event loop than the one that runs here: "
                f"{self._remedy}"
            )

    def leave(self) -> None:
        """Belong to no loop; the next `check` decides anew."""
        self._loop = None

    def _settle(self, loop: AbstractEventLoop) -> None:
        self._loop, self._pid = ref(loop), os.getpid()


class LoopLock:
    """A lock for one loop at a time: on another one it is a new one."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._loop: ref[AbstractEventLoop] | None = None

    def here(self) -> asyncio.Lock:
        """That of the running loop."""
        running = asyncio.get_running_loop()
        if self._loop is None or self._loop() is not running:
            self._lock, self._loop = asyncio.Lock(), ref(running)
        return self._lock

    def locked(self) -> bool:
        return self._lock.locked()


def running_loop() -> AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
