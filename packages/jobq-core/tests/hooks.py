"""Hooks of both colours, and both chains to run them in."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jobq.core import Job, JobMiddleware
from jobq.core.middleware import call_async, call_sync, hooks_of

JOB = Job("send", {}, "default")
SEEN: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("seen", default=())


def note(what: str) -> None:
    SEEN.set((*SEEN.get(), what))


class Plain(JobMiddleware):
    def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        note("plain in")
        result = call_next(job)
        note("plain out")
        return result


class Awaiting(JobMiddleware):
    async def consume(self, job: Job, call_next: Callable[[Job], Awaitable[Any]]) -> Any:
        note("async in")
        result = await call_next(job)
        note("async out")
        return result


def of(*middleware: JobMiddleware) -> Any:
    return hooks_of(middleware, "consume")


class Function(JobMiddleware):
    """A middleware whose consume hook is the function it is made of."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.consume = function  # pyright: ignore[reportAttributeAccessIssue]


def run_sync(hooks: Any, handler: Callable[[Job], Any]) -> Any:
    return contextvars.copy_context().run(call_sync, hooks, handler, JOB)


def run_async(hooks: Any, handler: Callable[[Job], Any]) -> Any:
    async def innermost(job: Job) -> Any:
        await asyncio.sleep(0)
        return handler(job)

    return asyncio.run(call_async(hooks, innermost, JOB))


# The same handler under both chains: nothing that a hook sees may differ between them.
both_chains = pytest.mark.parametrize("run", [run_sync, run_async])


def every_order() -> list[tuple[JobMiddleware, ...]]:
    plain, awaiting = Plain(), Awaiting()
    return [
        (plain,),
        (awaiting,),
        (plain, awaiting),
        (awaiting, plain),
        (plain, awaiting, plain),
        (awaiting, plain, awaiting),
        (plain, plain),
    ]
