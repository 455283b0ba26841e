"""One seed, one schedule: queues, messages, handlers, faults, stops and kills; and what must hold."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
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
    from jobq.worker.engine.commands import Run


@dataclass(slots=True)
class Story:
    """A schedule as it went. `broken` holds a sentence for each invariant that did not hold."""

    seed: int
    world: World
    broken: list[str] = field(default_factory=list[str])
    steady: bool = True
    sent: dict[str, list[tuple[str | None, str]]] = field(
        default_factory=dict[str, list[tuple[str | None, str]]]
    )

    def workers(self) -> list[Watched]:
        return [worker for worker in self.world.workers if isinstance(worker, Watched)]

    def claim(self, holds: bool, sentence: str) -> None:
        if not holds:
            self.broken.append(f"{self.world.now - 1000:.3f} s: {sentence}")


class Watched(SimulatedWorker):
    """A worker whose every step is held against what must hold."""

    story: Story
    stopped_at: float | None = None

    def _run(self, command: Run) -> None:
        story, world = self.story, self.world
        body, group = command.lease.body, command.lease.group_id
        entry = world.stores[command.queue].entries().get(command.lease.message_id)
        if world.now < command.not_after:
            story.claim(
                entry is not None and entry.receipt == command.lease.receipt,
                f"2: {body} started on a lease that others had taken over",
            )
            for other, _ in self.running.values():
                same_group = group is not None and other.lease.group_id == group
                story.claim(
                    not (same_group and other.queue == command.queue),
                    f"9: {body} started beside {other.lease.body} of its group",
                )
                story.claim(
                    other.lease.message_id != command.lease.message_id,
                    f"16: {body} started while it still ran",
                )
            if command.queue.endswith(".fifo") and story.steady:
                before = [one for g, one in story.sent[command.queue] if g == group]
                before = before[: before.index(body)]
                waiting = [one for one in before if one in world.bodies(command.queue)]
                story.claim(not waiting, f"10: {body} started before {waiting} was gone")
        super()._run(command)

    def _finish(self, key: int, result: Any) -> None:
        if key in self.running and type(result).__name__ in ("Succeeded", "Refused"):
            self.world.done.add(self.running[key][0].lease.body)
        super()._finish(key, result)

    def _receive(self, command: Any) -> None:
        if self.stopped_at is not None:
            self.world.after(0, lambda: self._skip(command))
            return
        super()._receive(command)

    def stop(self) -> None:
        self.stopped_at = self.world.now
        super().stop()


def tell(seed: int, *, steps: int = 60) -> Story:
    """Play one schedule."""
    chance = random.Random(seed)
    world = World(seed, latency=(0.001, chance.choice([0.005, 0.05, 0.5])))
    story = Story(seed, world)
    names = chance.choice(
        [["a"], ["a.fifo"], ["a", "b.fifo"], ["a", "b", "c.fifo"], ["a.fifo", "b.fifo"]]
    )
    visibility = chance.choice([4.0, 10.0, 30.0])
    for name in names:
        world.queue(name)
        story.sent[name] = []
    numbers = iter(range(1000))

    def send() -> None:
        name = chance.choice(names)
        group = f"g{chance.randrange(3)}" if name.endswith(".fifo") else None
        kind = chance.choice(["j"] * 12 + ["malformed", "unknown"])
        body = f"{kind}{next(numbers)}"
        story.sent[name].append((group, body))
        world.conduct[body] = conducts(chance, visibility)
        world.send(name, body, group=group)

    def start() -> None:
        worker = Watched.__new__(Watched)
        worker.story = story
        claim = chance.choice([None, None, 10])
        Watched.__init__(
            worker,
            world,
            len(world.workers),
            queues=[
                SimulatedWorker.config_of(
                    name,
                    visibility=visibility,
                    claim_size=claim,
                    weight=chance.choice([1, 1, 5]),
                    cap=chance.choice([None, None, 1]),
                    max_runtime=chance.choice([3600, 3600, 100]),
                )
                for name in names
            ],
            concurrency=chance.choice([1, 2, 8]),
            polling=chance.choice(["weighted", "strict"]),
            hold_limit=chance.choice([2, 20, 20]),
            claim_ahead=chance.choice([0, 1, 5]),
        )
        world.workers.append(worker)

    for _ in range(chance.randint(3, 20)):
        send()
    start()
    for _ in range(steps):
        world.run(chance.choice([0.01, 0.2, 1, 3, 8]))
        live = [worker for worker in world.workers if not worker.dead and worker.exit is None]
        match chance.randrange(12):
            case 0 | 1 | 2:
                send()
            case 3 if len(live) < 3:
                start()
            case 4 if live:
                chance.choice(live).stop()
            case 5 if live and chance.random() < 0.3:
                chance.choice(live).kill()
            case 6 | 7:
                fault(chance, world, names)
            case 8 if live and chance.random() < 0.3:
                story.steady = False
                chance.choice(live).stall(chance.choice([0.5, 3, visibility * 1.5]))
            case _:
                pass
    finish(story, start)
    return story


def conducts(chance: random.Random, visibility: float) -> list[Conduct]:
    seconds = chance.choice([0.001, 0.05, 1, visibility * 2])
    usual = Conduct(seconds, cancellable=chance.random() < 0.5)
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
    return [*first, chance.choice([usual, usual, usual, refuses(seconds)])]


def fault(chance: random.Random, world: World, names: list[str]) -> None:
    kind = chance.choice(["ack", "nack", "extend", f"receive {chance.choice(names)}"])
    many = chance.choice([1, 2, 5])
    errors = [THROTTLED, THROTTLED, DENIED] if kind == "ack" else [THROTTLED]
    world.faults[kind].errors.extend(chance.choice(errors) for _ in range(many))


def finish(story: Story, start: Any) -> None:
    """Let everything end: no more faults, one fresh worker at least, all stopped at last."""
    world = story.world
    for one in world.faults.values():
        one.errors.clear()
    if all(one.dead or one.exit or one.stopped_at is not None for one in story.workers()):
        start()
    world.run(1500)
    for queue, sent in story.sent.items():
        left = world.bodies(queue)
        stuck: set[str | None] = set()
        for group, body in sent:
            if body.startswith("unknown"):
                stuck.add(group)
            story.claim(
                body in left or body in world.done or body.startswith("malformed"),
                f"1: {body} is gone and no handler was done with it",
            )
            blocked = body.startswith("unknown") or (group is not None and group in stuck)
            story.claim(body not in left or blocked, f"19: {body} was never served")
    for worker in world.workers:
        if worker.exit is None and not worker.dead:
            worker.stop()
    world.run(60)
    for worker in world.workers:
        if not worker.dead:
            check_end(story, worker)


def check_end(story: Story, worker: SimulatedWorker) -> None:
    story.claim(worker.exit is not None, f"22: worker {worker.number} did not end in time")
    if worker.exit is None:
        return
    counts = worker.exit.accounts
    classes = counts.started + counts.refused + counts.taken_over + counts.given_back + counts.left
    story.claim(counts.received == classes, f"23: {counts} doesn't add up")
