"""A dispatcher with no engine and no worker around it."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from working import lease

from jobq.core import JobMiddleware
from jobq.core.middleware import hooks_of
from jobq.worker import Handler
from jobq.worker.dispatch import Dispatcher, Route
from jobq.worker.engine.commands import Run
from jobq.worker.handlers import handler_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jobq.core import Job, RetryPolicy
    from jobq.worker.engine.events import Delivery, Finished

BODY = '{"job_type": "a", "payload": {"n": 1}}'


class Around(JobMiddleware):
    def __init__(self, consume: Callable[[Job, Any], Any]) -> None:
        self._consume = consume

    def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        return self._consume(job, call_next)


class Bench:
    """A dispatcher on a clock that stands at `now`; `colour` makes the handlers sync or async."""

    def __init__(self, colour: str) -> None:
        self.colour = colour
        self.now = 0.0
        self.middleware: list[JobMiddleware] = []
        self.queue_retry: RetryPolicy | None = None
        self.worker_retry: RetryPolicy | None = None
        self.environment_retry: RetryPolicy | None = None
        self.stopping = threading.Event()
        self.lost_after: float | None = None

    def handler(self, function: Callable[[Any], Any], **options: Any) -> Handler:
        async def awaited(payload: Any) -> Any:
            await asyncio.sleep(0)
            return function(payload)

        return Handler(function if self.colour == "sync" else awaited, **options)

    def dispatcher(self, handlers: dict[str, Any]) -> Dispatcher:
        hooks = hooks_of(self.middleware, "consume")
        route = Route(hooks=hooks, retry=self.queue_retry, environment_retry=self.environment_retry)
        return Dispatcher(
            handler_table(handlers),
            {"jobs": route},
            retry=self.worker_retry,
            context=copy_context(),
            clock=lambda: self.now,
            unix_time=lambda: 1000.0,
            stopping=self.stopping,
        )

    def run(
        self,
        function: Callable[[Any], Any] | Handler,
        body: str = BODY,
        *,
        not_after: float = 100,
        **fields: Any,
    ) -> Any:
        """The result of one job of type "a"."""
        handler = function if isinstance(function, Handler) else self.handler(function)
        dispatcher = self.dispatcher({"a": handler})
        delivery = dispatcher.examine("jobs", lease(body, **fields))
        return self.finish(dispatcher, delivery, not_after=not_after).result

    def finish(
        self, dispatcher: Dispatcher, delivery: Delivery, *, not_after: float = 100
    ) -> Finished:
        run = Run(1, "jobs", delivery.lease, delivery.job, not_after, 3600)
        if self.colour == "sync":
            return dispatcher.run_sync(run, lambda run, awaitable: asyncio.run(_wait(awaitable)))
        return asyncio.run(self._task(dispatcher, run))

    async def _task(self, dispatcher: Dispatcher, run: Run) -> Finished:
        context = dispatcher.context.copy()
        task = asyncio.create_task(dispatcher.run_async(run), context=context)
        if self.lost_after is not None:
            asyncio.get_running_loop().call_later(self.lost_after, _lose, run, task)
        return await task


def _lose(run: Run, task: asyncio.Task[Any]) -> None:
    run.job.lease_lost.set()
    task.cancel()


async def _wait(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def raising(error: BaseException) -> Callable[[Any], Any]:
    def handler(payload: Any) -> None:
        raise error

    return handler
