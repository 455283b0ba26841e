"""What travels through a queue, and what the calls of a queue return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from jobq.core.errors import JobqError


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute with its SQS type spelled out: `Attribute("Number.float", "1.50")`."""

    data_type: str
    value: str | bytes


AttributeValue: TypeAlias = str | int | bytes | Attribute
"""A str travels as String, an int as Number, bytes as Binary, an `Attribute` as it says."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message to send.

    `delay_seconds` is 0 to 900 (SQS); FIFO queues take none. `deduplication_id` is for ordered
    queues, which make a fresh one for each send where it is None.
    """

    body: str
    _: KW_ONLY
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict[str, AttributeValue])
    group_id: str | None = None
    deduplication_id: str | None = None
    delay_seconds: float = 0
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A received message, invisible to others until `expires_at`.

    `receipt` is opaque and changes with every receive. `sent_at` is Unix time in seconds.
    `expires_at` is seconds on the queue's clock: `jobq.core.clock.now`, or in memory its own.
    """

    message_id: str
    body: str
    attributes: Mapping[str, AttributeValue]
    receipt: str
    receive_count: int
    sent_at: float
    group_id: str | None = None
    expires_at: float


@dataclass(frozen=True, slots=True)
class PublishResult:
    """One entry of a batch send: a message id, or the error that kept it from being sent."""

    message_id: str | None = None
    error: JobqError | None = None


@dataclass(frozen=True, slots=True)
class SettleResult:
    """One entry of a batch `ack` or `nack`: no error means done."""

    error: JobqError | None = None


@dataclass(frozen=True, slots=True)
class ExtendResult:
    """One entry of a batch `extend`: the lease with its new `expires_at`, or the error."""

    lease: Lease | None = None
    error: JobqError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """How many messages a queue holds; estimates on SQS."""

    waiting: int
    in_flight: int
    delayed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueInfo:
    """A queue's own settings. `dead_letter_queue` is a name or ARN; None: no redrive policy."""

    visibility_timeout: float
    max_receive_count: int | None = None
    dead_letter_queue: str | None = None
    fifo: bool = False
    max_message_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a kind of queue can do. Sizes in bytes, times in seconds."""

    ordered: bool
    delays: bool
    priorities: bool
    largest_batch: int
    largest_message: int
    longest_visibility: float
