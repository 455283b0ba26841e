"""Plays a plan on workers' engines, and watches what must hold."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from simulated import (
    INVALID,
    LOST_REPLY,
    LOST_REQUEST,
    THROTTLED,
    UNAVAILABLE,
    Conduct,
    SimulatedWorker,
    Watcher,
    World,
    postpones,
    raises,
    refuses,
)
from simulation import plans
from simulation.record import Record
from simulation.rules import EPSILON, Rule

from jobq.core.memory.store import Store
from jobq.worker.engine.commands import Notice
from jobq.worker.engine.events import Tick

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulation.plans import Act, Plan

    from jobq.core import Lease
    from jobq.worker.engine.commands import Receive, Run

HOW = {
    "throttled": THROTTLED,
    "unavailable": UNAVAILABLE,
    "invalid": INVALID,
    "lost request": LOST_REQUEST,
    "lost reply": LOST_REPLY,
}
# How long what can be served may take once nothing goes wrong any more.
REST_SECONDS = 5000.0
STEP_SECONDS = 5.0
# After so long somebody looks at what hangs, and after a stop at what is still there.
RESTART_SECONDS = 60.0
STOP_SECONDS = 70.0
MOST_WORKERS = 3


@dataclass(frozen=True, slots=True)
class Breach:
    """A statement of docs/guarantees.md that did not hold. `at` is in seconds from the start."""

    at: float
    statement: int
    sentence: str

    def __str__(self) -> str:
        return f"at {self.at:.3f} s, statement {self.statement}: {self.sentence}"


class Worker(SimulatedWorker):
    """One worker of a play; `asked_to_stop` by the play, not by itself."""

    def __init__(self, play: Play, number: int, start: plans.Start) -> None:
        self.record = Record()
        self.asked_to_stop = False
        self.play = play
        queues = [
            self.config_of(
                name,
                visibility=play.plan.visibility,
                max_receive_count=play.plan.redrive,
                max_runtime=play.plan.max_runtime,
                **dict(options),
            )
            for name, options in start.queues
        ]
        options = dict(start.options)
        self.record.free_since.extend([play.world.now] * options["concurrency"])
        super().__init__(play.world, number, queues=queues, **options)

    @property
    def serving(self) -> bool:
        return not self.dead and not self.asked_to_stop and self.exit is None

    @property
    def out_of_time(self) -> bool:
        """It was stopped, and its `shutdown_timeout` is over."""
        end = self.record.stop_told_at + self.config.shutdown_timeout
        return self.world.now >= end - EPSILON

    def reasons(self) -> list[Any]:
        """What it said of why it ends, beside being asked to."""
        return [
            notice
            for notice in self.record.notices
            if "reason" in notice.fields or notice.event == "queue_closed"
        ]

    def stop(self) -> None:
        self.asked_to_stop = True
        super().stop()

    def _receive(self, command: Receive) -> None:
        if self.record.stop_told_at <= self.world.now:
            self.world.after(0, lambda: self._skip(command))
        else:
            super()._receive(command)


class Play(Watcher):
    """The plan, its world, what was seen, and which rules did not hold."""

    def __init__(self, plan: Plan, rules: Sequence[type[Rule]]) -> None:
        self.plan = plan
        self.breaches: list[Breach] = []
        self.world = World(
            plan.seed, latency=(0.001, plan.latency), pulses=False, fair=False, watcher=self
        )
        self.sent: dict[str, list[tuple[str | None, str]]] = {name: [] for name in plan.queues}
        self.graves: dict[str, Store] = {}
        self.duplicated: set[str] = set()
        # Threads are slow to take up commands: what is meant for now happens later.
        self.lagging = False
        self.workers: list[Worker] = []
        self.rules = [rule(self) for rule in rules]
        self._turn_rules = _overriding(self.rules, "turned")
        self._start_rules = _overriding(self.rules, "started")
        self._sending_rules = _overriding(self.rules, "sending")
        self._done_rules = _overriding(self.rules, "done")
        self._command_rules: dict[type[Any], list[Rule]] = defaultdict(list)
        for rule in self.rules:
            for kind in rule.concerns:
                self._command_rules[kind].append(rule)
        for name in plan.queues:
            grave = None
            if plan.redrive:
                grave = self.graves[name] = Store(
                    f"{name}-dead",
                    fifo=name.endswith(".fifo"),
                    visibility_timeout=30,
                    max_message_bytes=1_048_576,
                    new_id=lambda: "unused",
                )
            self.world.queue(name, dead_letter=grave, max_receive_count=plan.redrive or 0)

    def broke(self, statement: int, sentence: str) -> None:
        self.breaches.append(Breach(self.world.now - 1000, statement, sentence))

    def run(self) -> list[Breach]:
        for pause, move in self.plan.moves:
            if pause:
                self.world.run(pause)
            self.make(move)
            if self.breaches:
                return self.breaches
        self._rest()
        return self.breaches

    # --- moves -------------------------------------------------------------------------------

    def make(self, move: plans.Move) -> None:
        match move:
            case plans.Send(queue, body, group, acts):
                self.sent[queue].append((group, body))
                self.world.conduct[body] = [_conduct(act) for act in acts]
                self.world.send(queue, body, group=group)
            case plans.Start():
                if sum(worker.serving for worker in self.workers) < MOST_WORKERS:
                    self._start(move)
            case plans.Stop() | plans.Kill() | plans.Stall() | plans.Jump():
                serving = [worker for worker in self.workers if worker.serving]
                if serving:
                    self._disturb(serving[move.worker % len(serving)], move)
            case plans.Duplicate(queue, number):
                self._duplicate(queue, number)
            case _:
                self._trouble(move)

    def _disturb(
        self, worker: Worker, move: plans.Stop | plans.Kill | plans.Stall | plans.Jump
    ) -> None:
        match move:
            case plans.Stop():
                worker.stop()
            case plans.Kill():
                worker.kill()
            case plans.Stall(_, seconds):
                worker.record.stall_ends = self.world.now + seconds
                worker.stall(seconds)
            case plans.Jump(_, seconds):
                worker.record.jumped(seconds, self.world.now)
                worker.jump(seconds)

    def _trouble(self, move: plans.Trouble) -> None:
        world = self.world
        match move:
            case plans.Refuse(kind, queue, how, times):
                world.faults[f"{kind} on {queue}"].errors += [HOW[how]] * times
            case plans.RefuseEntries(kind, how, times, every):
                spared: list[Any] = [None] * (every - 1)
                world.faults[kind].errors += [*spared, HOW[how]] * times
            case plans.Deny(kind, queue, seconds):
                world.denied[f"{kind} {queue}"] = world.now + seconds
            case plans.Outage(seconds):
                world.outage_ends = max(world.outage_ends, world.now + seconds)
            case plans.StepWallClock(seconds):
                world.wall_clock_ahead += seconds
            case plans.Lag(seconds):
                self.lagging = True
                world.late = (lambda: world.random.random() * seconds) if seconds else _at_once

    def _start(self, start: plans.Start) -> None:
        worker = Worker.__new__(Worker)
        self.workers.append(worker)
        self.world.workers.append(worker)
        worker.__init__(self, len(self.workers) - 1, start)
        worker.record.born_at = self.world.now

    def _duplicate(self, queue: str, number: int) -> None:
        in_flight = [
            entry
            for entry in self.world.stores[queue].entries().values()
            if entry.hidden and entry.receipt
        ]
        if in_flight and not queue.endswith(".fifo"):
            entry = in_flight[number % len(in_flight)]
            self.duplicated.add(entry.message_id)
            self.world.show_again(queue, entry.body)

    # --- the end -----------------------------------------------------------------------------

    def _rest(self) -> None:
        """Nothing goes wrong any more: what can be served is, and whoever is stopped ends."""
        self._calm()
        self._serve()
        if self.breaches:
            return
        for rule in self.rules:
            rule.rested()
        for worker in self.workers:
            if worker.serving:
                worker.stop()
        self.world.run(STOP_SECONDS)
        alive = [worker for worker in self.workers if not worker.dead]
        for worker, rule in itertools.product(alive, self.rules):
            rule.exited(worker)

    def _calm(self) -> None:
        for fault in self.world.faults.values():
            fault.errors.clear()
        self.world.denied.clear()
        self.world.outage_ends, self.world.late = 0.0, _at_once

    def _serve(self) -> None:
        world = self.world
        end, restart = world.now + REST_SECONDS, world.now + RESTART_SECONDS
        while self.unserved() and world.now < end and not self.breaches:
            able = [worker for worker in self.workers if worker.serving]
            if not able or world.now > restart:
                restart = world.now + RESTART_SECONDS
                self._restart(able)
            world.run(STEP_SECONDS)

    def _restart(self, able: list[Worker]) -> None:
        """Stop whoever has a handler that hangs or a queue that is closed, as somebody would."""
        for worker in able:
            hangs = any(taken.abandoned for taken in worker.record.running.values())
            if hangs or any(queue.closed for queue in worker.record.queues.values()):
                worker.stop()
        if not any(worker.serving for worker in self.workers):
            self._start(_plain_worker(self.plan))

    def unserved(self) -> list[str]:
        """What is still there that somebody should have been done with."""
        left: list[str] = []
        for queue, sent in self.sent.items():
            there = self.world.bodies(queue)
            stuck: set[str] = set()
            for group, body in sent:
                if body in there and self._stays(body):
                    stuck.add(group or body)
                if body in there and (group or body) not in stuck:
                    left.append(body)
        return left

    def _stays(self, body: str) -> bool:
        kept = any(
            worker.serving and worker.config.on_malformed == "leave" for worker in self.workers
        )
        return body.startswith("unknown") or (kept and body.startswith("malformed"))

    # --- what the world shows ----------------------------------------------------------------

    def told(self, worker: Any, events: Sequence[Any], commands: list[Any]) -> None:
        record: Record = worker.record
        now = self.world.now
        record.notices += [one for one in commands if isinstance(one, Notice)]
        for event in events:
            record.hear(event, commands, worker.ahead, now)
        for command in commands:
            record.say(command, now)
            for rule in self._command_rules[type(command)]:
                rule.commanded(worker, command)
        if not commands and type(events[0]) is Tick:
            record.idle_turns += 1
        for rule in self._turn_rules:
            rule.turned(worker, events, commands)

    def arrived(self, worker: Any, command: Receive, leases: list[Lease]) -> None:
        now = self.world.now
        entries = self.world.stores[command.queue].entries()
        for lease in leases:
            entry = entries.get(lease.message_id)
            current = entry is not None and entry.receipt == lease.receipt
            received_at = entry.received_at if entry is not None and current else now
            verdict = worker.verdict(lease.body)
            worker.record.arrived(command, lease, verdict, received_at, now)

    def calling(self, worker: Any, command: Any, live: list[Lease]) -> None:
        for rule in self._sending_rules:
            rule.sending(worker, command, [worker.record.taken[one.receipt] for one in live])

    def done(self, worker: Any, command: Any, lease: Lease) -> None:
        for rule in self._done_rules:
            rule.done(worker, command, lease)

    def began(self, worker: Any, run: Run) -> None:
        taken = worker.record.began(run.key, self.world.now)
        for rule in self._start_rules:
            rule.started(worker, taken)
        worker.record.running[run.key] = taken

    def over(self, worker: Any, run: Run, result: Any) -> None:
        worker.record.over(run.key, result, self.world.now)


def _overriding(rules: Sequence[Rule], hook: str) -> list[Any]:
    return [rule for rule in rules if getattr(type(rule), hook) is not getattr(Rule, hook)]


def _at_once() -> float:
    return 0.0


def _conduct(act: Act) -> Conduct:
    settings: dict[str, Any] = dict(act.policy)
    made = {
        "succeeds": lambda: Conduct(act.seconds),
        "raises": lambda: raises(act.seconds, **settings),
        "postpones": lambda: postpones(act.seconds, settings["seconds"]),
        "refuses": lambda: refuses(act.seconds),
    }[act.ending]()
    return replace(made, cancellable=act.cancellable)


def _plain_worker(plan: Plan) -> plans.Start:
    return plans.Start((("concurrency", 2),), tuple((name, ()) for name in plan.queues))
