"""What one worker was told and said, and what follows from it for what it holds."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from simulation.taken import PollOut, QueueRecord, Taken

from jobq.core import LeaseLostError
from jobq.worker.engine.commands import (
    Abandon,
    Ack,
    AnnounceStop,
    DeadLetter,
    Exit,
    Extend,
    JobEnded,
    Nack,
    Receive,
    Run,
)
from jobq.worker.engine.events import (
    DeadLettered,
    Extended,
    Finished,
    NotStarted,
    Received,
    ReceiveFailed,
    ReceiveSkipped,
    Settled,
    StopRequested,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.core import Lease
    from jobq.worker.engine.commands import Notice

# Refused deletes that close a queue, in more than one call after the other.
REFUSALS_THAT_CLOSE = 10
# What arrives so soon after a stall may have come during it, for all that its process can tell.
MURKY_SECONDS = 3.0
# A stall that no pulse missed isn't noticed: what came during it is dated when it was read.
UNNOTICED_SECONDS = 1.25


class Record:
    """One worker's messages by receipt and by id, its polls and calls, and what it was told."""

    def __init__(self) -> None:
        self.taken: dict[str, Taken] = {}
        self.open: dict[Taken, None] = {}
        self.latest: dict[str, Taken] = {}
        self.runs: dict[int, Taken] = {}
        # Those that have a slot, and of these those whose thread has taken them up.
        self.engaged: dict[int, Taken] = {}
        # When the slots fell free that were held before, the one free longest first.
        self.free_since: deque[float] = deque()
        self.running: dict[int, Taken] = {}
        self.groups: dict[tuple[str, str], list[Taken]] = defaultdict(list)
        self.queues: dict[str, QueueRecord] = defaultdict(QueueRecord)
        self.polls: dict[int, PollOut] = {}
        self.calls: dict[int, tuple[Any, float]] = {}
        self.read = 0
        self.started = 0
        self.taken_over = 0
        self.idle_turns = 0
        self.notices: list[Notice] = []
        # It may not receive from a queue of which it never did.
        self.shut_out = False
        self.born_at = 0.0
        self.stall_ends = -math.inf
        self.stop_told_at = math.inf
        self.exit_at = math.inf
        self.busy_until = -math.inf
        self.heartbeat_check_at = -math.inf
        self.hold_check_at = -math.inf

    def runs_already(self, taken: Taken) -> bool:
        """An earlier delivery of it still has a slot."""
        return any(one.message == taken.message for one in self.engaged.values())

    # --- what happens around it --------------------------------------------------------------

    def arrived(
        self, command: Receive, lease: Lease, verdict: str, received_at: float, now: float
    ) -> None:
        """A message reached the process; the server had received it for it at `received_at`."""
        unnoticed = min(UNNOTICED_SECONDS, max(0.0, self.stall_ends - now))
        self.taken[lease.receipt] = Taken(
            queue=command.queue,
            lease=lease,
            verdict=verdict,
            arrived_at=now,
            until=now + unnoticed + command.visibility,
            dated_at=now,
            received_at=received_at,
            murky=now < self.stall_ends + MURKY_SECONDS,
        )

    def began(self, key: int, now: float) -> Taken:
        taken = self.runs[key]
        taken.run, taken.started_at = key, now
        self.started += 1
        return taken

    def over(self, key: int, result: Any, now: float) -> None:
        taken = self.running.pop(key)
        taken.returned_at = self.busy_until = now
        taken.result, taken.judged_at = result, taken.lease.receive_count

    def jumped(self, seconds: float, now: float) -> None:
        """Its clock went forward: no lease of it holds as long as others think."""
        for taken in set(self.taken.values()):
            taken.until -= seconds
            taken.dated_at -= seconds
            taken.received_at -= seconds
            taken.started_at -= seconds
        self.stall_ends = now + 1
        self.stop_told_at -= seconds

    # --- what it is told ---------------------------------------------------------------------

    def hear(self, event: Any, commands: Sequence[Any], ahead: float, now: float) -> None:
        """`commands` are its answer, `ahead` is how far its clock is before the world's."""
        match event:
            case Received(poll=poll, deliveries=deliveries):
                self._received(self.polls.pop(poll), deliveries, commands, now)
            case ReceiveSkipped(poll=poll):
                self.queues[self.polls.pop(poll).queue].troubled_at = now
            case ReceiveFailed(poll=poll, error=error):
                self._receive_failed(self.polls.pop(poll), error, now)
            case Settled(call=call, errors=errors) | DeadLettered(call=call, errors=errors):
                self._settled(*self.calls.pop(call), errors, now)
            case Extended(call=call, results=results):
                self._extended(self.calls.pop(call)[0], results, ahead, now)
            case Finished(key=key, result=result):
                self._finished(self.queues[self.engaged.pop(key).queue], result, now)
            case StopRequested():
                self.stop_told_at = min(self.stop_told_at, now)
            case _:
                pass

    def _received(
        self, poll: PollOut, deliveries: Sequence[Any], commands: Sequence[Any], now: float
    ) -> None:
        queue = self.queues[poll.queue]
        self.read += len(deliveries)
        queue.failures = 0
        queue.answered, queue.empty = True, queue.closed or not deliveries
        queue.asked_at = max(queue.asked_at, poll.asked_at)
        if not deliveries and now - poll.asked_at < poll.command.wait * 0.3:
            queue.troubled_at = now
        ended = {one.lease.receipt for one in commands if isinstance(one, JobEnded)}
        for delivery in deliveries:
            self._read(self.taken[delivery.lease.receipt], ended, now)

    def _read(self, taken: Taken, ended: set[str], now: float) -> None:
        taken.read_at = now
        known = self.latest.get(taken.message)
        kept = known is not None and known.in_hand and known.lease.receipt not in ended
        if known is not None and kept and not known.abandoned:
            # What is in hand already goes by the newer receipt from now on.
            self.taken_over += 1
            known.renew(taken)
            self.taken[taken.lease.receipt] = known
            return
        self.latest[taken.message] = taken
        self.open[taken] = None
        self.heartbeat_check_at = self.hold_check_at = now
        if taken.group is not None:
            self.groups[taken.queue, taken.group].append(taken)

    def _finished(self, queue: QueueRecord, result: Any, now: float) -> None:
        queue.runs_since_give_back += 1
        queue.runs_ended += not isinstance(result, NotStarted)
        self.free_since.append(now)

    def _receive_failed(self, poll: PollOut, error: Any, now: float) -> None:
        queue = self.queues[poll.queue]
        queue.troubled_at = now
        self.shut_out = self.shut_out or (error.denied and not queue.answered)
        if poll.asked_at > queue.failed_at:
            queue.failures += 1
            queue.failed_at = now

    def _settled(self, command: Any, sent_at: float, errors: Sequence[Any], now: float) -> None:
        for lease, error in zip(command.leases, errors, strict=True):
            taken = self.taken[lease.receipt]
            taken.settling, taken.settle_error = None, error
            taken.settle_answered_at = now
            if isinstance(command, DeadLetter):
                taken.copied = taken.copied or error is None
            elif isinstance(command, Nack):
                taken.hidden = taken.hidden or error is None
            else:
                self._deleted(taken, lease, error)
        queue = self.queues[command.queue]
        if isinstance(command, Ack) and queue.refused:
            if sent_at >= queue.refused_at:
                queue.refused_calls += 1
                queue.refused_at = now
            many = queue.refused >= REFUSALS_THAT_CLOSE and queue.refused_calls > 1
            queue.closed = queue.closed or many
        # One that was closed counts as idle from then on, whatever it had before.
        queue.empty = queue.empty or queue.closed

    def _deleted(self, taken: Taken, lease: Lease, error: Any) -> None:
        queue = self.queues[taken.queue]
        current = lease.receipt == taken.lease.receipt
        if error is None:
            taken.deleted = current
            queue.refused, queue.refused_calls, queue.closed = 0, 0, False
        elif current and not isinstance(error, LeaseLostError):
            queue.refused += 1
            queue.closed = queue.closed or error.denied

    def _extended(self, command: Extend, results: Sequence[Any], ahead: float, now: float) -> None:
        for lease, result in zip(command.leases, results, strict=True):
            taken = self.taken[lease.receipt]
            taken.extending = False
            taken.extend_failed, taken.extend_failed_at = result.lease is None, now
            taken.lost_receipt = isinstance(result.error, LeaseLostError)
            current = lease.receipt == taken.lease.receipt
            taken.extend_refused = taken.lost_receipt and current
            if result.lease is not None:
                dated = result.lease.expires_at - ahead - command.visibility
                taken.dated_at = max(taken.dated_at, dated)
                taken.until = max(taken.until, dated + command.visibility)

    # --- what it says ------------------------------------------------------------------------

    def say(self, command: Any, now: float) -> None:
        match command:
            case Receive():
                self.polls[command.poll] = PollOut(command, now)
            case Ack() | Nack() | DeadLetter() | Extend():
                self.calls[command.call] = command, now
                for lease in command.leases:
                    self._call(self.taken[lease.receipt], command, now)
            case Run():
                taken = self.taken[command.lease.receipt]
                self.runs[command.key] = self.engaged[command.key] = taken
                taken.slot_free_since = self.free_since.popleft()
            case Abandon(key):
                self.runs[key].abandoned = True
            case JobEnded():
                self._ended(self.taken[command.lease.receipt], command, now)
            case AnnounceStop():
                self.stop_told_at = min(self.stop_told_at, now)
            case Exit():
                self.exit_at = now
            case _:
                pass

    def _call(self, taken: Taken, command: Ack | Nack | DeadLetter | Extend, now: float) -> None:
        if isinstance(command, Extend):
            taken.extending = True
            return
        taken.settling = command
        taken.retreats = isinstance(command, Nack) and not (taken.started or command.delay)
        if not taken.started:
            self.busy_until = now
        if taken.retreats:
            self.queues[taken.queue].runs_since_give_back = 0

    def _ended(self, taken: Taken, command: JobEnded, now: float) -> None:
        taken.ended = command
        self.open.pop(taken, None)
        if not taken.started:
            self.busy_until = now
