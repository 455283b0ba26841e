"""Statements 13, 14 and 16: heartbeats, their end, and second deliveries."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from simulation.rules import EPSILON, Rule

from jobq.worker.engine.commands import Ack, Extend, Nack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulation.playing import Worker
    from simulation.taken import Taken

COMPANY_SECONDS = 0.05
# How late a heartbeat may be: the way of a reply, and a turn.
SLACK_SECONDS = 1.0
# After a stall a worker thinks that less is left of the 12 hours than there is.
LIMIT_SLACK_SECONDS = 5.0
# After this at the latest an extension that failed is tried again.
AGAIN_SECONDS = 1.0


class Heartbeats(Rule):
    """13: all in hand is extended at a third, not while it is settled; deletes hardly wait."""

    statement = 13

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        if isinstance(command, Extend):
            for taken in live:
                if isinstance(taken.settling, Ack | Nack) and not self.play.lagging:
                    self.broke(worker, f"extended {taken.body} while it was settled")
                if taken.settle_error is None:
                    self._check_age(worker, taken)
        elif isinstance(command, Ack):
            self._check_company(worker, live)

    def _check_company(self, worker: Worker, live: list[Taken]) -> None:
        record = worker.record
        alone = not record.running and not any(one.waiting for one in record.open)
        for taken in live:
            first = taken.started and not taken.settled_before
            first = first and taken.message not in self.play.duplicated
            if not first or self.play.lagging or record.stall_ends >= taken.returned_at:
                continue
            waited = self.now - taken.returned_at
            idle = self.now - max(taken.returned_at, record.busy_until)
            if waited > COMPANY_SECONDS + EPSILON or (alone and idle > EPSILON):
                self.broke(worker, f"waited {waited:.3f} s to delete {taken.body}")

    def turned(self, worker: Worker, events: Sequence[Any], commands: list[Any]) -> None:
        if self.now < worker.record.heartbeat_check_at:
            return
        next_check = math.inf
        for taken in worker.record.open:
            if self.now < self._due(worker, taken):
                next_check = min(next_check, self._due(worker, taken))
            elif not taken.extending:
                self._check_age(worker, taken)
        worker.record.heartbeat_check_at = max(next_check, self.now + 0.1)

    def _due(self, worker: Worker, taken: Taken) -> float:
        third = worker.by_name[taken.queue].visibility / 3
        due = max(taken.dated_at, taken.read_at - 1) + third + SLACK_SECONDS
        if taken.extend_failed and not taken.lost_receipt:
            due = max(due, taken.extend_failed_at + AGAIN_SECONDS + SLACK_SECONDS)
        # One whose receipt is a newer one by then goes out again after a moment for company.
        return max(due, taken.settle_answered_at + 2 * COMPANY_SECONDS)

    def _check_age(self, worker: Worker, taken: Taken) -> None:
        if self.now > self._due(worker, taken) and self._should_beat(worker, taken):
            age = self.now - taken.dated_at
            self.broke(worker, f"had {taken.body} in hand for {age:.3f} s, not extended")

    def _should_beat(self, worker: Worker, taken: Taken) -> bool:
        config = worker.by_name[taken.queue]
        runtime_over = self.now >= taken.started_at + config.max_runtime - 1
        limit = taken.received_at + config.longest_visibility
        return not (
            self.play.lagging
            or taken.lost_receipt
            or isinstance(taken.settling, Ack | Nack)
            or taken.abandoned
            or runtime_over
            or taken.dated_at + config.visibility > limit - LIMIT_SLACK_SECONDS
            or self.now < worker.record.stall_ends + 3
            or self.now >= worker.record.exit_at
        )


class StopsForGood(Rule):
    """14: no extension past the runtime or the 12 hours; what waits behind such runs goes back."""

    statement = 14

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        if not isinstance(command, Extend):
            return
        for taken in live:
            config = worker.by_name[taken.queue]
            over = self.now - taken.started_at - config.max_runtime
            if over > EPSILON and taken.running and not self.play.lagging:
                self.broke(worker, f"extended {taken.body} {over:.3f} s past its runtime")
            if self.now + command.visibility > taken.received_at + config.longest_visibility:
                self.broke(worker, f"extended {taken.body} past the 12 hours")

    def turned(self, worker: Worker, events: Sequence[Any], commands: list[Any]) -> None:
        record = worker.record
        for taken in record.running.values():
            over = self.now - taken.started_at - worker.by_name[taken.queue].max_runtime
            if over > EPSILON and not taken.abandoned and not self.play.lagging:
                self.broke(worker, f"let {taken.body} run {over:.3f} s past its runtime")
        held_up = len(record.running) == worker.config.concurrency and all(
            taken.abandoned for taken in record.running.values()
        )
        if not held_up or worker.exit is not None:
            return
        most = self.play.plan.redrive or math.inf
        for taken in record.open:
            spared = taken.extending or taken.lease.receive_count >= most
            spared = spared or taken.group is not None
            ran = record.runs_already(taken)
            if taken.waiting and not (spared or ran) and self.now > taken.read_at + EPSILON:
                self.broke(worker, f"kept {taken.body} behind jobs that hold every slot")


class NoSecondRun(Rule):
    """16: a second delivery of what still runs isn't started; its receipt is what counts."""

    statement = 16
    concerns = (Ack,)

    def started(self, worker: Worker, taken: Taken) -> None:
        for other in worker.record.running.values():
            if other.message == taken.message:
                self.broke(worker, f"started {taken.body} while it ran")

    def commanded(self, worker: Worker, command: Any) -> None:
        for lease in command.leases:
            newest = worker.record.latest[lease.message_id]
            if newest.lease.receipt != lease.receipt:
                self.broke(worker, f"deletes {lease.body} by an older receipt")
