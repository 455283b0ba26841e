"""The FIFO rules against a model that is too slow and too simple to be wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from jobq.core import Lease, LeaseLostError, Message
from jobq.core.memory.store import Redrive, Store

groups = st.sampled_from("ABC")
seconds = st.integers(0, 5)


@dataclass
class Sent:
    body: str
    group: str
    visible_at: int = 0
    receives: int = 0
    receipt: str = ""


@dataclass
class Model:
    """Messages in the order they were sent; every question is answered by looking at them all."""

    messages: list[Sent] = field(default_factory=list[Sent])
    dead: list[str] = field(default_factory=list[str])
    now: int = 0

    def locked(self, group: str) -> bool:
        return any(m.group == group and m.visible_at > self.now for m in self.messages)

    def receive(self, limit: int, most_receives: int) -> list[Sent]:
        oldest_first = dict.fromkeys(m.group for m in self.messages)
        taken: list[Sent] = []
        for group in [g for g in oldest_first if not self.locked(g)]:
            for message in [m for m in self.messages if m.group == group]:
                if len(taken) == limit:
                    return taken
                if message.receives == most_receives:
                    self.messages.remove(message)
                    self.dead.append(message.body)
                else:
                    taken.append(message)
        return taken

    def held_by(self, receipt: str) -> Sent | None:
        for message in self.messages:
            if message.receipt == receipt and message.visible_at > self.now:
                return message
        return None


class FifoQueue(RuleBasedStateMachine):
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        ids = count(1)
        self.dead = self.make("dead.fifo", ids, None)
        redrive = Redrive(target=self.dead, max_receive_count=3)
        self.store = self.make("jobs.fifo", ids, redrive)
        self.model = Model()
        self.bodies = count(1)

    @staticmethod
    def make(name: str, ids: count[int], redrive: Redrive | None) -> Store:
        return Store(
            name,
            fifo=True,
            visibility_timeout=3,
            max_message_bytes=1000,
            new_id=lambda: f"id-{next(ids)}",
            redrive=redrive,
        )

    @rule(group=groups)
    def send(self, group: str) -> None:
        body = str(next(self.bodies))
        self.store.send(Message(body, group_id=group), now=self.model.now, unix_time=0)
        self.model.messages.append(Sent(body, group))

    @rule(target=leases, limit=st.integers(1, 4), visibility=seconds)
    def receive(self, limit: int, visibility: int) -> list[Lease]:
        leases = self.store.receive(limit, visibility=visibility, now=self.model.now)
        expected = self.model.receive(limit, 3)
        assert [lease.body for lease in leases] == [message.body for message in expected]
        for lease, message in zip(leases, expected, strict=True):
            message.receives += 1
            assert lease.receive_count == message.receives
            message.visible_at = self.model.now + visibility
            assert lease.expires_at == message.visible_at
            message.receipt = lease.receipt
        return leases

    @rule(leases=leases, first=st.booleans())
    def delete(self, leases: list[Lease], *, first: bool) -> None:
        for lease in leases[:1] if first else leases[-1:]:
            message = self.model.held_by(lease.receipt)
            gone = not any(m.body == lease.body for m in self.model.messages)
            try:
                self.store.delete(lease.receipt, now=self.model.now)
            except LeaseLostError:
                assert not message
                assert not gone
            else:
                assert message or gone
            if message:
                self.model.messages.remove(message)

    @rule(leases=consumes(leases), seconds=seconds)
    def change_visibility(self, leases: list[Lease], seconds: int) -> None:
        for lease in leases:
            message = self.model.held_by(lease.receipt)
            try:
                self.store.change_visibility(lease.receipt, seconds, now=self.model.now)
            except LeaseLostError:
                assert not message
            else:
                assert message
                message.visible_at = self.model.now + seconds

    @rule(seconds=seconds)
    def wait(self, seconds: int) -> None:
        self.model.now += seconds

    @invariant()
    def the_counts_agree(self) -> None:
        stats = self.store.stats(now=self.model.now)
        hidden = [m for m in self.model.messages if m.visible_at > self.model.now]
        assert stats.in_flight == len(hidden)
        assert stats.waiting == len(self.model.messages) - len(hidden)
        assert self.dead.stats(now=self.model.now).waiting == len(self.model.dead)
        assert self.store.next_due() == min((m.visible_at for m in hidden), default=None)

    def teardown(self) -> None:
        leases = self.dead.receive(1000, visibility=0, now=self.model.now)
        assert sorted(lease.body for lease in leases) == sorted(self.model.dead)


FifoQueue.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
test_a_fifo_store_agrees_with_the_model = FifoQueue.TestCase
