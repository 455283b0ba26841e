"""A request as data, and the driver that carries a flow of them out.

A flow is a generator: it yields `Call` and `Pause`, gets a reply back for each call (None for a
pause) or has the error thrown in, and returns its result. All decisions are in flows; a driver
holds the IO.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One request: `operation` as SDK clients spell their methods, `send_message_batch`."""

    operation: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for so many seconds."""

    seconds: float


Flow: TypeAlias = Generator[Call | Pause, Any, T]


def drive(
    flow: Flow[T], *, send: Callable[[Call], dict[str, Any]], sleep: Callable[[float], None]
) -> T:
    """Carry out a flow with blocking calls; what `send` raises is thrown into it."""
    try:
        request = next(flow)
        while True:
            try:
                reply = _carry_out(request, send, sleep)
            # An interrupt too: a flow that was cut short may have something to remember.
            except BaseException as error:  # noqa: BLE001
                request = flow.throw(error)
            else:
                request = flow.send(reply)
    except StopIteration as stop:
        return stop.value


async def adrive(
    flow: Flow[T],
    *,
    send: Callable[[Call], Awaitable[dict[str, Any]]],
    sleep: Callable[[float], Awaitable[None]],
) -> T:
    """Carry out a flow with awaited calls; what `send` raises is thrown into it."""
    try:
        request = next(flow)
        while True:
            try:
                if isinstance(request, Pause):
                    reply = await sleep(request.seconds)
                else:
                    reply = await send(request)
            # A cancellation too: a flow that was cut short may have something to remember.
            except BaseException as error:  # noqa: BLE001
                request = flow.throw(error)
            else:
                request = flow.send(reply)
    except StopIteration as stop:
        return stop.value


def _carry_out(
    request: Call | Pause, send: Callable[[Call], dict[str, Any]], sleep: Callable[[float], None]
) -> dict[str, Any] | None:
    if isinstance(request, Pause):
        return sleep(request.seconds)
    return send(request)
