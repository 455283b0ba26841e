"""Statements 9 to 11: what FIFO groups may expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.rules import EPSILON, Rule

from jobq.worker.engine.commands import Ack, Receive

if TYPE_CHECKING:
    from simulation.playing import Worker
    from simulation.taken import Taken


class OneAtATime(Rule):
    """9: the next of a group starts when the one before is confirmed gone, and returned."""

    statement = 9

    def started(self, worker: Worker, taken: Taken) -> None:
        if taken.group is None:
            return
        for other in worker.record.groups[taken.queue, taken.group]:
            if other is taken or not other.started:
                continue
            if other.running:
                self.broke(worker, f"started {taken.body} beside {other.body} of its group")
            elif other.in_hand:
                self.broke(worker, f"started {taken.body} before {other.body} was confirmed gone")

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        """A FIFO delete never waits for company."""
        if not isinstance(command, Ack) or not command.queue.endswith(".fifo"):
            return
        for taken in live:
            waited = self.now - taken.returned_at
            first = taken.started and not taken.settled_before
            awake = worker.record.stall_ends < taken.returned_at
            if first and awake and waited > EPSILON and not self.play.lagging:
                self.broke(worker, f"waited {waited:.3f} s to delete {taken.body}")


class NotPastAFailure(Rule):
    """10: none of a group runs past one that wasn't deleted."""

    statement = 10

    def started(self, worker: Worker, taken: Taken) -> None:
        if taken.group is None:
            return
        sent = [body for group, body in self.play.sent[taken.queue] if group == taken.group]
        earlier = set(sent[: sent.index(taken.body)])
        there = earlier & self.play.world.bodies(taken.queue)
        if there:
            self.broke(worker, f"started {taken.body} before {sorted(there)} were gone")


class ClaimsOfOne(Rule):
    """11: a FIFO claim takes one message unless the user asks for more."""

    statement = 11
    concerns = (Receive,)

    def commanded(self, worker: Worker, command: Any) -> None:
        config = worker.by_name[command.queue]
        if command.queue.endswith(".fifo") and command.max_messages > (config.claim_size or 1):
            self.broke(worker, f"asked {command.queue} for {command.max_messages} messages")
