"""The event loops that a worker's threads share: that of async handlers, and of async queues."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from jobq.core.logs import get_logger
from jobq.worker.faults import traceback_of
from jobq.worker.pools import Pool, spawn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextvars import Context

T = TypeVar("T")

# How long what still runs on our own loop may take over its cancellation when the worker ends.
FAREWELL_SECONDS = 1.0
SECOND_FAREWELL_SECONDS = 0.1
# As many as `ThreadPoolExecutor` has at most where it chooses by itself.
MOST_THREADS = 32


class WorkerLoop:
    """The loop given, or where there is none one in a daemon thread `name`, made when first used.

    Its methods are for other threads than the loop's. They raise `RuntimeError` once it is closed.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop | None = None, *, name: str, context: Context
    ) -> None:
        self._loop = loop
        self._name = name
        self._context = context
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._awaited: set[Future[Any]] = set()

    def closed(self) -> bool:
        """Whether the loop is closed, so that nothing runs on it any more."""
        return self._loop is not None and self._loop.is_closed()

    def call(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call it on the loop."""
        self._ready().call_soon_threadsafe(function, *arguments)

    def start(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Await `call()` on the loop, in a task; it must not raise."""

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(call())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self.call(begin)

    def wait(self, call: Callable[[], Awaitable[T]], *, seconds: float | None = None) -> T:
        """Await `call()` on the loop while this thread waits: returns or raises what that does.

        Raises `TimeoutError` after so many `seconds`, and `CancelledError` (of
        `concurrent.futures`) where the loop is closed meanwhile.
        """
        future: Future[T] = Future()

        async def answer() -> None:
            with suppress(InvalidStateError):  # nobody waits any more
                try:
                    answered = await call()
                except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                    future.set_exception(error)
                else:
                    future.set_result(answered)

        self._awaited.add(future)
        try:
            self.start(answer)
            if self._closing.is_set():
                future.cancel()
            return future.result(seconds)
        finally:
            self._awaited.discard(future)

    def close(self) -> None:
        """Begin to end the loop if it is our own: what still runs there is cancelled.

        On a loop that was given, what was begun here is.
        """
        with self._lock:
            self._closing.set()
            loop, thread = self._loop, self._thread
        for future in list(self._awaited):
            future.cancel()
        if loop is not None:
            with suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(self._cancel_begun if thread is None else loop.stop)

    def join(self, *, seconds: float) -> None:
        """Wait until a loop of our own that was closed has ended, for so long at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _cancel_begun(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    def _ready(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                if self._closing.is_set():
                    raise RuntimeError(f"{self._name} is closed")
                self._loop = loop = asyncio.new_event_loop()
                loop.set_default_executor(DaemonExecutor(context=self._context))
                self._thread = spawn(
                    lambda: _serve(loop, self._closing), name=self._name, context=self._context
                )
            return self._loop


class DaemonExecutor(ThreadPoolExecutor):
    """Where `asyncio.to_thread` runs: in threads that the interpreter doesn't wait for at exit."""

    def __init__(self, *, context: Context) -> None:
        super().__init__(max_workers=1)  # which starts no thread before it is asked to
        self._pool = Pool("jobq-to-thread", context=context, most=MOST_THREADS)

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
                future.set_exception(error)

        self._pool.submit(work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002
        """Let the threads go once they are done; waits for none."""
        self._pool.close()


def _serve(loop: asyncio.AbstractEventLoop, closing: threading.Event) -> None:
    asyncio.set_event_loop(loop)
    while not (closing.is_set() or loop.is_closed()):
        try:
            loop.run_forever()
        except BaseException as error:  # noqa: BLE001
            # SystemExit and KeyboardInterrupt in a task that a handler began (`gather`, `wait_for`)
            # leave the loop too. Whoever awaits that task gets them, once the loop goes on.
            with suppress(Exception):
                get_logger("jobq.worker").error("loop_left", exception=traceback_of(error))
    _cancel_all(loop, seconds=FAREWELL_SECONDS)
    # A plain hook in an async chain holds the first cancellation back, and no second one.
    _cancel_all(loop, seconds=SECOND_FAREWELL_SECONDS)
    if not asyncio.all_tasks(loop):
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _cancel_all(loop: asyncio.AbstractEventLoop, *, seconds: float) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=seconds))


async def result_of(awaitable: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """What came of it, nothing raised: a task that ends with SystemExit takes its loop along."""
    try:
        return await awaitable, None
    except BaseException as error:  # noqa: BLE001 - raised again by who waits for it
        return None, error
