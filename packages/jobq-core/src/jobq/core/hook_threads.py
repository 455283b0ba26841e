"""Plain hooks on threads of their own, which hand their turn back where they call on."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from contextvars import Context, ContextVar, Token, copy_context
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class HookThread:
    """Runs `function(pause)` in a daemon thread, in a copy of the caller's context.

    Calls `on_turn` whenever it is the caller's turn: the function called `pause` (`calls_with`
    holds the arguments) and waits for `resume` or `fail`, or it has ended (`ended`).
    One thread a call costs less than the hop to it, and leaves nothing to carry over a fork.
    """

    def __init__(
        self,
        name: str,
        function: Callable[[Callable[..., Any]], Any],
        on_turn: Callable[[], object],
    ) -> None:
        self.context = copy_context()
        self.calls_with: tuple[Any, ...] | None = None
        self.ended = False
        self._function = function
        self._on_turn = on_turn
        self._replies: SimpleQueue[tuple[Any, BaseException | None, Context | None]] = SimpleQueue()
        self._value: Any = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name=f"jobq {name}", daemon=True).start()

    def resume(self, value: Any, context: Context | None = None) -> None:
        """Let `pause` return, with what `context` holds carried into the thread's own."""
        self.calls_with = None
        self._replies.put((value, None, context))

    def fail(self, error: BaseException, context: Context | None = None) -> None:
        """Let `pause` raise, now or, where it wasn't called yet, then."""
        self.calls_with = None
        self._replies.put((None, error, context))

    def outcome(self) -> Any:
        """What the function returned, or raises what it raised."""
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # or the traceback holds the frame that holds it
        return self._value

    def _run(self) -> None:
        try:
            self._value = self.context.run(self._function, self._pause)
        except BaseException as error:  # noqa: BLE001 - it is raised again where the chain goes on
            self._error = error
        self.ended = True
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits
            self._on_turn()

    def _pause(self, *args: Any) -> Any:
        self.calls_with = args
        self._on_turn()
        value, error, context = self._replies.get()
        if context is not None:
            Carried().carry(context)
        if error is not None:
            raise error
        return value


class Carried:
    """Carries the variables of another context into the current one."""

    def __init__(self) -> None:
        self._new: dict[ContextVar[Any], Token[Any]] = {}

    def carry(self, context: Context) -> None:
        """Set what differs; what an earlier call here added and `context` lost is unset again."""
        current = copy_context()
        for variable, value in context.items():
            if variable not in current:
                self._new[variable] = variable.set(value)
            elif current[variable] is not value:
                variable.set(value)
        for variable in [variable for variable in self._new if variable not in context]:
            variable.reset(self._new.pop(variable))


async def call_in_thread(
    name: str,
    function: Callable[[Callable[..., Any]], Any],
    inner: Callable[..., Awaitable[Any]],
) -> Any:
    """Run `function(call_next)` in a thread, and what it calls on with in this task.

    Context variables are carried both ways. A cancellation is raised in `inner` while that runs,
    else out of `call_next`; it is held back until the function has ended, a second one isn't.
    """
    turn = asyncio.Event()
    wake = partial(asyncio.get_running_loop().call_soon_threadsafe, turn.set)
    thread = HookThread(name, function, wake)
    carried = Carried()
    cancelled: asyncio.CancelledError | None = None
    try:
        while True:
            try:
                await turn.wait()
            except asyncio.CancelledError as error:
                if cancelled is not None:
                    raise
                cancelled = error
                continue
            turn.clear()
            carried.carry(thread.context)
            if thread.ended:
                break
            await _answer(thread, inner, cancelled)
    finally:
        if not thread.ended:
            thread.fail(asyncio.CancelledError(f"the chain that {name} belongs to has ended"))
    value = thread.outcome()
    if cancelled is not None:
        raise cancelled
    return value


async def _answer(
    thread: HookThread,
    inner: Callable[..., Awaitable[Any]],
    cancelled: asyncio.CancelledError | None,
) -> None:
    args = thread.calls_with or ()
    if cancelled is not None:
        thread.fail(cancelled)
        return
    try:
        value = await inner(*args)
    except GeneratorExit:  # this task is being thrown away, and may not await again
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised in the thread
        thread.fail(error, copy_context())
    else:
        thread.resume(value, copy_context())
