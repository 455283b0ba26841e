"""Statements 17 to 21: whom a worker asks, for how much, and what it starts."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from simulation.rules import EPSILON, Rule

from jobq.worker.engine.commands import Nack, Receive
from jobq.worker.engine.events import ReceiveFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulation.playing import Worker
    from simulation.taken import Taken

    from jobq.worker.engine.config import QueueConfig

# After this long nothing of what went wrong with a receive keeps a queue from being asked.
FORGIVEN_SECONDS = 31.0
# So many in a row after a give-back, and a queue is claimed as before.
FAST_JOBS = 20
# So many tell how long the jobs of a queue take.
KNOWN_JOBS = 5


def free_slots(worker: Worker) -> int:
    return worker.config.concurrency - len(worker.record.engaged)


def full(worker: Worker, config: QueueConfig) -> bool:
    if config.cap is None:
        return False
    return sum(one.queue == config.name for one in worker.record.engaged.values()) >= config.cap


def last_receive(worker: Worker, taken: Taken) -> bool:
    most = worker.by_name[taken.queue].max_receive_count
    return most is not None and taken.lease.receive_count >= most


class IdleLongPoll(Rule):
    """17: an idle queue keeps one long poll out, for one message, while any slot is free."""

    statement = 17
    concerns = (Receive,)

    def turned(self, worker: Worker, events: Sequence[Any], commands: list[Any]) -> None:
        record = worker.record
        if self.now >= record.stop_told_at or free_slots(worker) < 1:
            return
        asked = {poll.queue for poll in record.polls.values()}
        if len(asked) == len(worker.config.queues):
            return
        for config in worker.config.queues:
            if config.name not in asked and self._wants(worker, config):
                self.broke(worker, f"asks nothing of {config.name}, which is idle")

    def _wants(self, worker: Worker, config: QueueConfig) -> bool:
        queue = worker.record.queues[config.name]
        calm = self.now > queue.troubled_at + FORGIVEN_SECONDS
        return queue.empty and calm and not queue.closed and not full(worker, config)

    def commanded(self, worker: Worker, command: Any) -> None:
        record, config = worker.record, worker.by_name[command.queue]
        if not record.queues[command.queue].empty:
            return
        out = sum(poll.queue == command.queue for poll in record.polls.values())
        if out > 1:
            self.broke(worker, f"has {out} polls of {command.queue} out, which is idle")
        if command.max_messages > (config.claim_size or 1):
            self.broke(worker, f"asks idle {command.queue} for {command.max_messages}")
        if command.wait != worker.config.idle_wait:
            self.broke(worker, f"asks idle {command.queue} with a wait of {command.wait} s")


class RoomAndHolding(Rule):
    """18: what can't start in time goes back, and what is on its last receive comes first."""

    statement = 18
    concerns = (Receive,)

    def turned(self, worker: Worker, events: Sequence[Any], commands: list[Any]) -> None:
        record = worker.record
        if self.now < record.hold_check_at or self.now >= record.stop_told_at:
            return
        next_check = math.inf
        for taken in record.open:
            if not taken.waiting or taken.extending or self._spared(worker, taken):
                continue
            due = taken.read_at + worker.config.hold_limit
            if self.now <= due + EPSILON:
                next_check = min(next_check, due)
            elif self.now > record.stall_ends + 1:
                held = self.now - taken.read_at
                self.broke(worker, f"held {taken.body} for {held:.3f} s without a start")
        record.hold_check_at = max(next_check, self.now + 0.05)

    def _spared(self, worker: Worker, taken: Taken) -> bool:
        """On its last receive, or ahead of one that is in its group, or being started."""
        if last_receive(worker, taken) or self.play.lagging:
            return True
        if taken.group is None:
            return False
        group = worker.record.groups[taken.queue, taken.group]
        return any(one.in_hand and last_receive(worker, one) for one in group)

    def commanded(self, worker: Worker, command: Any) -> None:
        """A give-back sets the claim to one, until enough jobs in a row were fast."""
        if command.max_messages == 1:
            return
        self._check_room(worker, command)
        runs = worker.record.queues[command.queue].runs_since_give_back
        if runs < FAST_JOBS:
            self.broke(worker, f"asked {command.queue} for more than one after a give-back")

    def _check_room(self, worker: Worker, command: Receive) -> None:
        """Before anybody knows how long the jobs take, only free slots are room for many."""
        ahead, ended = worker.config.claim_ahead, worker.record.queues[command.queue].runs_ended
        if worker.by_name[command.queue].claim_size or (ahead and ended >= KNOWN_JOBS):
            return
        room = max(1, free_slots(worker) + (ahead > 0))
        if command.max_messages > room:
            self.broke(worker, f"asked for {command.max_messages} with room for {room}")

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        if not isinstance(command, Nack) or self.now >= worker.record.stop_told_at:
            return
        if self.play.lagging:
            return
        for taken in live:
            last = taken.group is None and last_receive(worker, taken)
            # One that is given back already may be delivered once more before that is accepted.
            last = last and taken.message not in self.play.duplicated
            if taken.retreats and last and not worker.record.runs_already(taken):
                self.broke(worker, f"gave {taken.body} back on its last receive")

    def started(self, worker: Worker, taken: Taken) -> None:
        if last_receive(worker, taken) or self.play.lagging:
            return
        for other in worker.record.open:
            if (
                other.waiting
                and other is not taken
                and other.group is None
                and last_receive(worker, other)
                and not full(worker, worker.by_name[other.queue])
                and not worker.record.runs_already(other)
                and other.read_at < self.now
            ):
                self.broke(worker, f"started {taken.body} before {other.body}'s last receive")


class Turns(Rule):
    """19: strict starts nothing before an earlier queue's, weighted starves none; all is served."""

    statement = 19

    def __init__(self, play: Any) -> None:
        super().__init__(play)
        self._passed: dict[tuple[int, str], int] = defaultdict(int)

    def started(self, worker: Worker, taken: Taken) -> None:
        cap = worker.by_name[taken.queue].cap
        held = sum(one.queue == taken.queue for one in worker.record.engaged.values())
        if cap is not None and held > cap:
            self.broke(worker, f"started {taken.body} in slot {held} of the {cap} of its queue")
        if self.play.lagging:
            return
        waiting = self._startable(worker, taken)
        names = [config.name for config in worker.config.queues]
        urgent = last_receive(worker, taken)
        if worker.config.polling == "strict" and not urgent:
            self._check_asked(worker, taken, names[: names.index(taken.queue)])
        for name in waiting:
            before = names.index(name) < names.index(taken.queue)
            if worker.config.polling == "strict":
                if before and not urgent:
                    self.broke(worker, f"started {taken.body} while {name} had one to start")
            elif name != taken.queue:
                self._pass(worker, name, taken)
        self._passed[worker.number, taken.queue] = 0

    def _check_asked(self, worker: Worker, taken: Taken, earlier: list[str]) -> None:
        """Each earlier queue that had work has been asked since the slot fell free."""
        polled = {poll.queue for poll in worker.record.polls.values()}
        for name in earlier:
            queue = worker.record.queues[name]
            calm = self.now > queue.troubled_at + FORGIVEN_SECONDS
            spared = queue.empty or queue.closed or full(worker, worker.by_name[name])
            if name in polled or spared or not calm or queue.asked_at >= taken.slot_free_since:
                continue
            self.broke(worker, f"started {taken.body} before {name}, which had work, was asked")

    def _pass(self, worker: Worker, name: str, taken: Taken) -> None:
        self._passed[worker.number, name] += 1
        weights = {config.name: config.weight for config in worker.config.queues}
        share = weights[name] / sum(weights.values())
        most = 3 * math.ceil(1 / share) + 2 * len(weights) + self._urgent_ones(worker)
        if self._passed[worker.number, name] > most:
            self.broke(worker, f"started {most} others while {name} had one to start")

    def _urgent_ones(self, worker: Worker) -> int:
        return len(worker.record.taken) if self.play.plan.redrive else 0

    def _startable(self, worker: Worker, taken: Taken) -> set[str]:
        """The queues that have a message which could have taken this slot."""
        startable: set[str] = set()
        for other in worker.record.open:
            if (
                other is not taken
                and other.waiting
                and not other.extending  # it may be on its way back, once that is answered
                and other.group is None
                and other.read_at < self.now
                and not worker.record.runs_already(other)
                and not full(worker, worker.by_name[other.queue])
            ):
                startable.add(other.queue)
        return startable

    def rested(self) -> None:
        for body in self.play.unserved():
            self.play.broke(self.statement, f"{body} was never served")


class NothingSpins(Rule):
    """20: while nothing more has room nothing is polled, and nothing turns in vain."""

    statement = 20
    concerns = (Receive,)

    def commanded(self, worker: Worker, command: Any) -> None:
        ahead = worker.config.claim_ahead
        if ahead == 0 and free_slots(worker) < 1:
            self.broke(worker, f"asked {command.queue} with every slot held")

    def exited(self, worker: Worker) -> None:
        seconds = self.now - worker.record.born_at
        if worker.record.idle_turns > 50 + seconds * len(worker.config.queues):
            self.broke(worker, f"turned {worker.record.idle_turns} times in {seconds:.0f} s")


class BacksOff(Rule):
    """21: a failing queue is asked ever less often; a worker that has only such ones ends."""

    statement = 21
    concerns = (Receive,)

    def turned(self, worker: Worker, events: Sequence[Any], commands: list[Any]) -> None:
        if not any(isinstance(event, ReceiveFailed) for event in events):
            return
        record = worker.record
        if self.now >= record.stop_told_at:
            return
        queues = [record.queues[config.name] for config in worker.config.queues]
        if all(queue.failures >= 10 for queue in queues):
            self.broke(worker, "went on though every queue had failed ten times")
        if record.shut_out:
            self.broke(worker, "went on though it may not receive")

    def commanded(self, worker: Worker, command: Any) -> None:
        queue = worker.record.queues[command.queue]
        if not queue.failures:
            return
        pause = self.now - queue.failed_at
        least = 0.5 * min(30.0, 2.0 ** (queue.failures - 1))
        if pause < least - EPSILON and worker.record.stall_ends < queue.failed_at:
            self.broke(
                worker,
                f"asked {command.queue} {pause:.3f} s after its failure {queue.failures} in a row",
            )
