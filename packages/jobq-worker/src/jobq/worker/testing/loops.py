"""Event loops for the handlers of a test that has none, or whose own is busy waiting."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from contextlib import AbstractAsyncContextManager
    from contextvars import Context

T = TypeVar("T")


class OwnLoop:
    """A loop made when first used; the thread's current loop stays what it is.

    Where a loop runs in the calling thread already, each call has one in another thread.
    """

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    @contextmanager
    def inside(self, manager: AbstractAsyncContextManager[object]) -> Generator[None]:
        """Have the manager entered on the loop while the context is open."""
        self.run(manager.__aenter__(), context=copy_context())
        try:
            yield
        finally:
            self.run(manager.__aexit__(None, None, None), context=copy_context())

    def run(self, coroutine: Coroutine[Any, Any, T], *, context: Context) -> T:
        """Block until it ends, in a task whose context is `context`."""
        if loop_is_running():
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(_run_there, coroutine, context).result()
        # Not `Runner.run`, in which Ctrl-C would cancel the job and end nothing else.
        loop = self._runner.get_loop()
        return loop.run_until_complete(loop.create_task(coroutine, context=context))


def _run_there(coroutine: Coroutine[Any, Any, T], context: Context) -> T:
    with asyncio.Runner() as runner:
        return runner.run(coroutine, context=context)


def loop_is_running() -> bool:
    """Whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
