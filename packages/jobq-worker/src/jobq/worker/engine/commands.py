"""What is to be done, as the engine says.

Each `Receive` is answered by one `Received`, `ReceiveSkipped` or `ReceiveFailed`, each `Run` by one
`Finished`, each `Ack` and `Nack` by one `Settled`, each `DeadLetter` by one `DeadLettered`, each
`Extend` by one `Extended`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from jobq.core import Lease

Outcome: TypeAlias = Literal[
    "success",
    "retry",
    "delete",
    "exhausted",
    "malformed",
    "unknown_job_type",
    "heartbeat_failed",
    "delete_failed",
    "released",
]


@dataclass(frozen=True, slots=True)
class Receive:
    """Receive up to `max_messages` from `queue`, waiting `wait` s, invisible for `visibility` s."""

    poll: int
    queue: str
    max_messages: int
    wait: float
    visibility: float


@dataclass(frozen=True, slots=True)
class Run:
    """Run a job in a slot, unless the clock has reached `not_after` when it gets there."""

    key: int
    queue: str
    lease: Lease
    job: Any
    not_after: float
    runtime_ends: float


@dataclass(frozen=True, slots=True)
class Abandon:
    """This run's lease is lost: set its `lease_lost`, and cancel it if it is async."""

    key: int


@dataclass(frozen=True, slots=True)
class Ack:
    """Delete the messages of `leases`; one whose lease has run out by then is not sent."""

    call: int
    queue: str
    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Send copies of the messages of `leases` to the dead-letter queue of `queue`.

    One whose lease has run out by then is not sent.
    """

    call: int
    queue: str
    leases: tuple[Lease, ...]


@dataclass(frozen=True, slots=True)
class Nack:
    """Make the messages of `leases` visible again in `delay` s."""

    call: int
    queue: str
    leases: tuple[Lease, ...]
    delay: float


@dataclass(frozen=True, slots=True)
class Extend:
    """Keep the messages of `leases` invisible for `visibility` s from now."""

    call: int
    queue: str
    leases: tuple[Lease, ...]
    visibility: float


@dataclass(frozen=True, slots=True)
class AnnounceStop:
    """Set every job's `stopping`; start no receive that hasn't started."""


@dataclass(frozen=True, slots=True)
class JobEnded:
    """To be logged: what became of one delivery. `seconds` is how long its handler ran.

    `processing_outcome` is what the handler's end would have meant, where the delete failed.
    """

    queue: str
    lease: Lease
    job: Any
    outcome: Outcome
    seconds: float | None = None
    processing_outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class JobDiscarded:
    """To be logged: this message is about to be deleted though its job never succeeded."""

    queue: str
    lease: Lease
    job: Any


@dataclass(frozen=True, slots=True)
class Notice:
    """To be logged: something about the worker or a queue that an operator should know."""

    level: Literal["info", "warning", "error", "critical"]
    event: str
    fields: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """Every receive of a message, each in exactly one class; `received` is their sum."""

    received: int = 0
    started: int = 0
    refused: int = 0
    taken_over: int = 0
    given_back: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True)
class Exit:
    """The end. `still_running` jobs were not waited for."""

    code: int
    accounts: Accounts
    still_running: int = 0


Command: TypeAlias = (
    Receive
    | Run
    | Abandon
    | Ack
    | DeadLetter
    | Nack
    | Extend
    | AnnounceStop
    | JobEnded
    | JobDiscarded
    | Notice
    | Exit
)
