"""The loops of one run, and the async groups that are entered there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from jobq.core.clock import now
from jobq.core.logs import get_logger
from jobq.worker.faults import traceback_of
from jobq.worker.loops import FAREWELL_SECONDS, WorkerLoop

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractAsyncContextManager
    from contextvars import Context


class Entered:
    """A group on a loop; `names` are those of its queues.

    One task enters it, and leaves it when the loop is closed: what its clients open may be bound to
    the task that opened it. What leaving it raises is logged.
    """

    def __init__(
        self, group: AbstractAsyncContextManager[object], *, names: str, loop: WorkerLoop
    ) -> None:
        self._group = group
        self._loop = loop
        self._keeper: asyncio.Task[None] | None = None
        self.names = names

    def enter(self) -> None:
        """Blocks until it is entered; raises what entering it raised, and may be tried again."""
        self._loop.wait(self._enter)

    async def _enter(self) -> None:
        loop = asyncio.get_running_loop()
        entered, left = loop.create_future(), loop.create_future()
        self._keeper = asyncio.create_task(self._keep(entered, left))
        await entered

    async def _keep(self, entered: asyncio.Future[None], left: asyncio.Future[None]) -> None:
        try:
            async with self._group:
                entered.set_result(None)
                await left
        except asyncio.CancelledError:  # the loop is being closed
            entered.cancel()
        except BaseException as error:  # noqa: BLE001 - raised where `enter` was called
            if not entered.done():
                entered.set_exception(error)
                return
            with suppress(Exception):  # the worker has ended as it has
                get_logger("jobq.worker").warning(
                    "group_not_closed", queue=self.names, exception=traceback_of(error)
                )


class Loops:
    """The loops of one run: that of async handlers, and that of the worker's own async clients.

    `loop` is the caller's, for the handlers, where it has entered the groups itself; None: one in a
    thread, where those `given` are to be entered, since handlers may enqueue on any of them. Those
    `served` are entered for the worker's own calls. Both map a group to the names of its queues.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None,
        *,
        served: Mapping[AbstractAsyncContextManager[object], str],
        given: Mapping[AbstractAsyncContextManager[object], str],
        context: Context,
    ) -> None:
        self.handlers = WorkerLoop(loop, name="jobq-handlers-loop", context=context)
        self.queues = WorkerLoop(name="jobq-queues-loop", context=context)
        entered = [(self.queues, served)]
        if loop is None:
            entered.append((self.handlers, given))
        self.groups = [
            Entered(group, names=names, loop=one)
            for one, groups in entered
            for group, names in groups.items()
        ]

    def close(self) -> None:
        """End our own loops, which leaves the groups there; waits a little for what still runs."""
        own = (self.handlers, self.queues)
        for loop in own:
            loop.close()
        until = now() + 2 * FAREWELL_SECONDS
        for loop in own:
            loop.join(seconds=max(0.0, until - now()))
