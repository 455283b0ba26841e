"""All that the engine remembers, and the few steps that keep it consistent."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from jobq.worker.engine.backoff import backoff
from jobq.worker.engine.commands import Accounts, JobEnded, Notice

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.core import Lease
    from jobq.worker.engine.commands import Command, Outcome
    from jobq.worker.engine.config import EngineConfig, QueueConfig
    from jobq.worker.engine.events import Verdict

# How many of a queue's last jobs tell how fast it is, and how many must be known to go by them.
REMEMBERED_JOBS = 20
KNOWN_JOBS = 5


class Phase(Enum):
    """Where a message in hand stands. One that `RETREATING` names is being given back unrun."""

    WAITING = "waiting"
    RUNNING = "running"
    SETTLING = "settling"
    RETREATING = "retreating"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is to happen to a message: deleted where `delay` is None, else hidden for `delay` s.

    Before it is deleted a copy must be accepted by the dead-letter queue, unless `copy_failures`,
    which counts the sends that failed, is None.
    """

    outcome: Outcome
    delay: float | None = None
    copy_failures: int | None = None

    @property
    def deletes(self) -> bool:
        """Nothing but the delete is left to do."""
        return self.delay is None and self.copy_failures is None


GIVE_BACK = Settlement("released", 0)


@dataclass(slots=True, eq=False)
class Held:
    """One message in hand, from its receive until it is deleted, hidden, given back or left.

    The lease may have run out at `visible_at`, is to be extended at `extend_at`, and can't be past
    `limit_at` (12 hours from the receive). At `hold_at` a message that still waits goes back.
    """

    key: int
    queue: QueueState
    lease: Lease
    verdict: Verdict
    job: Any
    visible_at: float
    extend_at: float
    limit_at: float
    hold_at: float
    last_receive: bool
    max_runtime: float
    lane: Lane | None = None
    phase: Phase = Phase.WAITING
    lost: bool = False
    extending: bool = False
    in_call: bool = False
    started_at: float = 0
    start_by: float = 0
    runtime_ends: float = math.inf
    seconds: float | None = None
    settlement: Settlement = GIVE_BACK
    settle_at: float = 0
    successor: Held | None = None


@dataclass(slots=True, eq=False)
class Lane:
    """One FIFO group: `current` is startable, running or settling, `waiting` stands behind it.

    The lane is shut while some of it are being given back (`retreating`), and until `shut_until`
    for all but the message whose return it waits for.
    """

    group: str
    current: Held | None = None
    waiting: deque[Held] = field(default_factory=deque["Held"])
    retreating: set[int] = field(default_factory=set[int])
    shut_until: float = -math.inf
    awaits: str | None = None


@dataclass(slots=True, eq=False)
class Poll:
    """A receive that is out. `reserved` is the room that its messages were promised."""

    number: int
    queue: QueueState
    wait: float
    started_at: float
    reserved: int


@dataclass(slots=True, eq=False)
class Call:
    """A settling or extending call that is out, with the leases as they were sent.

    `sent_at` is known of deletes and hides, `visibility` of extensions.
    """

    kind: Literal["delete", "hide", "copy", "extend"]
    queue: QueueState
    items: list[tuple[Held, Lease]]
    sent_at: float = 0
    visibility: float = 0


@dataclass(slots=True, eq=False)
class QueueState:
    """One queue: what is in hand of it, what is out to it, what is known of it."""

    config: QueueConfig
    held: dict[int, Held] = field(default_factory=dict[int, Held])
    by_message: dict[str, Held] = field(default_factory=dict[str, Held])
    lanes: dict[str, Lane] = field(default_factory=dict[str, Lane])
    ready: dict[int, Held] = field(default_factory=dict[int, Held])
    urgent: dict[int, Held] = field(default_factory=dict[int, Held])
    refusals: list[Held] = field(default_factory=list[Held])
    shut: dict[str, Lane] = field(default_factory=dict[str, Lane])
    to_delete: list[Held] = field(default_factory=list[Held])
    to_hide: list[Held] = field(default_factory=list[Held])
    to_copy: list[Held] = field(default_factory=list[Held])
    running: int = 0
    due_at: float = math.inf
    polls: dict[int, Poll] = field(default_factory=dict[int, Poll])
    reserved: int = 0
    window: int = 1
    had_work: bool = False
    asked_at: float = -math.inf
    quiet_since: float = -math.inf
    poll_at: float = -math.inf
    failures: int = 0
    failed_at: float = -math.inf
    failing_since: float = -math.inf
    warn_at: float = -math.inf
    vain: int = 0
    vain_at: float = -math.inf
    hide_failures: int = 0
    delete_failures: int = 0
    delete_failed_at: float = -math.inf
    refused_deletes: int = 0
    closed: bool = False
    virtual: float = 0
    durations: deque[float] = field(default_factory=lambda: deque[float](maxlen=REMEMBERED_JOBS))
    slowest: float = math.inf
    one_by_one: bool = False
    fast_in_a_row: int = 0

    @property
    def startable(self) -> int:
        return len(self.ready) + len(self.urgent)

    def rest(self) -> None:
        """Count as idle, whatever it had before: its polls hold no room any more."""
        for poll in self.polls.values():
            poll.reserved = 0
        self.reserved = 0
        self.had_work = False
        self.window = 1

    @property
    def full(self) -> bool:
        """No more slots may go to this queue."""
        return self.config.cap is not None and self.running >= self.config.cap

    @property
    def deleting(self) -> bool:
        """Some of it is in hand that nothing but the delete is missing from."""
        return any(
            held.phase is Phase.SETTLING and held.settlement.deletes for held in self.held.values()
        )

    @property
    def known(self) -> bool:
        """Enough jobs ended to tell how long they take."""
        return len(self.durations) >= KNOWN_JOBS


class State:
    """The engine's memory. `out` collects the commands of the step at hand."""

    def __init__(self, config: EngineConfig, now: float, random: Callable[[], float]) -> None:
        self.config = config
        self.random = random
        self.now = now
        self.out: list[Command] = []
        self.queues = [QueueState(config=queue) for queue in config.queues]
        self.polls: dict[int, Poll] = {}
        self.calls: dict[int, Call] = {}
        self.runs: dict[int, Held] = {}
        self.running = 0
        self.free_since: deque[float] = deque([now] * config.concurrency)
        self.virtual = 0.0
        self.awake_at = now
        self.stall_began = self.stall_ended = -math.inf
        self.stopping = False
        self.stop_by = math.inf
        self.exit_code = 0
        self.ended = False
        self.last_settled = now
        self.retry_due = -math.inf
        self._numbers = 0
        self._counts: Counter[str] = Counter()

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def count(self, kind: str, by: int = 1) -> None:
        self._counts[kind] += by

    def accounts(self) -> Accounts:
        return Accounts(**self._counts)

    def info(self, event: str, **fields: Any) -> None:
        self.out.append(Notice("info", event, fields))

    def warn(self, event: str, **fields: Any) -> None:
        self.out.append(Notice("warning", event, fields))

    def error(self, event: str, **fields: Any) -> None:
        self.out.append(Notice("error", event, fields))

    def due(self, held: Held, at: float) -> None:
        """Look at this message again no later than `at`."""
        held.queue.due_at = min(held.queue.due_at, at)

    def backoff(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        return backoff(failures, random=self.random())

    def end(self, held: Held, outcome: Outcome, *, processing: Outcome | None = None) -> None:
        """Let go of a message; what becomes of its lane is the caller's to say."""
        queue = held.queue
        held.phase = Phase.GONE
        queue.held.pop(held.key, None)
        if queue.by_message.get(held.lease.message_id) is held:
            del queue.by_message[held.lease.message_id]
        queue.ready.pop(held.key, None)
        queue.urgent.pop(held.key, None)
        self.last_settled = self.now
        self.out.append(
            JobEnded(queue.config.name, held.lease, held.job, outcome, held.seconds, processing)
        )

    def end_undone(self, held: Held) -> None:
        """Let go of a message to which what was decided can't be done any more."""
        settlement = held.settlement
        if settlement.deletes:
            self.end(held, "delete_failed", processing=settlement.outcome)
            if held.queue.closed and not held.queue.deleting and not self.stopping:
                self.error(
                    "queue_stays_closed",
                    queue=held.queue.config.name,
                    remedy="nothing of it could be deleted in time, so nothing more is received: "
                    "let this role delete its messages, and start the worker again",
                )
            return
        if settlement.copy_failures is not None:
            self.error(
                "dead_letter_failed",
                queue=held.queue.config.name,
                message_id=held.lease.message_id,
                error="there was no time left for the copy to be accepted; the message comes back",
            )
        self.end(held, settlement.outcome)
