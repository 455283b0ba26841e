"""Statements 1 to 5, 7 and 8: what is deleted, what stays, and for how long."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from simulation.rules import EPSILON, Rule

from jobq.core import LeaseLostError
from jobq.worker.engine.commands import (
    Ack,
    DeadLetter,
    Exit,
    Extend,
    JobDiscarded,
    JobEnded,
    Nack,
    Receive,
)
from jobq.worker.engine.events import Postponed, Raised, Refused, Succeeded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulation.playing import Play, Worker
    from simulation.taken import Taken

    from jobq.core import Lease, RetryPolicy

UNKNOWN_SECONDS = 300
# Latencies and stalls make a worker think that less is left of the 12 hours than there is.
LIMIT_SLACK_SECONDS = 10


def exhausted(taken: Taken) -> RetryPolicy | None:
    """The policy under which this run was the message's last, or None."""
    if not isinstance(taken.result, Raised):
        return None
    policy = taken.result.policy
    over = policy.max_attempts is not None and taken.judged_at >= policy.max_attempts
    return policy if over else None


class DeletedForAReason(Rule):
    """1: its handler returned, it never can, or its attempts are over under such a policy."""

    statement = 1

    def done(self, worker: Worker, command: Any, lease: Lease) -> None:
        if isinstance(command, Ack):
            taken = worker.record.taken[lease.receipt]
            if not self._reason(worker, taken):
                self.broke(worker, f"deleted {taken.body}, whose end was {taken.result}")

    def _reason(self, worker: Worker, taken: Taken) -> bool:
        if taken.verdict == "malformed":
            how = worker.config.on_malformed
            return how == "delete" or (how == "dead_letter" and self._copied(taken))
        if isinstance(taken.result, Succeeded | Refused):
            return True
        policy = exhausted(taken)
        if policy is None:
            return False
        if policy.when_exhausted == "dead_letter":
            return self._copied(taken)
        return policy.when_exhausted == "discard"

    def _copied(self, taken: Taken) -> bool:
        return taken.message in self.play.world.copies

    def rested(self) -> None:
        world = self.play.world
        for queue, sent in self.play.sent.items():
            there = world.bodies(queue)
            if queue in self.play.graves:
                there |= {one.body for one in self.play.graves[queue].entries().values()}
            for _, body in sent:
                if body not in there and body not in world.deleted:
                    self.play.broke(self.statement, f"{body} is gone, and nobody deleted it")


class NothingOnALostLease(Rule):
    """2: not started, not deleted, and the handler is told."""

    statement = 2
    concerns = (JobEnded,)

    def started(self, worker: Worker, taken: Taken) -> None:
        if self.now >= taken.until + EPSILON:
            late = self.now - taken.until
            self.broke(worker, f"started {taken.body} {late:.3f} s after its lease ran out")
        entry = self.play.world.stores[taken.queue].entries().get(taken.message)
        current = entry is not None and entry.receipt == taken.lease.receipt
        spared = taken.message in self.play.duplicated or self._on_its_way(worker, taken)
        if not (current or spared):
            self.broke(worker, f"started {taken.body}, which somebody else had taken over")

    def commanded(self, worker: Worker, command: Any) -> None:
        if command.outcome != "heartbeat_failed":
            taken = worker.record.taken[command.lease.receipt]
            if taken.abandoned:
                self.broke(worker, f"said {command.outcome} of {taken.body}, whose lease was lost")

    def _on_its_way(self, worker: Worker, taken: Taken) -> bool:
        """It ran out by the time that its reply was under way, which no process can know."""
        visibility = worker.by_name[taken.queue].visibility
        unextended = taken.dated_at == taken.arrived_at
        return unextended and self.now >= taken.received_at + visibility

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        if worker.record.exit_at <= self.now:
            return
        for taken in live:
            slow = isinstance(command, Extend) and self.play.lagging
            if taken.abandoned and not isinstance(command, Nack) and not slow:
                what = type(command).__name__
                self.broke(worker, f"sent {what} for {taken.body}, whose lease it had given up")
            elif self.now >= taken.until + EPSILON and isinstance(command, Ack):
                self.broke(worker, f"deleted {taken.body} after its lease ran out")

    def turned(self, worker: Worker, events: Sequence[Any], commands: list[Any]) -> None:
        for taken in worker.record.running.values():
            if self.now >= taken.until + EPSILON and not taken.abandoned:
                self.broke(worker, f"let {taken.body} run on after its lease ran out")
            elif taken.extend_refused and not taken.abandoned:
                self.broke(worker, f"let {taken.body} run on after its receipt was refused")


class EntryByEntry(Rule):
    """3: what succeeded stands and isn't sent again; what failed otherwise is tried again."""

    statement = 3
    concerns = (JobEnded,)

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        for taken in live:
            again = taken.deleted and isinstance(command, Ack | Nack)
            if again and taken.message not in self.play.duplicated:
                self.broke(worker, f"settled {taken.body} again after it was deleted")

    def commanded(self, worker: Worker, command: Any) -> None:
        if self.now >= worker.record.exit_at:
            return
        taken = worker.record.taken[command.lease.receipt]
        if command.outcome in {"success", "delete"} and not taken.deleted:
            self.broke(worker, f"said that {taken.body} is done, but it wasn't deleted")
        error = taken.settle_error
        due = getattr(error, "retryable", False) and not isinstance(error, LeaseLostError)
        if due and self._could_wait(worker, taken):
            self.broke(worker, f"gave up on {taken.body} ({command.outcome}) after {error}")

    def _could_wait(self, worker: Worker, taken: Taken) -> bool:
        """Its lease held, nobody received it anew, and the copy could still be tried again."""
        latest = worker.record.latest[taken.message]
        record = worker.record
        return (
            latest is taken
            and taken.message not in self.play.duplicated
            and not taken.lost_receipt
            and not taken.murky
            and not worker.out_of_time
            and self.now < taken.until - 1
            and self.now > record.stall_ends + 2
            and not self._copying(taken)
            and not taken.hidden
        )

    def _copying(self, taken: Taken) -> bool:
        policy = exhausted(taken)
        wanted = policy is not None and policy.when_exhausted == "dead_letter"
        return (wanted or taken.verdict == "malformed") and not taken.copied


class HiddenByTheFormula(Rule):
    """4: a raise leaves the message, hidden as the policy says, or untouched without a delay."""

    statement = 4
    concerns = (JobEnded,)

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        if not isinstance(command, Nack):
            return
        for taken in live:
            limit = taken.received_at + worker.by_name[taken.queue].longest_visibility
            if command.delay and self.now + command.delay > limit and not self.play.lagging:
                self.broke(worker, f"hid {taken.body} past the 12 hours")
            if isinstance(taken.result, Raised):
                self._check(worker, taken, taken.result.policy, command.delay)
            elif isinstance(taken.result, Postponed):
                wanted = math.ceil(taken.result.seconds)
                least = 0 if self._is_cut(worker, taken, wanted) else wanted
                if not least <= command.delay <= wanted:
                    self.broke(worker, f"hid {taken.body} for {command.delay} s, not {wanted}")

    def _check(self, worker: Worker, taken: Taken, policy: RetryPolicy, delay: float) -> None:
        if policy.base_delay is None:
            self.broke(worker, f"hid {taken.body} without a base_delay")
            return
        longest = policy.max_delay if policy.max_delay is not None else 900
        most = min(longest, policy.base_delay * 2 ** (taken.judged_at - 1))
        least = most / 2 if policy.jitter else most
        lowest, highest = max(1, math.ceil(least)), max(1, math.ceil(most))
        if self._is_cut(worker, taken, highest):
            lowest = 0
        if not lowest <= delay <= highest or delay != int(delay):
            self.broke(worker, f"hid {taken.body} for {delay} s, not {lowest} to {highest}")

    def _is_cut(self, worker: Worker, taken: Taken, seconds: float) -> bool:
        """What is left of the 12 hours may be less."""
        limit = worker.by_name[taken.queue].longest_visibility
        return self.now + seconds > taken.received_at + limit - LIMIT_SLACK_SECONDS

    def commanded(self, worker: Worker, command: Any) -> None:
        if command.outcome != "retry":
            return
        taken = worker.record.taken[command.lease.receipt]
        raised = taken.result
        waits = isinstance(raised, Raised) and raised.policy.base_delay is not None
        if not (waits or isinstance(raised, Postponed)):
            return
        if (
            not (taken.tried or worker.out_of_time)
            and self.now < taken.until - 1
            and worker.record.exit_at > self.now
        ):
            latest = worker.record.latest[taken.message] is taken
            if latest and self.now > worker.record.stall_ends + 2:
                self.broke(worker, f"left {taken.body}, which was to be hidden, to its timeout")


class ExhaustedByItsPolicy(Rule):
    """5: discarded with a log, or deleted once the copy was accepted; never before its time."""

    statement = 5
    concerns = (JobEnded, JobDiscarded)

    def __init__(self, play: Play) -> None:
        super().__init__(play)
        self._told: set[Taken] = set()

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        for taken in live:
            policy = exhausted(taken)
            if isinstance(command, DeadLetter):
                self._check_copy(worker, taken, policy)
            elif isinstance(command, Ack) and isinstance(taken.result, Raised):
                if policy is None or policy.when_exhausted == "redrive":
                    count = taken.judged_at
                    self.broke(worker, f"deleted {taken.body}, not exhausted at receive {count}")
                elif policy.when_exhausted == "dead_letter" and not taken.copied:
                    self.broke(worker, f"deleted {taken.body} before its copy was accepted")
                elif policy.when_exhausted == "discard" and taken not in self._told:
                    self.broke(worker, f"discarded {taken.body} without a word")
            elif isinstance(command, Nack) and policy and policy.when_exhausted != "redrive":
                self.broke(worker, f"hid {taken.body}, which is exhausted")

    def _check_copy(self, worker: Worker, taken: Taken, policy: RetryPolicy | None) -> None:
        malformed = taken.verdict == "malformed" and worker.config.on_malformed == "dead_letter"
        if not malformed and (policy is None or policy.when_exhausted != "dead_letter"):
            self.broke(worker, f"copied {taken.body}, whose end was {taken.result}")
        if taken.copied:
            self.broke(worker, f"copied {taken.body} again")

    def commanded(self, worker: Worker, command: Any) -> None:
        """What its policy asks for was at least tried."""
        if isinstance(command, JobDiscarded):
            self._told.add(worker.record.taken[command.lease.receipt])
        if not isinstance(command, JobEnded) or self.now >= worker.record.exit_at:
            return
        taken = worker.record.taken[command.lease.receipt]
        policy = exhausted(taken)
        if policy is None or policy.when_exhausted == "redrive":
            return
        if not taken.tried and command.outcome == "exhausted" and self.now < taken.until - 1:
            self.broke(worker, f"left {taken.body}, though it is exhausted")


class UnknownStays(Rule):
    """7: neither run nor deleted, and hidden for at least five minutes."""

    statement = 7
    concerns = (JobEnded,)

    def started(self, worker: Worker, taken: Taken) -> None:
        if taken.verdict != "runnable":
            self.broke(worker, f"started {taken.body}")

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        for taken in live:
            if taken.verdict != "unknown_job_type":
                continue
            if isinstance(command, Ack | DeadLetter):
                self.broke(worker, f"settled {taken.body} with {type(command).__name__}")
            if isinstance(command, Nack) and not taken.retreats and command.delay:
                roomy = worker.by_name[taken.queue].longest_visibility > 2 * UNKNOWN_SECONDS
                if roomy and command.delay < UNKNOWN_SECONDS:
                    self.broke(worker, f"hid {taken.body} for {command.delay} s only")

    def commanded(self, worker: Worker, command: Any) -> None:
        if command.outcome != "unknown_job_type":
            return
        taken = worker.record.taken[command.lease.receipt]
        if not taken.tried and self.now < taken.until - 1 and self.now < worker.record.exit_at:
            self.broke(worker, f"left {taken.body} to its visibility timeout")


class ClosedQueue(Rule):
    """8: refused deletes stop the claims; what was refused stays in hand, until one succeeds."""

    statement = 8
    concerns = (Receive, JobEnded)

    def commanded(self, worker: Worker, command: Any) -> None:
        record = worker.record
        if isinstance(command, Receive) and record.queues[command.queue].closed:
            self.broke(worker, f"asked {command.queue}, from which it may not delete")
        if isinstance(command, JobEnded) and command.outcome == "delete_failed":
            taken = record.taken[command.lease.receipt]
            error = taken.settle_error
            denied = getattr(error, "denied", False)
            limits = taken.started_at + worker.by_name[taken.queue].max_runtime
            held = self.now < min(taken.until, limits) - 1 and not worker.out_of_time
            held = held and not (taken.lost_receipt or taken.murky)
            if denied and held and record.latest[taken.message] is taken:
                self.broke(worker, f"let {taken.body} go, whose delete was denied")

    def turned(self, worker: Worker, events: Sequence[Any], commands: list[Any]) -> None:
        record, config = worker.record, worker.config
        closed = [record.queues[queue.name].closed for queue in config.queues]
        if not any(closed) or record.stop_told_at <= self.now or worker.exit is not None:
            return
        if any(isinstance(command, Exit) for command in commands):
            return
        if config.on_broken_queue == "exit":
            self.broke(worker, "went on with a queue from which it may not delete")
        elif all(closed) and not record.open and not record.polls and not record.calls:
            self.broke(worker, "went on without a queue to serve")
