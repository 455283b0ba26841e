"""A schedule as data: what is sent, what goes wrong and when. One seed draws one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Ending: TypeAlias = Literal["succeeds", "raises", "postpones", "refuses"]


@dataclass(frozen=True, slots=True)
class Act:
    """One run of a handler: after `seconds` it ends so. `policy` is the retry policy's."""

    seconds: float
    ending: Ending = "succeeds"
    policy: tuple[tuple[str, Any], ...] = ()
    cancellable: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    queue: str
    body: str
    group: str | None
    acts: tuple[Act, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """A worker with these options; `queues` holds each queue's own."""

    options: tuple[tuple[str, Any], ...]
    queues: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]


@dataclass(frozen=True, slots=True)
class Stop:
    worker: int


@dataclass(frozen=True, slots=True)
class Kill:
    worker: int


@dataclass(frozen=True, slots=True)
class Stall:
    """The process stands still for so many seconds."""

    worker: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Jump:
    """The worker's clock goes forward, as after a sleep of the machine."""

    worker: int
    seconds: float


@dataclass(frozen=True, slots=True)
class StepWallClock:
    seconds: float


@dataclass(frozen=True, slots=True)
class Refuse:
    """The next `times` calls of a kind to a queue are refused, or lost with their replies."""

    kind: str
    queue: str
    how: str
    times: int


@dataclass(frozen=True, slots=True)
class RefuseEntries:
    """Of the next entries of calls of a kind `times` are refused, one of `every` so many."""

    kind: str
    how: str
    times: int
    every: int


@dataclass(frozen=True, slots=True)
class Deny:
    """For so many seconds the role may not do this to the queue."""

    kind: str
    queue: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Outage:
    """For so many seconds nothing is answered."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A standard queue delivers something that is in flight once more."""

    queue: str
    number: int


@dataclass(frozen=True, slots=True)
class Lag:
    """From now on threads take up to so many seconds to take up a command."""

    seconds: float


Trouble: TypeAlias = StepWallClock | Refuse | RefuseEntries | Deny | Outage | Lag
Move: TypeAlias = Send | Start | Stop | Kill | Stall | Jump | Duplicate | Trouble


@dataclass(frozen=True, slots=True)
class Plan:
    """`moves` are made one after the other, each so many seconds after the one before.

    `redrive` is the queues' maxReceiveCount, None without a policy; `max_runtime` is every queue's.
    """

    seed: int
    queues: tuple[str, ...]
    visibility: float
    latency: float
    redrive: int | None
    max_runtime: float
    moves: tuple[tuple[float, Move], ...]


QUEUES = (
    ("a",),
    ("a.fifo",),
    ("a", "b.fifo"),
    ("a", "b"),
    ("a", "b", "c.fifo"),
    ("a.fifo", "b.fifo"),
)
MANY = tuple(f"q{n}" if n % 3 else f"q{n}.fifo" for n in range(20))
PAUSES = (0.0, 0.0, 0.01, 0.2, 1.0, 3.0, 8.0)


def plan_of(seed: int) -> Plan:
    return _Drawing(seed).plan()


class _Drawing:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        many = self.chance.random() < 0.01
        self.queues = MANY if many else self.chance.choice(QUEUES)
        self.visibility = self.chance.choice([4.0, 10.0, 30.0])
        self.longest = self.chance.choice([43_200.0] * 9 + [self.visibility * 5])
        self.max_runtime = self.chance.choice([3600.0, 3600.0, self.visibility * 2.5])
        # Many short jobs that wait already fill batches, of deletes and of give-backs too.
        self.busy = self.chance.random() < 0.3
        self.redrive = self.chance.choice([None, None, None, 2, 5])
        self.bodies = 0
        # Trouble of many kinds at once hides what one of them does: most schedules know a few.
        kinds = [
            self._stop,
            self._kill,
            self._stall,
            self._jump,
            self._refuse,
            self._refuse,
            self._refuse_entries,
            self._deny,
            self._outage,
            *[self._duplicate] * 4,
            self._lag,
            self._step,
        ]
        self.troubles = self.chance.sample(kinds, self.chance.randint(0, 4))
        if self.busy:
            self.troubles.append(self._refuse_entries)

    def plan(self) -> Plan:
        chance = self.chance
        messages = min(30, 5 + int(chance.expovariate(1 / 3)))
        first = messages if self.busy else chance.randint(0, messages)
        moves: list[tuple[float, Move]] = [(0.0, self._send()) for _ in range(first)]
        moves.append((0.0, self._start()))
        left = messages - first
        for trouble in self.troubles:
            for _ in range(chance.randint(1, 3)):
                moves.insert(chance.randint(0, len(moves)), (self._pause(), trouble()))
        for _ in range(chance.choice([0, 0, 1, 2])):
            moves.insert(chance.randint(0, len(moves)), (self._pause(), self._start()))
        for _ in range(left):
            moves.insert(chance.randint(0, len(moves)), (self._pause(), self._send()))
        return Plan(
            seed=self.seed,
            queues=self.queues,
            visibility=self.visibility,
            latency=chance.choice([0.005, 0.05, 0.5]),
            redrive=self.redrive,
            max_runtime=self.max_runtime,
            moves=tuple(moves),
        )

    def _pause(self) -> float:
        return self.chance.choice(PAUSES)

    # --- messages ----------------------------------------------------------------------------

    def _send(self) -> Send:
        chance = self.chance
        queue = chance.choice(self.queues)
        group = f"g{chance.randrange(3)}" if queue.endswith(".fifo") else None
        kind = chance.choice(["j"] * 14 + ["malformed", "unknown"])
        body = f"{kind}{self.bodies}"
        self.bodies += 1
        return Send(queue, body, group, self._acts())

    def _acts(self) -> tuple[Act, ...]:
        chance = self.chance
        seconds = chance.choice([0.001, 0.05, 1.0, 1.0, self.visibility * 2])
        if self.busy:
            seconds = chance.choice([0.001, 0.05])
        last = Act(seconds, cancellable=chance.random() < 0.5)
        if chance.random() < 0.1:
            last = Act(seconds, "refuses")
        if chance.random() < 0.6:
            return (last,)
        if self.max_runtime < 3600 and chance.random() < 0.2:
            # It hangs, and so does its slot; the next delivery does better.
            return Act(100_000.0, cancellable=chance.random() < 0.5), last
        return *(self._failure() for _ in range(chance.choice([1, 1, 2, 4]))), last

    def _failure(self) -> Act:
        chance = self.chance
        seconds = chance.choice([0.001, 0.1, 2.0])
        if chance.random() < 0.2:
            return Act(seconds, "postpones", (("seconds", chance.choice([0, 2.5, 20])),))
        policy: dict[str, Any] = {}
        if chance.random() < 0.6:
            policy["base_delay"] = chance.choice([0.5, 1, 3])
            policy["jitter"] = chance.random() < 0.5
        if chance.random() < 0.3:
            policy["max_delay"] = 5
        if chance.random() < 0.4:
            policy["max_attempts"] = chance.choice([1, 2, 3])
            policy["when_exhausted"] = chance.choice(["redrive", "discard", "dead_letter"])
        return Act(seconds, "raises", tuple(policy.items()), cancellable=chance.random() < 0.3)

    # --- workers -----------------------------------------------------------------------------

    def _start(self) -> Start:
        chance = self.chance
        claim_size = chance.choice([None, None, None, 10, 3])
        queues = tuple(
            (
                name,
                (
                    ("weight", chance.choice([1, 1, 5])),
                    ("cap", chance.choice([None, None, None, 1])),
                    ("claim_size", claim_size),
                    ("longest_visibility", self.longest),
                ),
            )
            for name in self.queues
        )
        idle_wait = 20.0 if self.queues is MANY else chance.choice([2.0, 20.0, 20.0])
        options = (
            ("concurrency", chance.choice([2, 8, 8] if self.busy else [1, 1, 2, 8])),
            ("polling", chance.choice(["weighted", "weighted", "strict"])),
            ("hold_limit", chance.choice([0.5, 2.0, 20.0, 20.0])),
            ("claim_ahead", chance.choice([0.0, 1.0, 1.0, 5.0])),
            ("idle_wait", idle_wait),
            ("on_malformed", chance.choice(["delete", "delete", "leave", "dead_letter"])),
            ("on_broken_queue", chance.choice(["back_off", "back_off", "exit"])),
            ("shutdown_timeout", chance.choice([25.0, idle_wait + 1])),
        )
        return Start(options, queues)

    # --- trouble -----------------------------------------------------------------------------

    def _worker(self) -> int:
        return self.chance.randrange(3)

    def _stop(self) -> Stop:
        return Stop(self._worker())

    def _kill(self) -> Kill:
        return Kill(self._worker())

    def _seconds(self) -> float:
        return self.chance.choice([0.5, 1.5, 3.0, self.visibility * 1.5])

    def _stall(self) -> Stall:
        return Stall(self._worker(), self._seconds())

    def _jump(self) -> Jump:
        return Jump(self._worker(), self._seconds())

    def _step(self) -> StepWallClock:
        return StepWallClock(self.chance.choice([-7200.0, -1.0, 90.0, 7200.0]))

    def _refuse(self) -> Refuse:
        kind = self.chance.choice(["receive", "ack", "ack", "nack", "extend", "copy"])
        how = self.chance.choice(
            ["throttled", "unavailable", "lost request", "lost reply", "invalid"]
        )
        if kind == "receive" and how == "invalid":
            how = "throttled"
        times = self.chance.choice([1, 1, 2, 5, 12])
        return Refuse(kind, self.chance.choice(self.queues), how, times)

    def _refuse_entries(self) -> RefuseEntries:
        kind = self.chance.choice(["ack", "ack", "nack", "extend", "copy"])
        how = self.chance.choice(["throttled", "unavailable", "invalid"])
        times, every = self.chance.choice([1, 1, 2, 5, 12]), self.chance.choice([1, 2, 3])
        return RefuseEntries(kind, how, times, every)

    def _deny(self) -> Deny:
        kind = self.chance.choice(["receive", "ack", "ack", "extend", "nack", "copy"])
        return Deny(kind, self.chance.choice(self.queues), self.chance.choice([1.0, 10.0, 60.0]))

    def _outage(self) -> Outage:
        return Outage(self.chance.choice([1.0, 10.0, 60.0]))

    def _duplicate(self) -> Duplicate:
        return Duplicate(self.chance.choice(self.queues), self.chance.randrange(30))

    def _lag(self) -> Lag:
        return Lag(self.chance.choice([0.0, 0.05, 1.0, self.visibility * 1.2]))
