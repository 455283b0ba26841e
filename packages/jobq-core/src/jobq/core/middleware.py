"""Hooks around producing, polling and consuming, and the two chains that run them.

Every hook runs in both chains, whatever its colour. In a sync chain an `async def` hook is driven
without a loop, so there it may await `call_next` alone. In an async chain a plain hook runs in a
thread, where `call_next` blocks.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import CoroutineType, coroutine
from typing import TYPE_CHECKING, Any, Literal, Protocol

from jobq.core.errors import ConfigurationError
from jobq.core.hook_threads import call_in_thread

if TYPE_CHECKING:
    from collections.abc import Generator

    from jobq.core.job import Job


class PollNext(Protocol):
    """What a `poll` hook calls on with: it receives, and returns how many messages came."""

    @property
    def queue(self) -> str:
        """The queue's name in its group."""
        ...

    def __call__(self) -> Any: ...


class JobMiddleware:
    """Hooks that all pass on; override what you need, as `def` or `async def`.

    A hook calls `call_next` once, or not at all: then it answers in place of what is inside. In an
    `async def` hook `call_next` is awaited. The first middleware in a list is the outermost.
    """

    def produce(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        """Around a send; returns the message id. What it raises reaches the caller."""
        return call_next(job)

    def poll(self, call_next: PollNext) -> Any:
        """Around one receive of the queue `call_next.queue`; returns how many messages came.

        `async def` hooks of an async queue run on the loop of the worker's async handlers, which is
        the caller's under `run_async()`; all plain ones run in threads.
        """
        return call_next()

    def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        """Around one run of a handler; returns what the handler returned."""
        return call_next(job)


@dataclass(frozen=True, slots=True)
class Hook:
    """One overridden hook; `name` is for messages, such as `OTelMiddleware.consume`."""

    function: Callable[..., Any]
    name: str
    awaited: bool


def hooks_of(
    middleware: Iterable[JobMiddleware], which: Literal["produce", "poll", "consume"]
) -> tuple[Hook, ...]:
    """The hooks that do something, outermost first. Raises `ConfigurationError`."""
    hooks: list[Hook] = []
    for one in middleware:
        if not isinstance(one, JobMiddleware):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"middleware takes instances of JobMiddleware subclasses, not {one!r}"
            )
        function = getattr(one, which)
        if getattr(function, "__func__", None) is getattr(JobMiddleware, which):
            continue
        name = f"{type(one).__name__}.{which}"
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise ConfigurationError(f"{name} must return, not yield: call call_next in it")
        hooks.append(Hook(function, name, inspect.iscoroutinefunction(function)))
    return tuple(hooks)


def call_sync(
    hooks: tuple[Hook, ...], innermost: Callable[..., Any], *args: Any, queue: str = ""
) -> Any:
    """Run hooks around `innermost(*args)` in this thread, in its context."""
    if not hooks:
        return innermost(*args)
    hook, inner = hooks[0], partial(call_sync, hooks[1:], innermost, queue=queue)
    if hook.awaited:
        driven = DrivenHook(hook, args, queue)
        if driven.calls_with is None:
            return driven.result
        try:
            value = inner(*driven.calls_with)
        except BaseException as error:  # noqa: BLE001 - it is thrown into the hook
            return driven.fail(error)
        return driven.resume(value)
    call_next = _Next(hook, inner, queue)
    return _answer(hook, call_next, hook.function(*args, call_next))


async def call_async(
    hooks: tuple[Hook, ...], innermost: Callable[..., Awaitable[Any]], *args: Any, queue: str = ""
) -> Any:
    """Run hooks around `await innermost(*args)`, all of it in the calling task and its context.

    Cancelling the task cancels what is innermost at the time. A plain hook can't be interrupted:
    its `call_next` raises `CancelledError`, and the chain waits for it to return; a second
    cancellation doesn't wait.
    """
    if not hooks:
        return await innermost(*args)
    hook, inner = hooks[0], partial(call_async, hooks[1:], innermost, queue=queue)
    if hook.awaited:
        call_next = _AwaitedNext(hook, inner, queue)
        try:
            answer = await hook.function(*args, call_next)
            call_next.check()
        finally:
            call_next.used = True
        return answer

    def run(pause: Callable[..., Any]) -> Any:
        call_next = _Next(hook, pause, queue)
        return _answer(hook, call_next, hook.function(*args, call_next))

    return await call_in_thread(hook.name, run, inner)


@dataclass(slots=True)
class HandlerRun:
    """What became of the inside of a consume chain, kept by whoever makes the calls of it.

    That is the handler, once it has started, else the innermost hook that ended in its place.
    """

    started: bool = False
    returned: bool = False
    error: BaseException | None = None

    def note(self, raised: BaseException | None) -> None:
        """A hook inside another ended: before the handler started it answered, or failed, for it.

        Called for the inner ones first.
        """
        if not (self.started or self.returned or self.error is not None):
            self.returned, self.error = raised is None, raised

    def judge(
        self, raised: BaseException | None
    ) -> tuple[BaseException | None, BaseException | None]:
        """What the job failed of, and what is only to be logged, when the chain raised `raised`.

        What a hook raises counts as the handler's until that has started; after it returned, the
        outcome stands; after it raised, its own exception counts, even where a hook swallowed it.
        """
        if not (self.returned or self.error is not None):
            return raised, None
        return self.error, None if raised is self.error else raised


class _Next:
    """`call_next` of a plain hook."""

    __slots__ = ("_hook", "_inner", "queue", "used")

    def __init__(self, hook: Hook, inner: Callable[..., Any], queue: str) -> None:
        self._hook = hook
        self._inner = inner
        self.queue = queue
        self.used = False

    def __call__(self, *args: Any) -> Any:
        self._take_turn()
        return self._inner(*args)

    def _take_turn(self) -> None:
        if self.used:
            raise ConfigurationError(
                f"{self._hook.name} called call_next a second time, or after it had returned: "
                "a hook calls it once or not at all"
            )
        self.used = True


class _AwaitedNext(_Next):
    """`call_next` of an `async def` hook."""

    __slots__ = ("_unawaited",)

    def __init__(self, hook: Hook, inner: Callable[..., Any], queue: str) -> None:
        super().__init__(hook, inner, queue)
        self._unawaited: CoroutineType[Any, Any, Any] | None = None

    def __call__(self, *args: Any) -> CoroutineType[Any, Any, Any]:
        call = self._call(*args)
        if not self.used:
            self._unawaited = call
        return call

    async def _call(self, *args: Any) -> Any:
        self._take_turn()
        self._unawaited = None
        return await self._inner(*args)

    def check(self) -> None:
        """Raise where the hook returned but forgot its `await`: it answered for nobody."""
        call, self._unawaited = self._unawaited, None
        if call is not None:
            call.close()
            raise ConfigurationError(
                f"{self._hook.name} called call_next without awaiting it, so nothing inside it "
                "ran: write `await call_next(…)`"
            )


def _answer(hook: Hook, call_next: _Next, result: Any) -> Any:
    """What a plain hook returned; a coroutine here means that nothing of the hook has run."""
    used, call_next.used = call_next.used, True
    if not used and isinstance(result, CoroutineType):
        result.close()
        raise ConfigurationError(
            f"{hook.name} is a plain function that returned a coroutine: make it `async def`, "
            "and its decorators too"
        )
    return result


class _Call:
    """What the coroutine of a driven hook yields when it awaits its `call_next`."""

    __slots__ = ("args",)

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.args = args


@coroutine
def _yield_call(*args: Any) -> Generator[_Call, Any, Any]:
    return (yield _Call(args))


class DrivenHook:
    """One `async def` hook, driven by hand as far as its `call_next` and then to its end.

    `calls_with` holds the arguments it passed on, or None where it answered itself with `result`;
    else `resume` or `fail` is called, once. Raises what the hook raises, and `ConfigurationError`
    where it awaits anything but `call_next`.
    """

    __slots__ = ("_call_next", "_coroutine", "_hook", "calls_with", "result")

    def __init__(self, hook: Hook, args: tuple[Any, ...], queue: str) -> None:
        self._hook = hook
        self._call_next = _AwaitedNext(hook, _yield_call, queue)
        self._coroutine = hook.function(*args, self._call_next)
        self.calls_with: tuple[Any, ...] | None = None
        self.result: Any = None
        self._step(self._coroutine.send, None)

    def resume(self, value: Any) -> Any:
        self.calls_with = None
        self._step(self._coroutine.send, value)
        return self.result

    def fail(self, error: BaseException) -> Any:
        self.calls_with = None
        try:
            self._step(self._coroutine.throw, error)
        except RuntimeError as raised:
            # No StopIteration leaves a coroutine (PEP 479), but here it was never the hook's.
            if isinstance(error, StopIteration) and raised.__cause__ is error:
                raise error from None
            raise
        return self.result

    def _step(self, move: Callable[[Any], Any], what: Any) -> None:
        try:
            awaited = move(what)
        except StopIteration as done:
            self.result = done.value
            self._call_next.used = True
            self._call_next.check()
            return
        except RuntimeError as raised:
            # asyncio's own functions look for a loop before they yield anything.
            if raised is not what and str(raised) == "no running event loop":
                raise self._refusal() from raised
            raise
        if isinstance(awaited, _Call):
            self.calls_with = awaited.args
            return
        with suppress(Exception):  # it may await again, or raise, while it is being closed
            self._coroutine.close()
        raise self._refusal()

    def _refusal(self) -> ConfigurationError:
        return ConfigurationError(
            f"{self._hook.name} awaited something other than call_next in a sync chain, where no "
            "loop runs: make the hook a plain function, or wait for nothing in it"
        )
