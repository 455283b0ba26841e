"""What became of each message in a worker's hand, and what its queues and polls look like."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobq.core import JobqError, Lease
    from jobq.worker.engine.commands import Ack, DeadLetter, JobEnded, Nack, Receive


@dataclass(slots=True, eq=False)
class Taken:
    """One message in one worker's hand; times are the world's.

    One that is `murky` came during a stall, or so soon after that its process can't tell.
    Its lease holds until `until`, as far as its process could know: the server's own reckoning,
    and the way of the reply. `dated_at` is when it was last received or extended. `settling` is the
    call that is out for it, `settle_error` what the last one met. `judged_at` is its receive count
    when its run ended.
    """

    queue: str
    lease: Lease
    verdict: str
    arrived_at: float
    until: float
    received_at: float
    dated_at: float
    murky: bool = False
    read_at: float = math.inf
    slot_free_since: float = -math.inf
    run: int | None = None
    started_at: float = math.inf
    returned_at: float = math.inf
    result: Any = None
    judged_at: int = 0
    abandoned: bool = False
    extending: bool = False
    extend_failed: bool = False
    extend_failed_at: float = math.inf
    extend_refused: bool = False
    lost_receipt: bool = False
    settling: Ack | Nack | DeadLetter | None = None
    settle_error: JobqError | None = None
    settle_answered_at: float = -math.inf
    retreats: bool = False
    deleted: bool = False
    hidden: bool = False
    copied: bool = False
    ended: JobEnded | None = None

    @property
    def message(self) -> str:
        return self.lease.message_id

    @property
    def body(self) -> str:
        return self.lease.body

    @property
    def group(self) -> str | None:
        return self.lease.group_id

    @property
    def started(self) -> bool:
        return self.run is not None

    @property
    def running(self) -> bool:
        return self.run is not None and self.returned_at == math.inf

    @property
    def settled_before(self) -> bool:
        """A settling call was answered, even if for an older receipt, which may not count."""
        return self.settle_answered_at > -math.inf

    @property
    def in_hand(self) -> bool:
        return self.ended is None and self.read_at < math.inf

    @property
    def waiting(self) -> bool:
        """It could be started: nothing was decided of it yet."""
        return (
            self.in_hand
            and self.run is None
            and self.verdict == "runnable"
            and self.settling is None
            and not self.retreats
        )

    @property
    def tried(self) -> bool:
        """A settling call was made for it, or its process can't know that it could have been."""
        return bool(
            self.settling
            or self.settle_error
            or self.deleted
            or self.hidden
            or self.copied
            or self.lost_receipt
            or self.murky
        )

    def renew(self, newer: Taken) -> None:
        """Go by the receipt of a newer delivery."""
        self.lease = newer.lease
        self.until, self.dated_at = newer.until, newer.dated_at
        self.received_at, self.murky = newer.received_at, newer.murky
        self.extend_failed = self.extend_refused = False


@dataclass(frozen=True, slots=True)
class PollOut:
    """A receive that was asked for and not answered yet."""

    command: Receive
    asked_at: float

    @property
    def queue(self) -> str:
        return self.command.queue


@dataclass(slots=True, eq=False)
class QueueRecord:
    """What a worker was told of one of its queues.

    Ten `refused` deletes in a row, in calls one after the other, close it. `troubled_at` is when a
    receive last failed, was skipped, or ended long before its time.
    `runs_since_give_back` is inf before the first one.
    """

    failures: int = 0
    failed_at: float = -math.inf
    refused: int = 0
    refused_calls: int = 0
    refused_at: float = -math.inf
    closed: bool = False
    answered: bool = False
    empty: bool = True
    troubled_at: float = -math.inf
    runs_since_give_back: float = math.inf
    runs_ended: int = 0
    asked_at: float = -math.inf
