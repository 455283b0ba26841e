"""Deletes, hides, extensions and copies: one answer for each lease, whatever happens."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import pytest
from working import lease

from jobq.core import (
    AsyncQueue,
    BackendError,
    Capabilities,
    ExtendResult,
    Lease,
    LeaseLostError,
    Message,
    PublishResult,
    Queue,
    SettleResult,
)
from jobq.core.limits import STANDARD
from jobq.worker.engine.commands import Ack, DeadLetter, Extend, Nack
from jobq.worker.engine.events import Extended
from jobq.worker.settling import AsyncSettling, Settling

NOW = 100.0
Item = TypeVar("Item", Lease, Message)
GOOD, ALSO_GOOD, RAN_OUT = (
    lease("good", expires_at=130),
    lease("also good", expires_at=101),
    lease("ran out", expires_at=99),
)


class Settled:
    """A queue that notes what it was sent."""

    def __init__(self, error: BaseException | None = None, *, short: bool = False) -> None:
        self.sent: list[str] = []
        self.error = error
        self.short = short

    def _note(self, sent: Sequence[Item]) -> list[Item]:
        self.sent += [one.body for one in sent]
        if self.error is not None:
            raise self.error
        return list(sent[1:] if self.short else sent)

    @property
    def capabilities(self) -> Capabilities:
        return STANDARD

    def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        return [PublishResult(one.body) for one in self._note(messages)]

    def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
        return [SettleResult() for _ in self._note(leases)]

    def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]:
        return [SettleResult() for _ in self._note(leases)]

    def extend_batch(self, leases: Sequence[Lease], visibility: float) -> list[ExtendResult]:
        return [ExtendResult(one) for one in self._note(leases)]


class AsyncSettled:
    """The same, awaited."""

    def __init__(self, queue: Settled) -> None:
        self._queue = queue

    @property
    def capabilities(self) -> Capabilities:
        return STANDARD

    async def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        await asyncio.sleep(0)
        return self._queue.publish_batch(messages)

    async def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
        await asyncio.sleep(0)
        return self._queue.ack_batch(leases)

    async def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]:
        await asyncio.sleep(0)
        return self._queue.nack_batch(leases, delay)

    async def extend_batch(self, leases: Sequence[Lease], visibility: float) -> list[ExtendResult]:
        await asyncio.sleep(0)
        return self._queue.extend_batch(leases, visibility)


COMMANDS: dict[str, Callable[[tuple[Lease, ...]], Any]] = {
    "ack": lambda leases: Ack(1, "jobs", leases),
    "nack": lambda leases: Nack(1, "jobs", leases, 0),
    "extend": lambda leases: Extend(1, "jobs", leases, 30),
    "dead_letter": lambda leases: DeadLetter(1, "jobs", leases),
}


def errors_of(queue: Settled, kind: str, *leases: Lease) -> list[Any]:
    """What the two twins say, which is the same."""
    command, before = COMMANDS[kind](leases), list(queue.sent)
    queues = {"jobs": cast("Queue", queue)}
    event: Any = getattr(Settling(queues, dead_letters=queues, clock=lambda: NOW), kind)(command)
    sent, queue.sent = queue.sent, before
    async_queues = {"jobs": cast("AsyncQueue", AsyncSettled(queue))}
    twin = AsyncSettling(async_queues, dead_letters=async_queues, clock=lambda: NOW)
    async_event = asyncio.run(getattr(twin, kind)(command))
    assert queue.sent == sent
    errors, async_errors = _errors(event), _errors(async_event)
    assert [*map(repr, errors)] == [*map(repr, async_errors)]
    return async_errors


def _errors(event: Any) -> list[Any]:
    if isinstance(event, Extended):
        return [result.error for result in event.results]
    return list(event.errors)


pytestmark = pytest.mark.parametrize("kind", [*COMMANDS])


def test_a_lease_that_ran_out_is_not_sent_and_the_others_keep_their_places(kind: str) -> None:
    queue = Settled()
    first, second, third = errors_of(queue, kind, GOOD, RAN_OUT, ALSO_GOOD)
    assert queue.sent == ["good", "also good"]
    assert (first, third) == (None, None)
    assert isinstance(second, LeaseLostError)


def test_no_call_is_made_for_nothing(kind: str) -> None:
    queue = Settled(OSError("called"))
    (error,) = errors_of(queue, kind, RAN_OUT)
    assert isinstance(error, LeaseLostError)
    assert queue.sent == []


@pytest.mark.parametrize("raised", [OSError("broken"), SystemExit(1)])
def test_what_a_call_raises_is_the_error_of_each(kind: str, raised: BaseException) -> None:
    for error in errors_of(Settled(raised), kind, GOOD, ALSO_GOOD):
        assert isinstance(error, BackendError)
        assert error.retryable
        assert error.__cause__ is raised


def test_a_queue_that_answers_for_too_few_is_believed_in_nothing(kind: str) -> None:
    errors = errors_of(Settled(short=True), kind, GOOD, ALSO_GOOD)
    assert len(errors) == 2
    assert all(isinstance(error, BackendError) for error in errors)
