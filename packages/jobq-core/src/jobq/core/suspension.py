"""Chains that stand still where they call on, so that many can share one batch call."""

from __future__ import annotations

from contextvars import copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from jobq.core.errors import ConfigurationError
from jobq.core.hook_threads import HookThread
from jobq.core.middleware import DrivenHook, call_sync

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.core.middleware import Hook


class SuspendedCall(Protocol):
    """A chain that has run as far as its innermost call.

    `calls_with` holds that call's arguments: give its outcome to `resume` or `fail`, once. Or it is
    None: a hook answered, with `result`.
    """

    calls_with: tuple[Any, ...] | None
    result: Any

    def resume(self, value: Any) -> Any:
        """Run the rest of the chain; returns or raises what the outermost hook does."""
        ...

    def fail(self, error: BaseException) -> Any: ...


def suspend(hooks: tuple[Hook, ...], *args: Any, queue: str) -> SuspendedCall:
    """Run a chain up to its innermost call, in its own copy of this context.

    Chains of `async def` hooks alone are held as coroutines. A plain hook can only wait on a stack:
    with one in it, a chain runs in a thread of its own, still one chain at a time.
    """
    if all(hook.awaited for hook in hooks):
        return _DrivenChain(hooks, args, queue)
    return _ThreadedChain(hooks, args, queue)


class _DrivenChain:
    def __init__(self, hooks: tuple[Hook, ...], args: tuple[Any, ...], queue: str) -> None:
        self._context = copy_context()
        self._entered: list[DrivenHook] = []
        self.calls_with: tuple[Any, ...] | None = args
        self.result: Any = None
        self._context.run(self._enter, hooks, args, queue)

    def resume(self, value: Any) -> Any:
        return self._context.run(self._leave, value, None)

    def fail(self, error: BaseException) -> Any:
        return self._context.run(self._leave, None, error)

    def _enter(self, hooks: tuple[Hook, ...], args: tuple[Any, ...], queue: str) -> None:
        for hook in hooks:
            try:
                driven = DrivenHook(hook, args, queue)
            except BaseException as error:  # noqa: BLE001 - it is thrown into the outer hooks
                self._leave(None, error)
                return
            if driven.calls_with is None:
                self._leave(driven.result, None)
                return
            self._entered.append(driven)
            self.calls_with = args = driven.calls_with

    def _leave(self, value: Any, error: BaseException | None) -> Any:
        self.calls_with = None
        while self._entered:
            driven = self._entered.pop()
            try:
                value = driven.resume(value) if error is None else driven.fail(error)
                error = None
            except BaseException as raised:  # noqa: BLE001 - it is thrown into the outer hooks
                error = raised
        if error is not None:
            raise error
        self.result = value
        return value


class _ThreadedChain:
    def __init__(self, hooks: tuple[Hook, ...], args: tuple[Any, ...], queue: str) -> None:
        def run(pause: Callable[..., Any]) -> Any:
            return call_sync(hooks, pause, *args, queue=queue)

        self._turn: SimpleQueue[None] = SimpleQueue()
        self.calls_with: tuple[Any, ...] | None = None
        self.result: Any = None
        name = hooks[0].name
        try:
            self._thread = HookThread(name, run, lambda: self._turn.put(None))
        except RuntimeError as error:
            raise ConfigurationError(
                f"no thread could be started for {name} ({error}): a batch holds one for each job "
                "while a produce hook is plain; send fewer at once, or make its hooks async"
            ) from error
        try:
            self._wait()
        except BaseException:
            if not self._thread.ended:
                self._thread.fail(RuntimeError(f"the batch that {name} belongs to was given up"))
            raise

    def resume(self, value: Any) -> Any:
        self._thread.resume(value)
        return self._wait()

    def fail(self, error: BaseException) -> Any:
        self._thread.fail(error)
        return self._wait()

    def _wait(self) -> Any:
        self._turn.get()
        self.calls_with = self._thread.calls_with
        if self._thread.ended:
            self.result = self._thread.outcome()
        return self.result
