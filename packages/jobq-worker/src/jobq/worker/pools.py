"""Threads for blocking work that keep no process alive.

`ThreadPoolExecutor` won't do: the interpreter joins its threads at exit, so one stuck handler would
hold up the end of the process.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    Work: TypeAlias = tuple[Callable[..., object], tuple[Any, ...]]


def spawn(function: Callable[[], None], *, name: str, context: Context) -> threading.Thread:
    """Start a daemon thread that runs `function` in a copy of `context`."""
    thread = threading.Thread(target=context.copy().run, args=(function,), name=name, daemon=True)
    thread.start()
    return thread


class Pool:
    """Daemon threads for one kind of work, made as they are needed, `most` at once.

    What is submitted must not raise: nobody would hear of it. Beyond `most` it waits its turn.

    `then` is called with what it returned, in its thread, which counts as free by then: the first
    work that `then` submits is that thread's next, and no other one is woken for it. While work
    waits already `in_passing` is called instead.
    """

    def __init__(
        self,
        name: str,
        *,
        context: Context,
        most: int | None = None,
        then: Callable[[Any], object] | None = None,
        in_passing: Callable[[Any], object] | None = None,
    ) -> None:
        self._name = name
        self._context = context
        self._most = most
        self._then = then
        self._in_passing = in_passing
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads = 0
        self._here = _Here()

    def submit(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run `function(*arguments)` in a thread of this pool.

        Raises `RuntimeError` where the system gives no thread and none is there yet.
        """
        here, work = self._here, (function, arguments)
        with self._lock:
            if here.may_keep and self._idle:
                self._idle -= 1
                here.may_keep, here.kept = False, work
                return
            self._work.put(work)
            if self._idle:
                self._idle -= 1
                return
            if self._threads == self._most:
                return
            self._threads += 1
            number = self._threads
        try:
            spawn(self._serve, name=f"{self._name}-{number}", context=self._context)
        except RuntimeError:
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    raise

    def close(self) -> None:
        """Let the threads go once they are done; waits for none."""
        for _ in range(self._threads):
            self._work.put(None)

    def _serve(self) -> None:
        here = self._here
        while (work := here.take() or self._work.get()) is not None:
            function, arguments = work
            returned = function(*arguments)
            # What it held must not live on until the next work comes.
            del work, function, arguments
            with self._lock:
                self._idle += 1
            here.may_keep = self._work.empty()
            then = self._then if here.may_keep else self._in_passing
            if then is not None:
                then(returned)
            here.may_keep = False
            del returned


class _Here(threading.local):
    """One thread's own: whether it may keep work for itself, and what it kept."""

    may_keep = False
    kept: Work | None = None

    def take(self) -> Work | None:
        kept, self.kept = self.kept, None
        return kept
