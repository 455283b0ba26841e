"""The event loop that async handlers share."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from jobq.worker.pools import spawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

# How long what still runs on our own loop may take over its cancellation when the worker ends.
FAREWELL_SECONDS = 1.0


class HandlersLoop:
    """The caller's loop, or where there is none one in a daemon thread, made when first used."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None, *, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call it on the loop, from any thread. Raises `RuntimeError` once the loop is closed."""
        self._ready().call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """End the loop if it is our own: what still runs there is cancelled, and not waited for."""
        if self._thread is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(2 * FAREWELL_SECONDS)

    def _ready(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = loop = asyncio.new_event_loop()
                self._thread = spawn(
                    lambda: _serve(loop), name="jobq-handlers-loop", context=self._context
                )
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=FAREWELL_SECONDS))
    if not asyncio.all_tasks(loop):
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
