"""The worker: serves queues until it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from jobq.core import ConfigurationError
from jobq.worker.handlers import handler_table
from jobq.worker.options import Options
from jobq.worker.polls import StopFlag
from jobq.worker.session import Session
from jobq.worker.signals import StopSignals, can_handle_signals
from jobq.worker.subscriptions import choose, groups_of, subscribe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from os import PathLike

    from jobq.core import AsyncQueueGroup, QueueGroup, RetryPolicy
    from jobq.worker.engine.config import OnBrokenQueue, OnMalformed, Polling
    from jobq.worker.handlers import Handler, HandlerFunction
    from jobq.worker.options import WorkerOptions
    from jobq.worker.session import Ending


class Worker:
    """Receives jobs from `queues` and runs the function that `handlers` has for each job type.

    `queues` is a group, sync or async, or several whose queues have distinct names. Of an async
    group the worker opens clients of its own, on a loop in a thread, and closes them when it ends.

    `concurrency` jobs run at once. `polling` is "weighted" (busy queues share starts by weight) or
    "strict" (earlier queues first). `idle_wait_seconds` is the long poll, 1 to 20 s. `claim_ahead`:
    what starts within so many seconds may be received already; `hold_limit`: what couldn't start
    for so many seconds is given back. `shutdown_timeout` is how long a stop waits, in seconds.
    `on_malformed`: a message that is no job is deleted, left, or goes to the dead-letter queue.
    `on_broken_queue`: a queue that is missing or denied later is backed off from, or ends the
    worker. `health_file` is touched every few seconds while the worker is well.

    Making one does no IO and starts no thread. It may run again once it has ended, never twice at
    once. Raises `ConfigurationError`.
    """

    def __init__(
        self,
        queues: QueueGroup | AsyncQueueGroup | Sequence[QueueGroup | AsyncQueueGroup],
        handlers: Mapping[str, HandlerFunction | Handler],
        *,
        concurrency: int = 1,
        polling: Polling = "weighted",
        idle_wait_seconds: float = 20,
        retry: RetryPolicy | None = None,
        on_malformed: OnMalformed = "delete",
        on_broken_queue: OnBrokenQueue = "back_off",
        claim_ahead: float = 1,
        hold_limit: float = 20,
        shutdown_timeout: float = 25,
        health_file: str | PathLike[str] | None = None,
    ) -> None:
        self._subscriptions = subscribe(queues)
        self._groups = groups_of(self._subscriptions)
        self._handlers = handler_table(handlers)
        self._options = Options(
            concurrency=concurrency,
            polling=polling,
            idle_wait_seconds=idle_wait_seconds,
            retry=retry,
            on_malformed=on_malformed,
            on_broken_queue=on_broken_queue,
            claim_ahead=claim_ahead,
            hold_limit=hold_limit,
            shutdown_timeout=shutdown_timeout,
            health_file=health_file,
        )
        self._lock = threading.Lock()
        self._session: Session | None = None
        self._stop = StopFlag()

    def override(
        self,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        polling: Polling | None = None,
        health_file: str | PathLike[str] | None = None,
    ) -> None:
        """Change settings of a worker that isn't running; what is None stays.

        `queues` are names, which choose and order; handlers may enqueue on the others, too. Raises
        `ConfigurationError` and `UnknownQueueError`.
        """
        given = {"concurrency": concurrency, "polling": polling, "health_file": health_file}
        changes: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        options = replace(self._options, **changes)
        if queues is not None:
            self._subscriptions = choose(self._subscriptions, queues)
        self._options = options

    def run(self, *, burst: bool = False) -> None:
        """Serve until stopped, or with `burst` until the queues are empty; blocks.

        In the main thread SIGTERM and SIGINT stop it, and a second one ends the process at once.
        Async handlers run on a loop in a thread. It enters all async groups before the first job
        and leaves them after the last, so that a handler may await their `enqueue`. Returns when
        all went well. Raises `ConfigurationError` for what can't work, and `SystemExit(1)`, after a
        log line, otherwise.
        """
        if can_handle_signals():
            with StopSignals(self.stop) as signals:
                ending = self._run(burst=burst, wake=signals.wake, wait=signals.wait)
        else:
            done = threading.Event()
            ending = self._run(burst=burst, wake=done.set, wait=done.wait)
        if isinstance(ending.error, ConfigurationError):
            raise ending.error
        if ending.code:
            raise SystemExit(ending.code) from ending.error

    async def run_async(self, *, burst: bool = False) -> None:
        """Serve from within a running loop, where async handlers run too; touches no signals.

        For handlers that enqueue on async groups, the caller has entered these (`async with`).
        Cancelling it is a stop: it ends, with `CancelledError`, once what ran has ended and all is
        settled, or after `shutdown_timeout`. A loop that is closed under it ends it within a second
        or two, with an error line. Raises the error that ended it.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Ending] = loop.create_future()

        def ended(ending: Ending) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                loop.call_soon_threadsafe(done.set_result, ending)

        self._begin(burst=burst, loop=loop, ended=ended)
        cancelled: asyncio.CancelledError | None = None
        try:
            while not done.done():
                try:
                    await asyncio.wait([done])
                except asyncio.CancelledError as error:
                    cancelled = error
                    self.stop()
        finally:
            self.stop()
            self._forget()
        if cancelled is not None:
            raise cancelled
        error = done.result().error
        if error is not None:
            raise error

    def stop(self) -> None:
        """Ask for the end: of this run, or of the next one where none is under way.

        From any thread or signal handler, any number of times. Returns at once.
        """
        self._stop.requested = True
        session = self._session
        if session is not None:
            session.request_stop()

    def _run(self, *, burst: bool, wake: Callable[[], None], wait: Callable[[], object]) -> Ending:
        endings: list[Ending] = []

        def ended(ending: Ending) -> None:
            endings.append(ending)
            wake()

        self._begin(burst=burst, loop=None, ended=ended)
        try:
            wait()
        finally:
            self._forget()
        return endings[0]

    def _begin(
        self,
        *,
        burst: bool,
        loop: asyncio.AbstractEventLoop | None,
        ended: Callable[[Ending], None],
    ) -> None:
        with self._lock:
            if self._session is not None:
                raise ConfigurationError(
                    "this worker is running already: make another Worker to run beside it"
                )
            self._session = session = Session(
                self._subscriptions,
                self._handlers,
                self._options,
                groups=self._groups,
                burst=burst,
                loop=loop,
                context=copy_context(),
                stop=self._stop,
                ended=ended,
            )
        # A stop that came before there was a session to tell.
        if self._stop.requested:
            session.request_stop()
        try:
            session.start()
        except BaseException:
            self._forget()
            raise

    def _forget(self) -> None:
        # What is left of the run keeps its own flag, which stays set.
        self._stop.requested = True
        self._stop = StopFlag()
        self._session = None


def run_worker(
    queues: QueueGroup | AsyncQueueGroup | Sequence[QueueGroup | AsyncQueueGroup],
    handlers: Mapping[str, HandlerFunction | Handler],
    **options: Unpack[WorkerOptions],
) -> None:
    """`Worker(queues, handlers, **options).run()`."""
    Worker(queues, handlers, **options).run()
