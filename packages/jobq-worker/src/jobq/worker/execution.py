"""One run of a job: its handler inside its hooks, up to the end of both."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import sys
import threading
import traceback
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from jobq.core import ConfigurationError, Job
from jobq.core.middleware import HandlerRun, Hook, call_async, call_sync

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jobq.worker.dispatch import Record
    from jobq.worker.engine.commands import Run
    from jobq.worker.handlers import HandlerFunction

    Settle: TypeAlias = Callable[[Run, Awaitable[Any]], Any]
    """Waits, in a thread, for what a sync handler returned."""


class Ready(NamedTuple):
    """A job that is about to run, and its handler's function."""

    job: Job
    function: HandlerFunction


class Execution:
    """One run of a job: the handler, and what its hooks make of it on the way out."""

    __slots__ = (
        "_ended",
        "_function",
        "_pid",
        "_run",
        "_settle",
        "_task",
        "_turn",
        "_wake",
        "handler_run",
    )

    def __init__(self, run: Run, ready: Ready, settle: Settle | None = None) -> None:
        self._run = run
        self._function = ready.function
        self._settle = settle
        self._pid = os.getpid()
        # Whoever takes it out decides whether the handler starts: its call, or the chain's end.
        self._turn = [None]
        self._ended = False
        self._task: asyncio.Task[Any] | None = None
        self._wake: Callable[[], object] | None = None
        self.handler_run = HandlerRun()

    def call(self, hooks: tuple[Hook, ...], job: Job) -> Any:
        """Run the handler inside `hooks`, in this thread unless a hook has it otherwise."""
        if not hooks:
            return self._handle(job)
        inner = partial(self._inside, hooks[1:])
        return call_sync(hooks[:1], inner, job, queue=self._run.queue)

    async def call_async(self, hooks: tuple[Hook, ...], job: Job) -> Any:
        """Run the handler inside `hooks`, in this task unless a hook has it otherwise."""
        if not hooks:
            return await self._handle_async(job)
        inner = partial(self._inside_async, hooks[1:])
        return await call_async(hooks[:1], inner, job, queue=self._run.queue)

    def wait(self) -> None:
        """Wait for a handler that hooks left behind, in another thread; it can't start any more."""
        if self._ended or self._take_turn():
            return
        ended = threading.Event()
        self._wake = ended.set
        while not self._ended:
            ended.wait()

    async def wait_async(self) -> None:
        """The same for one in another task, which is cancelled where this job is."""
        if self._ended or self._take_turn():
            return
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        self._wake = partial(loop.call_soon_threadsafe, ended.set)
        record: Record = self._run.job
        if record.lease_lost.is_set():
            self._cancel()
        while not self._ended:
            try:
                await ended.wait()
            except asyncio.CancelledError:
                self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel("the lease of this job's message is lost")

    def _inside(self, hooks: tuple[Hook, ...], job: Job) -> Any:
        try:
            answer = self.call(hooks, job)
        except BaseException as error:
            self.handler_run.note(error)
            raise
        self.handler_run.note(None)
        return answer

    async def _inside_async(self, hooks: tuple[Hook, ...], job: Job) -> Any:
        try:
            answer = await self.call_async(hooks, job)
        except BaseException as error:
            self.handler_run.note(error)
            raise
        self.handler_run.note(None)
        return answer

    def _handle(self, job: Job) -> Any:
        self._start()
        try:
            answer = self._function(job.payload)
            while answer is not None and self._settle and inspect.isawaitable(answer):
                answer = self._settle(self._run, answer)
            self.handler_run.returned = True
        except BaseException as error:
            self.handler_run.error = error
            raise
        finally:
            self._end()
        return answer

    async def _handle_async(self, job: Job) -> Any:
        self._start()
        self._task = asyncio.current_task()
        try:
            answer = await self._function(job.payload)
            while answer is not None and inspect.isawaitable(answer):
                answer = await answer
            self.handler_run.returned = True
        except BaseException as error:
            self.handler_run.error = error
            raise
        finally:
            self._end()
        return answer

    def _start(self) -> None:
        if not self._take_turn():
            raise ConfigurationError(
                "call_next was called after the consume hooks around it had ended: "
                "a hook waits for its call_next, or doesn't call it"
            )
        self.handler_run.started = True

    def _take_turn(self) -> bool:
        try:
            self._turn.pop()
        except IndexError:
            return False
        return True

    def _end(self) -> None:
        if os.getpid() != self._pid:
            _end_fork(self.handler_run.error)
        # The log fields that hooks and handler bound, before the hooks' ends unbind them.
        record: Record = self._run.job
        record.context = copy_context()
        self._ended = True
        if self._wake is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed: nobody waits
                self._wake()


def _end_fork(error: BaseException | None) -> NoReturn:
    """End a process that a handler forked and that came back out of it.

    It is a copy of the worker with this one thread, and would settle the message as well.
    """
    code: object = None if error is None else 1
    if isinstance(error, SystemExit):
        code = error.code
    elif error is not None:
        traceback.print_exception(error)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
