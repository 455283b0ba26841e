"""What happened, as the engine is told.

`poll`, `call` and `key` are the numbers that the engine gave in its commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from jobq.core import ExtendResult, JobqError, Lease, RetryPolicy

Verdict: TypeAlias = Literal["runnable", "malformed", "unknown_job_type"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One received message and what its body turned out to be.

    `job` is opaque here: it goes back out with the command that runs or reports it. `max_runtime`
    is its handler's own, in seconds, where it has one; the queue's counts otherwise.
    """

    lease: Lease
    verdict: Verdict = "runnable"
    job: Any = None
    max_runtime: float | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """A receive was answered, with or without messages."""

    poll: int
    deliveries: tuple[Delivery, ...] = ()


@dataclass(frozen=True, slots=True)
class ReceiveSkipped:
    """A `poll` hook returned without receiving, or a receive came after the stop."""

    poll: int


@dataclass(frozen=True, slots=True)
class ReceiveFailed:
    """A receive wasn't answered, or with an error."""

    poll: int
    error: JobqError


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The handler returned, or a consume hook answered for it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The handler raised `NonRetryableError`: never again."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised anything else; `policy` is what counts for this message, filled in."""

    policy: RetryPolicy


@dataclass(frozen=True, slots=True)
class Postponed:
    """The handler raised `RetryAfter(seconds)`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The lease ran out between the command and the start, or the loop of the handlers is closed;
    the handler wasn't called.
    """


Result: TypeAlias = Succeeded | Refused | Raised | Postponed | NotStarted


@dataclass(frozen=True, slots=True)
class Finished:
    """A run ended, at `at` on the engine's clock, however long this event lay unread."""

    key: int
    result: Result
    at: float


@dataclass(frozen=True, slots=True)
class Settled:
    """An `Ack` or `Nack` was answered: one error or None for each of its leases, in order."""

    call: int
    errors: tuple[JobqError | None, ...]


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """A `DeadLetter` was answered: one error or None for each of its leases, in order."""

    call: int
    errors: tuple[JobqError | None, ...]


@dataclass(frozen=True, slots=True)
class Extended:
    """An `Extend` was answered: one result for each of its leases, in order."""

    call: int
    results: tuple[ExtendResult, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went by."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody asked for the end."""


@dataclass(frozen=True, slots=True)
class LoopClosed:
    """The loop of the async handlers is closed: none of them runs any more."""


Event: TypeAlias = (
    Received
    | ReceiveSkipped
    | ReceiveFailed
    | Finished
    | Settled
    | DeadLettered
    | Extended
    | Tick
    | StopRequested
    | LoopClosed
)
