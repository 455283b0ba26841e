"""One seed makes one schedule of messages, handlers, faults, stops and kills; this plays it."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

from simulated import (
    DENIED,
    THROTTLED,
    Conduct,
    SimulatedWorker,
    World,
    postpones,
    raises,
    refuses,
)

if TYPE_CHECKING:
    from jobq.core import Lease
    from jobq.worker.engine.commands import Receive, Run

QUEUES = [["a"], ["a.fifo"], ["a", "b.fifo"], ["a", "b", "c.fifo"], ["a.fifo", "b.fifo"]]


def broken_by(seed: int) -> list[str]:
    """Play one schedule to its end; returns a sentence for each invariant that did not hold."""
    schedule = Schedule(seed)
    schedule.play()
    return schedule.broken


class Watched(SimulatedWorker):
    """A worker whose every start is held against what must hold."""

    def __init__(self, schedule: Schedule, **options: Any) -> None:
        self.schedule = schedule
        self.stopped = False
        super().__init__(schedule.world, len(schedule.world.workers), **options)

    @property
    def serving(self) -> bool:
        return not self.dead and not self.stopped and self.exit is None

    def has_closed(self, queue: str) -> bool:
        """Its deletes were refused, and the queue stays closed: statement 8."""
        return any(one.closed for one in self.engine.state.queues if one.config.name == queue)

    def stop(self) -> None:
        self.stopped = True
        super().stop()

    def _receive(self, command: Receive) -> None:
        if self.stopped:
            self.world.after(0, lambda: self._skip(command))
        else:
            super()._receive(command)

    def _run(self, command: Run) -> None:
        if self.world.now < command.not_after:
            running = [run for run, _ in self.running.values() if run.queue == command.queue]
            self.schedule.check_start(command, running)
        super()._run(command)

    def _finish(self, key: int, result: Any) -> None:
        if key in self.running and type(result).__name__ in {"Succeeded", "Refused"}:
            self.world.done.add(self.running[key][0].lease.body)
        super()._finish(key, result)


class Schedule:
    """What a seed decides, and what of DESIGN's section 5 did not hold while it was played.

    `steady`: no process stood still, so that leases hold and order does between workers, too.
    `duplicated`: a standard queue delivered a message twice, which nobody can know beforehand.
    """

    def __init__(self, seed: int) -> None:
        self.chance = chance = random.Random(seed)
        self.world = World(seed, latency=(0.001, chance.choice([0.005, 0.05, 0.5])))
        self.queues = chance.choice(QUEUES)
        self.visibility = chance.choice([4.0, 10.0, 30.0])
        self.sent: dict[str, list[tuple[str | None, str]]] = {name: [] for name in self.queues}
        self.broken: list[str] = []
        self.steady = True
        self.duplicated = False
        self._numbers = itertools.count()
        for name in self.queues:
            self.world.queue(name)

    def play(self, *, steps: int = 60) -> None:
        for _ in range(self.chance.randint(3, 20)):
            self._send()
        self._start()
        moves = [self._send] * 3 + [self._fault] * 2 + [lambda: None] * 3
        moves += [self._start, self._stop, self._kill, self._stall, self._duplicate]
        for _ in range(steps):
            self.world.run(self.chance.choice([0.01, 0.2, 1, 3, 8]))
            self.chance.choice(moves)()
        self._end()

    # --- moves -------------------------------------------------------------------------------

    def _send(self) -> None:
        name = self.chance.choice(self.queues)
        group = f"g{self.chance.randrange(3)}" if name.endswith(".fifo") else None
        kind = self.chance.choice(["j"] * 12 + ["malformed", "unknown"])
        body = f"{kind}{next(self._numbers)}"
        self.sent[name].append((group, body))
        self.world.conduct[body] = self._conduct()
        self.world.send(name, body, group=group)

    def _conduct(self) -> list[Conduct]:
        chance = self.chance
        seconds = chance.choice([0.001, 0.05, 1, self.visibility * 2])
        first = chance.choice(
            [
                [],
                [],
                [],
                [raises(seconds)],
                [raises(seconds, base_delay=1)],
                [postpones(seconds, 3)],
                [raises(0.01, base_delay=2), raises(seconds)],
            ]
        )
        usual = Conduct(seconds, cancellable=chance.random() < 0.5)
        return [*first, chance.choice([usual, usual, usual, refuses(seconds)])]

    def _start(self) -> None:
        chance = self.chance
        if sum(worker.serving for worker in self._workers()) >= 3:
            return
        claim_size = chance.choice([None, None, 10])
        queues = [
            SimulatedWorker.config_of(
                name,
                visibility=self.visibility,
                claim_size=claim_size,
                weight=chance.choice([1, 1, 5]),
                cap=chance.choice([None, None, 1]),
                max_runtime=chance.choice([3600, 3600, 100]),
            )
            for name in self.queues
        ]
        worker = Watched(
            self,
            queues=queues,
            concurrency=chance.choice([1, 2, 8]),
            polling=chance.choice(["weighted", "strict"]),
            hold_limit=chance.choice([0.5, 2, 20, 20]),
            claim_ahead=chance.choice([0, 1, 5]),
        )
        self.world.workers.append(worker)

    def _some(self, share: float = 1.0) -> Watched | None:
        serving = [worker for worker in self._workers() if worker.serving]
        return self.chance.choice(serving) if serving and self.chance.random() < share else None

    def _stop(self) -> None:
        if worker := self._some():
            worker.stop()

    def _kill(self) -> None:
        if worker := self._some(0.3):
            worker.kill()

    def _stall(self) -> None:
        if worker := self._some(0.3):
            self.steady = False
            worker.stall(self.chance.choice([0.5, 3, self.visibility * 1.5]))

    def _fault(self) -> None:
        kind = self.chance.choice(["ack", "nack", "extend", f"receive {self.queues[0]}"])
        errors = [THROTTLED, THROTTLED, DENIED] if kind == "ack" else [THROTTLED]
        for _ in range(self.chance.choice([1, 2, 5])):
            self.world.faults[kind].errors.append(self.chance.choice(errors))

    def _duplicate(self) -> None:
        """A standard queue delivers a message that is in flight once more."""
        name = self.queues[0]
        in_flight = [
            entry.body
            for entry in self.world.stores[name].entries().values()
            if entry.hidden and entry.receipt
        ]
        if in_flight and not name.endswith(".fifo"):
            self.duplicated = True
            self.world.show_again(name, self.chance.choice(in_flight))

    def _workers(self) -> list[Watched]:
        return [worker for worker in self.world.workers if isinstance(worker, Watched)]

    # --- what must hold ----------------------------------------------------------------------

    def _claim(self, *, holds: bool, sentence: str) -> None:
        if not holds:
            self.broken.append(f"at {self.world.now - 1000:.3f} s, statement {sentence}")

    def check_start(self, command: Run, running: list[Run]) -> None:
        lease, queue = command.lease, command.queue
        entry = self.world.stores[queue].entries().get(lease.message_id)
        self._claim(
            holds=self.duplicated or (entry is not None and entry.receipt == lease.receipt),
            sentence=f"2: {lease.body} started on a lease that others had taken over",
        )
        for other in running:
            self._claim(
                holds=lease.group_id is None or other.lease.group_id != lease.group_id,
                sentence=f"9: {lease.body} started beside {other.lease.body} of its group",
            )
            self._claim(
                holds=other.lease.message_id != lease.message_id,
                sentence=f"16: {lease.body} started while it still ran",
            )
        if queue.endswith(".fifo") and self.steady:
            waiting = self._still_there_before(queue, lease)
            self._claim(
                holds=not waiting, sentence=f"10: {lease.body} started before {waiting} was gone"
            )

    def _still_there_before(self, queue: str, lease: Lease) -> list[str]:
        group = [body for group, body in self.sent[queue] if group == lease.group_id]
        left = self.world.bodies(queue)
        return [body for body in group[: group.index(lease.body)] if body in left]

    def _end(self) -> None:
        """No more faults; whoever serves, or a fresh worker, has time for all that is left."""
        for fault in self.world.faults.values():
            fault.errors.clear()
        if self._some() is None:
            self._start()
        self.world.run(1500)
        for queue, sent in self.sent.items():
            self._check_served(queue, sent)
        for worker in self._workers():
            if worker.serving:
                worker.stop()
        self.world.run(60)
        for worker in self._workers():
            if not worker.dead:
                self._check_end(worker)

    def _check_served(self, queue: str, sent: list[tuple[str | None, str]]) -> None:
        left = self.world.bodies(queue)
        stuck: set[str] = set()
        closed = any(worker.serving and worker.has_closed(queue) for worker in self._workers())
        for group, body in sent:
            self._claim(
                holds=body in left or body in self.world.done or body.startswith("malformed"),
                sentence=f"1: {body} is gone and no handler was done with it",
            )
            if body.startswith("unknown"):
                stuck.add(group or body)
            blocked = closed or (group or body) in stuck
            self._claim(holds=body not in left or blocked, sentence=f"19: {body} was never served")

    def _check_end(self, worker: SimulatedWorker) -> None:
        self._claim(
            holds=worker.exit is not None,
            sentence=f"22: worker {worker.number} did not end in time",
        )
        if worker.exit is None:
            return
        counts = worker.exit.accounts
        classes = counts.started + counts.refused + counts.taken_over
        classes += counts.given_back + counts.left
        self._claim(holds=counts.received == classes, sentence=f"23: {counts} doesn't add up")
