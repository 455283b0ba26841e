"""Workers' engines under a simulated clock, over queues with SQS's rules; no thread, no sleep.

One seed makes one schedule. The rules of the queues are those of the in-memory queue.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jobq.core import (
    BackendError,
    ExtendResult,
    JobqError,
    LeaseLostError,
    Message,
    RetryPolicy,
)
from jobq.core.memory.store import Redrive, Store
from jobq.core.retries import DEFAULT_RETRY
from jobq.worker.engine import PULSE_SECONDS, Engine
from jobq.worker.engine.commands import (
    Abandon,
    Ack,
    DeadLetter,
    Exit,
    Extend,
    JobEnded,
    Nack,
    Notice,
    Receive,
    Run,
)
from jobq.worker.engine.config import EngineConfig, QueueConfig
from jobq.worker.engine.events import (
    DeadLettered,
    Delivery,
    Extended,
    Finished,
    NotStarted,
    Postponed,
    Raised,
    Received,
    ReceiveFailed,
    ReceiveSkipped,
    Refused,
    Settled,
    StopRequested,
    Succeeded,
    Tick,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from jobq.core import Lease

    SettlingCall: TypeAlias = Ack | Nack | Extend | DeadLetter


@dataclass(frozen=True, slots=True)
class Conduct:
    """How one run of a job goes: for so many seconds, to this result; sync ones can't be cut."""

    seconds: float = 0.1
    result: Any = field(default_factory=Succeeded)
    cancellable: bool = False


def raises(seconds: float = 0.1, **policy: Any) -> Conduct:
    return Conduct(seconds, Raised(RetryPolicy(**policy).over(DEFAULT_RETRY)))


def postpones(seconds: float, after: float) -> Conduct:
    return Conduct(seconds, Postponed(after))


def refuses(seconds: float = 0.1) -> Conduct:
    return Conduct(seconds, Refused())


@dataclass(slots=True)
class Fault:
    """What the next call of a kind meets instead of an answer; None in `errors` is a success."""

    errors: list[JobqError | None] = field(default_factory=list[JobqError | None])


THROTTLED = BackendError("slow down", retryable=True, throttled=True)
UNAVAILABLE = BackendError("try later", retryable=True)
DENIED = BackendError("not allowed", denied=True)
INVALID = BackendError("that makes no sense")
# The request never arrives, or its reply is lost after all was done; the client's patience ends.
LOST_REQUEST = BackendError("no connection", retryable=True)
LOST_REPLY = BackendError("no reply", retryable=True)
PATIENCE_SECONDS = 5.0


class Watcher:
    """Is shown what goes on; what it overrides it looks at."""

    def told(self, worker: SimulatedWorker, events: Sequence[Any], commands: list[Any]) -> None:
        """The engine took these in, and answered with these."""

    def arrived(self, worker: SimulatedWorker, command: Receive, leases: list[Lease]) -> None:
        """A reply with messages reached the process, which may not have read it yet."""

    def calling(self, worker: SimulatedWorker, command: SettlingCall, live: list[Lease]) -> None:
        """A settling call went out, with those leases that had not run out."""

    def done(self, worker: SimulatedWorker, command: SettlingCall, lease: Lease) -> None:
        """The server did what was asked for one lease."""

    def began(self, worker: SimulatedWorker, run: Run) -> None:
        """A handler started."""

    def over(self, worker: SimulatedWorker, run: Run, result: Any) -> None:
        """A handler came to its end."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the server saw it."""

    at: float
    kind: str
    queue: str
    worker: int
    count: int
    wait: float = 0


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a handler."""

    at: float
    body: str
    queue: str
    group: str | None
    receive_count: int
    worker: int


class World:
    """A clock, queues, and whatever workers are started on them.

    A worker is woken once a second, as its runner does; without `pulses` only where that can make
    a difference, which costs less. `late` draws how long a thread needs to take a command up.
    """

    def __init__(
        self,
        seed: int = 1,
        *,
        latency: tuple[float, float] = (0.002, 0.01),
        pulses: bool = True,
        fair: bool = True,
        watcher: Watcher | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.latency = latency
        self.pulses = pulses
        self.fair = fair
        self.watcher = watcher or Watcher()
        self.late: Callable[[], float] = lambda: 0.0
        self.now = 1000.0
        self.stores: dict[str, Store] = {}
        self.workers: list[SimulatedWorker] = []
        self.requests: list[Request] = []
        self.starts: list[Start] = []
        self.deleted: list[str] = []
        self.done: set[str] = set()
        self.conduct: dict[str, list[Conduct]] = {}
        self.usual: Conduct = Conduct()
        self.faults: dict[str, Fault] = defaultdict(Fault)
        self.denied: dict[str, float] = {}
        self.outage_ends = 0.0
        self.wall_clock_ahead = 0.0
        self.copies: list[str] = []
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._waiting: dict[str, list[Callable[[], bool]]] = defaultdict(list)
        self._sweeps: dict[str, float] = {}

    # --- the world ---------------------------------------------------------------------------

    def queue(
        self, name: str, *, dead_letter: Store | None = None, max_receive_count: int = 0
    ) -> Store:
        self.stores[name] = Store(
            name,
            fifo=name.endswith(".fifo"),
            visibility_timeout=30,
            max_message_bytes=1_048_576,
            new_id=lambda: f"m{next(self._numbers)}",
            redrive=Redrive(target=dead_letter, max_receive_count=max_receive_count)
            if dead_letter
            else None,
        )
        return self.stores[name]

    def send(self, queue: str, *bodies: str, group: str | None = None, delay: float = 0) -> None:
        for body in bodies:
            self.stores[queue].send(
                Message(
                    body=body,
                    group_id=group,
                    deduplication_id=f"d{next(self._numbers)}" if queue.endswith(".fifo") else None,
                    delay_seconds=delay,
                ),
                now=self.now,
                unix_time=self.now + self.wall_clock_ahead,
            )
        self.changed(queue)

    def show_again(self, queue: str, body: str) -> None:
        """Deliver a message that is in flight a second time, as standard queues may."""
        store = self.stores[queue]
        entry = next(one for one in store.entries().values() if one.body == body)
        store.change_visibility(entry.receipt, 0, now=self.now)
        self.changed(queue)

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), action))

    def delay(self) -> float:
        return self.random.uniform(*self.latency)

    def run(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """Let at most so many seconds go by."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            at, _, action = heapq.heappop(self._events)
            self.now = max(self.now, at)
            action()
            if until is not None and until():
                return
        self.now = end

    def worker(self, **options: Any) -> SimulatedWorker:
        worker = SimulatedWorker(self, len(self.workers), **options)
        self.workers.append(worker)
        return worker

    # --- the server --------------------------------------------------------------------------

    def changed(self, queue: str) -> None:
        """Something may have become visible: serve who waits."""
        waiting = self._waiting.pop(queue, [])
        if not self.fair:
            self.random.shuffle(waiting)
        self._waiting[queue] = [serve for serve in waiting if not serve()]
        self.watch(queue)

    def watch(self, queue: str) -> None:
        """Look at the queue again when something of it becomes visible."""
        due = self.stores[queue].due_after(self.now)
        if due is not None and not self.now <= self._sweeps.get(queue, -1) <= due:
            self._sweeps[queue] = due
            self.after(max(0.0, due - self.now), lambda: self._sweep(queue, due))

    def _sweep(self, queue: str, due: float) -> None:
        if self._sweeps.get(queue) == due:
            del self._sweeps[queue]
        self.changed(queue)

    def wait_for_messages(self, queue: str, serve: Callable[[], bool]) -> None:
        self._waiting[queue].append(serve)

    def fault(self, kind: str) -> JobqError | None:
        errors = self.faults[kind].errors if kind in self.faults else None
        return errors.pop(0) if errors else None

    def trouble(self, kind: str, queue: str) -> JobqError | None:
        """What a whole call meets instead of its answer."""
        if self.now < self.outage_ends:
            return LOST_REQUEST
        if self.now < self.denied.get(f"{kind} {queue}", 0):
            return DENIED
        return self.fault(f"{kind} on {queue}")

    def conduct_of(self, body: str) -> Conduct:
        planned = self.conduct.get(body)
        if not planned:
            return self.usual
        return planned.pop(0) if len(planned) > 1 else planned[0]

    # --- what was seen -----------------------------------------------------------------------

    def deliver(self, queue: str, count: int) -> None:
        """Send several messages at once, so that one receive brings them all."""
        waiting, self._waiting[queue] = self._waiting[queue], []
        for n in range(count):
            self.send(queue, f"late{n}", group="g" if queue.endswith(".fifo") else None)
        self._waiting[queue] = waiting
        self.changed(queue)

    def done_now(self, worker: SimulatedWorker) -> list[str]:
        """The messages of one worker whose runs have ended."""
        running = {run.lease.body for run, _ in worker.running.values()}
        return [start.body for start in self.starts if start.body not in running]

    def left(self, queue: str) -> int:
        stats = self.stores[queue].stats(now=self.now)
        return stats.waiting + stats.in_flight + stats.delayed

    def bodies(self, queue: str) -> set[str]:
        return {entry.body for entry in self.stores[queue].entries().values()}

    def count(self, kind: str, queue: str | None = None) -> int:
        return sum(
            1 for r in self.requests if r.kind == kind and (queue is None or r.queue == queue)
        )

    def started(self, queue: str | None = None) -> list[str]:
        return [start.body for start in self.starts if queue is None or start.queue == queue]


class SimulatedWorker:
    """An engine with executors that take simulated time.

    `ahead` is how far its own clock is before the world's.
    """

    def __init__(self, world: World, number: int, *, queues: Sequence[Any] = (), **options: Any):
        self.world = world
        self.number = number
        self.ahead = 0.0
        configs = tuple(
            queue if isinstance(queue, QueueConfig) else self.config_of(queue)
            for queue in (queues or world.stores)
        )
        self.config = EngineConfig(queues=configs, **options)
        self.by_name = {queue.name: queue for queue in configs}
        self.engine = Engine(self.config, now=self.now, random=world.random.random)
        self.verdict: Callable[[str], Any] = lambda body: (
            "malformed"
            if body.startswith("malformed")
            else "unknown_job_type"
            if body.startswith("unknown")
            else "runnable"
        )
        self.ended: list[JobEnded] = []
        self.notices: list[Notice] = []
        self.exit: Exit | None = None
        self.dead = False
        self.stalled_until = 0.0
        self.running: dict[int, tuple[Run, Conduct]] = {}
        self._tick = 0
        self._stood_still = False
        self.tell(Tick())

    @staticmethod
    def config_of(name: str, **more: Any) -> QueueConfig:
        settings: dict[str, Any] = {"visibility": 30.0, "ordered": name.endswith(".fifo"), **more}
        return QueueConfig(name=name, **settings)

    @property
    def now(self) -> float:
        return self.world.now + self.ahead

    def stop(self) -> None:
        self.tell(StopRequested())

    def stall(self, seconds: float) -> None:
        """The process stands still; what reaches it meanwhile is read afterwards."""
        since_pulse = self._last_pulse()
        self.stalled_until = max(self.stalled_until, self.world.now + seconds)
        self.world.after(max(seconds, PULSE_SECONDS - since_pulse), lambda: self.tell(Tick()))

    def jump(self, seconds: float) -> None:
        """The machine slept, or so its clock says, which counts that."""
        self._last_pulse()
        self.ahead += seconds
        self.world.after(self.world.random.random() * PULSE_SECONDS, lambda: self.tell(Tick()))

    def kill(self) -> None:
        self.dead = True

    def in_hand(self) -> int:
        return sum(len(queue.held) for queue in self.engine.state.queues)

    def outcomes(self) -> list[tuple[str, str]]:
        return [(ended.lease.body, ended.outcome) for ended in self.ended]

    def tell(self, *events: Any) -> None:
        if self.dead or self.exit is not None:
            return
        if self.world.now < self.stalled_until:
            self.world.after(self.stalled_until - self.world.now, lambda: self.tell(*events))
            return
        if not self.world.pulses and not self._stood_still:
            self._pulsed_until(self.now - PULSE_SECONDS)
        self._stood_still = False
        commands = self.engine.handle(events, self.now)
        self.world.watcher.told(self, events, commands)
        for command in commands:
            self._obey(command)
        self._sleep()

    def _sleep(self) -> None:
        self._tick += 1
        tick = self._tick
        seconds = self.engine.wake_at() - self.now
        if self.world.pulses:
            seconds = min(seconds, PULSE_SECONDS)
        assert seconds > 0, "the engine would spin"
        if seconds < float("inf") and self.exit is None:
            self.world.after(seconds, lambda: self._pulse(tick))

    def _pulse(self, tick: int) -> None:
        if tick == self._tick:
            self.tell(Tick())

    def _pulsed_until(self, at: float) -> None:
        # All that a pulse in between would have done.
        self.engine.state.awake_at = max(self.engine.state.awake_at, at)

    def _last_pulse(self) -> float:
        """How long ago it was, in seconds."""
        if not self.world.pulses and not self._stood_still:
            self._pulsed_until(self.now - self.world.random.random() * PULSE_SECONDS)
        self._stood_still = True
        return min(PULSE_SECONDS, self.now - self.engine.state.awake_at)

    def _obey(self, command: Any) -> None:
        match command:
            case Receive():
                self.world.after(self.world.delay(), lambda: self._receive(command))
            case Run():
                self._soon(lambda: self._run(command))
            case Abandon(key):
                self._abandon(key)
            case Ack() | Nack() | Extend() | DeadLetter():
                self._soon(lambda: self._call(command))
            case JobEnded():
                self.ended.append(command)
            case Notice():
                self.notices.append(command)
            case Exit():
                self.exit = command
            case _:
                pass

    def _soon(self, action: Callable[[], None]) -> None:
        """A thread of the process takes it up, once it has time and the process doesn't stand."""
        late = self.world.late()
        if late:
            self.world.after(late, lambda: self._awake(action))
        else:
            action()

    def _awake(self, action: Callable[[], None]) -> None:
        if self.dead:
            return
        if self.world.now < self.stalled_until:
            self.world.after(self.stalled_until - self.world.now, lambda: self._awake(action))
        else:
            action()

    # --- receives ----------------------------------------------------------------------------

    def _receive(self, command: Receive) -> None:
        world = self.world
        sent_at = self.now
        if self.dead:
            return
        world.requests.append(
            Request(
                world.now, "receive", command.queue, self.number, command.max_messages, command.wait
            )
        )
        trouble = world.trouble("receive", command.queue)
        error = world.fault(f"receive {command.queue}") or trouble
        if error is not None and trouble is not LOST_REPLY:
            seconds = PATIENCE_SECONDS if trouble is LOST_REQUEST else world.delay()
            failed = ReceiveFailed(command.poll, error)
            world.after(seconds, lambda: self.tell(failed))
            return
        deadline = world.now + command.wait
        answered = False

        def serve() -> bool:
            nonlocal answered
            if answered:
                return True
            leases = world.stores[command.queue].receive(
                command.max_messages, visibility=int(command.visibility), now=world.now
            )
            if leases or world.now >= deadline:
                answered = True
                world.watch(command.queue)
                if trouble is LOST_REPLY:
                    lost = ReceiveFailed(command.poll, LOST_REPLY)
                    world.after(PATIENCE_SECONDS, lambda: self.tell(lost))
                else:
                    self._reply(command, leases, sent_at)
            return answered

        if not serve():
            world.wait_for_messages(command.queue, serve)
            world.after(command.wait, serve)

    def _skip(self, command: Receive) -> None:
        self.tell(ReceiveSkipped(command.poll))

    def _reply(self, command: Receive, leases: list[Lease], sent_at: float) -> None:
        def read() -> None:
            if self.world.now < self.stalled_until:
                self.world.after(self.stalled_until - self.world.now, read)
                return
            dated = (sent_at if command.wait == 0 else self.now) + command.visibility
            deliveries = [Delivery(redate(one, dated), self.verdict(one.body)) for one in leases]
            self.tell(Received(command.poll, tuple(deliveries)))

        def arrive() -> None:
            if leases and not self.dead:
                self.world.watcher.arrived(self, command, leases)
            read()

        self.world.after(self.world.delay(), arrive)

    # --- settling calls ----------------------------------------------------------------------

    def _call(self, command: SettlingCall) -> None:
        """Send what has not run out; what has is answered for without a request."""
        world, now = self.world, self.now
        live = [lease for lease in command.leases if lease.expires_at > now]
        world.watcher.calling(self, command, live)
        if not live:
            self.tell_soon(command, [RAN_OUT for _ in command.leases], now)
            return
        world.after(world.delay(), lambda: self._serve(command, live, now))

    def _serve(self, command: SettlingCall, live: list[Lease], sent_at: float) -> None:
        world = self.world
        kind = KINDS[type(command)]
        world.requests.append(
            Request(world.now, kind, command.queue, self.number, len(command.leases))
        )
        trouble = world.trouble(kind, command.queue)
        seconds = world.delay()
        results: list[JobqError | None] = []
        for lease in command.leases:
            if lease not in live:
                results.append(RAN_OUT)
            elif trouble is None or trouble is LOST_REPLY:
                done = self._settle(command, lease, kind)
                results.append(trouble or done)
            else:
                results.append(trouble)
        if trouble is LOST_REPLY or trouble is LOST_REQUEST:
            seconds = PATIENCE_SECONDS
        if not isinstance(command, DeadLetter):
            world.changed(command.queue)
        world.after(seconds, lambda: self._answer(command, results, sent_at))

    def tell_soon(
        self, command: SettlingCall, results: Sequence[JobqError | None], sent_at: float
    ) -> None:
        self.world.after(0, lambda: self._answer(command, results, sent_at))

    def _answer(
        self, command: SettlingCall, results: Sequence[JobqError | None], sent_at: float
    ) -> None:
        match command:
            case Extend(call=call, visibility=visibility):
                visible = sent_at + visibility
                extended = [
                    ExtendResult(lease=None if error else redate(lease, visible), error=error)
                    for lease, error in zip(command.leases, results, strict=True)
                ]
                self.tell(Extended(call, tuple(extended)))
            case DeadLetter(call=call):
                self.tell(DeadLettered(call, tuple(results)))
            case _:
                self.tell(Settled(command.call, tuple(results)))

    def _settle(self, command: SettlingCall, lease: Lease, kind: str) -> JobqError | None:
        world = self.world
        error = world.fault(f"{kind} {lease.body}") or world.fault(kind)
        if error is not None:
            return error
        store = world.stores[command.queue]
        try:
            match command:
                case Ack():
                    before = store.entries().get(lease.message_id)
                    store.delete(lease.receipt, now=world.now)
                    if before is not None and lease.message_id not in store.entries():
                        world.deleted.append(lease.body)
                case DeadLetter():
                    world.copies.append(lease.message_id)
                case Nack(delay=seconds) | Extend(visibility=seconds):
                    store.change_visibility(lease.receipt, int(seconds), now=world.now)
        except JobqError as refused:
            return refused
        world.watcher.done(self, command, lease)
        return None

    # --- runs --------------------------------------------------------------------------------

    def _run(self, command: Run) -> None:
        world = self.world
        if self.now >= command.not_after:
            finished = Finished(command.key, NotStarted(), self.now)
            world.after(0, lambda: self.tell(finished))
            return
        conduct = world.conduct_of(command.lease.body)
        world.starts.append(
            Start(
                world.now,
                command.lease.body,
                command.queue,
                command.lease.group_id,
                command.lease.receive_count,
                self.number,
            )
        )
        world.watcher.began(self, command)
        self.running[command.key] = (command, conduct)
        world.after(conduct.seconds, lambda: self._finish(command.key, conduct.result))

    def _finish(self, key: int, result: Any) -> None:
        if self.world.now < self.stalled_until:
            self.world.after(self.stalled_until - self.world.now, lambda: self._finish(key, result))
            return
        run, _ = self.running.pop(key, (None, None))
        if run is not None and not self.dead:
            self.world.watcher.over(self, run, result)
            self.tell(Finished(key, result, self.now))

    def _abandon(self, key: int) -> None:
        if key in self.running and self.running[key][1].cancellable:
            cut = Raised(DEFAULT_RETRY)
            self.world.after(0, lambda: self._finish(key, cut))


KINDS = {Ack: "ack", Nack: "nack", Extend: "extend", DeadLetter: "copy"}
RAN_OUT = LeaseLostError("the lease ran out before the call went out")


def redate(lease: Lease, expires_at: float) -> Lease:
    return replace(lease, expires_at=expires_at)
