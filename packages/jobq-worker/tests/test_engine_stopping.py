"""How the engine ends: statements 22 and 23."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from driven import Driven
from simulated import THROTTLED, Conduct, SimulatedWorker, World, raises, refuses

from jobq.worker.engine.commands import Accounts, Exit, Nack, Receive
from jobq.worker.engine.events import (
    Finished,
    LoopClosed,
    NotStarted,
    Received,
    Refused,
    Settled,
    Succeeded,
)

if TYPE_CHECKING:
    from jobq.core import Lease

config_of = SimulatedWorker.config_of
each_kind = pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])


def a_world(count: int, *, seconds: float, queue: str = "jobs") -> World:
    world = World()
    world.queue(queue)
    for n in range(count):
        world.send(queue, f"j{n}", group=f"g{n}" if queue.endswith("fifo") else None)
    world.usual = Conduct(seconds)
    return world


def ended(world: World, worker: SimulatedWorker, seconds: float = 30) -> float:
    """Stop it; returns how long the end took."""
    worker.stop()
    began = world.now
    world.run(seconds, until=lambda: worker.exit is not None)
    assert worker.exit is not None
    return world.now - began


def adds_up(worker: SimulatedWorker) -> bool:
    assert worker.exit is not None
    counts = worker.exit.accounts
    return counts.received == (
        counts.started + counts.refused + counts.taken_over + counts.given_back + counts.left
    )


def visible(world: World, queue: str = "jobs") -> int:
    return world.stores[queue].stats(now=world.now).waiting


@each_kind
def test_s1_what_a_long_poll_brings_after_the_stop_goes_back_in_one_call(queue: str) -> None:
    world = a_world(0, seconds=1, queue=queue)
    worker = world.worker(queues=[config_of(queue, claim_size=10)])
    world.run(5)
    worker.stop()
    world.run(0.1)
    world.deliver(queue, 3)
    world.run(20)
    assert world.starts == []
    assert worker.exit is not None
    assert worker.exit.code == 0
    assert worker.exit.accounts.given_back == 3
    assert [request.count for request in world.requests if request.kind == "nack"] == [3]
    assert visible(world, queue) == 3


@each_kind
def test_s2_no_receive_follows_the_stop(queue: str) -> None:
    world = a_world(1000, seconds=1, queue=queue)
    worker = world.worker(concurrency=4)
    world.run(10)
    worker.stop()
    # Those sent just before are still on their way.
    world.run(0.02)
    receives = world.count("receive")
    assert receives > 1
    world.run(30)
    assert world.count("receive") == receives
    assert worker.exit is not None
    assert worker.exit.code == 0
    assert adds_up(worker)


@each_kind
def test_s3_running_jobs_finish_and_the_third_goes_back_once(queue: str) -> None:
    world = a_world(3, seconds=5, queue=queue)
    worker = world.worker(queues=[config_of(queue, claim_size=10)], concurrency=2, hold_limit=60)
    world.run(1)
    ended(world, worker)
    assert len(world.starts) == len(world.deleted) == 2
    assert [r.count for r in world.requests if r.kind == "nack"] == [1]
    assert visible(world, queue) == 1
    assert worker.exit is not None
    assert worker.exit.code == 0


def test_s5_deletes_that_wait_for_company_are_flushed_in_one_call() -> None:
    world = a_world(4, seconds=1)
    world.conduct["j3"] = [Conduct(3)]
    worker = world.worker(concurrency=4)
    world.run(2, until=lambda: len(world.done_now(worker)) == 3)
    worker.stop()
    world.run(0.02)
    assert [r.count for r in world.requests if r.kind == "ack"] == [3]
    world.run(30)
    assert worker.exit is not None
    assert worker.exit.code == 0


@pytest.mark.parametrize("seconds", [0.001, 7, 33, 60.5])
def test_s7_an_idle_worker_ends_within_the_poll_it_is_in(seconds: float) -> None:
    world = a_world(0, seconds=1)
    world.queue("jobs.fifo")
    worker = world.worker(concurrency=4)
    world.run(seconds)
    polls = world.count("receive")
    assert ended(world, worker) <= 20.03
    assert world.count("receive") <= max(polls, 2)
    assert not worker.engine.state.polls, "a poll was cut"
    assert worker.exit is not None
    assert worker.exit.code == 0


def test_heartbeats_go_on_to_the_end() -> None:
    world = a_world(2, seconds=20)
    worker = world.worker(queues=[config_of("jobs", visibility=6, claim_size=10)], hold_limit=60)
    world.run(1)
    ended(world, worker)
    assert {start.receive_count for start in world.starts} == {1}
    assert world.deleted == world.started()


def test_past_the_timeout_what_still_runs_is_given_up_and_the_end_is_1() -> None:
    world = a_world(2, seconds=100)
    worker = world.worker(concurrency=2)
    world.run(1)
    assert 24 <= ended(world, worker, 40) <= 26
    assert worker.exit is not None
    assert worker.exit.code == 1
    assert worker.exit.still_running == 2
    assert sorted(worker.outcomes()) == [("j0", "heartbeat_failed"), ("j1", "heartbeat_failed")]
    assert adds_up(worker)


def test_a_give_back_that_is_throttled_is_tried_again() -> None:
    world = a_world(5, seconds=4)
    world.faults["nack"].errors.extend([THROTTLED] * 8)
    worker = world.worker(queues=[config_of("jobs", claim_size=10)], hold_limit=60)
    world.run(1)
    ended(world, worker)
    assert visible(world) == 4
    assert worker.exit is not None
    assert worker.exit.code == 0


def test_a_retry_is_still_scheduled_during_a_stop() -> None:
    world = a_world(1, seconds=3)
    world.conduct["j0"] = [raises(3, base_delay=60, jitter=False)]
    worker = world.worker()
    world.run(1)
    ended(world, worker)
    assert world.count("nack") == 1
    assert worker.outcomes() == [("j0", "retry")]


def test_a_warning_names_a_last_receive_that_a_stop_gives_back() -> None:
    world = a_world(2, seconds=5)
    queues = [config_of("jobs", claim_size=10, max_receive_count=1)]
    worker = world.worker(queues=queues, hold_limit=60)
    world.run(1)
    ended(world, worker)
    warned = [n.fields for n in worker.notices if n.event == "last_receive_given_back"]
    assert [fields["queue"] for fields in warned] == ["jobs"]


def test_stopping_twice_is_stopping_once() -> None:
    world = a_world(1, seconds=2)
    worker = world.worker()
    world.run(1)
    worker.stop()
    worker.stop()
    world.run(30)
    assert worker.exit is not None
    assert worker.exit.code == 0


def test_a_queue_that_turns_out_to_be_denied_after_the_stop_is_the_reason_of_the_1() -> None:
    world = World()
    world.queue("jobs")
    world.denied["receive jobs"] = world.now + 60
    worker = world.worker()
    ended(world, worker)
    assert worker.exit is not None
    assert worker.exit.code == 1
    reasons = [n.fields["reason"] for n in worker.notices if "reason" in n.fields]
    assert reasons == ["not allowed"]


class Truthful(SimulatedWorker):
    """Keeps how much it received and what a handler was done with, whatever the engine says."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.received = 0
        self.done: set[str] = set()
        super().__init__(*arguments, **options)

    def _reply(self, command: Receive, leases: list[Lease], sent_at: float) -> None:
        self.received += len(leases)
        super()._reply(command, leases, sent_at)

    def _finish(self, key: int, result: Any) -> None:
        if key in self.running and isinstance(result, Succeeded | Refused):
            self.done.add(self.running[key][0].lease.body)
        super()._finish(key, result)


def stopped_at(instant: random.Random, queue: str) -> tuple[World, Truthful]:
    """A worker with some of everything before it, stopped at some instant."""
    world = a_world(30, seconds=instant.choice([0.01, 0.1, 1]), queue=queue)
    for n in range(0, 30, 7):
        world.conduct[f"j{n}"] = [raises(0.05, base_delay=1), Conduct()]
    for n in range(1, 30, 7):
        world.conduct[f"j{n}"] = [refuses(0.05)]
    for n, kind in enumerate(("malformed", "unknown", "malformed")):
        world.send(queue, f"{kind}{n}", group=f"o{n}" if queue.endswith("fifo") else None)
    options: dict[str, Any] = {"concurrency": instant.choice([1, 3, 8])}
    claim = instant.choice([None, 10])
    worker = Truthful(world, 0, queues=[config_of(queue, claim_size=claim)], **options)
    world.run(instant.uniform(0, 5))
    ended(world, worker)
    return world, worker


@each_kind
def test_s4_at_any_instant_only_what_was_done_or_can_never_run_is_deleted(queue: str) -> None:
    instant = random.Random(7)
    deleted = 0
    for _ in range(60):
        world, worker = stopped_at(instant, queue)
        done = worker.done | {body for body in world.deleted if body.startswith("malformed")}
        assert set(world.deleted) == done
        assert len(world.deleted) == len(set(world.deleted))
        deleted += len(world.deleted)
    assert deleted > 60


@each_kind
def test_s6_after_a_stop_at_any_instant_every_receive_is_accounted_for(queue: str) -> None:
    instant = random.Random(11)
    seen: Counter[str] = Counter()
    for _ in range(60):
        world, worker = stopped_at(instant, queue)
        assert worker.exit is not None
        assert worker.exit.code == 0
        assert adds_up(worker)
        accounts = worker.exit.accounts
        seen.update(asdict(accounts))
        assert accounts.started == len(world.starts)
        assert accounts.received == worker.received
        hidden = world.left(queue) - visible(world, queue)
        kept = ("retry", "unknown_job_type")
        assert hidden <= sum(outcome in kept for _, outcome in worker.outcomes())
    assert min(seen["started"], seen["refused"], seen["given_back"]) > 0


@each_kind
def test_s6_so_is_every_receive_after_a_stop_that_took_too_long(queue: str) -> None:
    """Jobs outlast it, and what waits can't be given back."""
    world = a_world(6, seconds=100, queue=queue)
    world.faults["nack"].errors.extend([THROTTLED] * 1000)
    queues = [config_of(queue, claim_size=10)]
    worker = world.worker(queues=queues, concurrency=2, hold_limit=60)
    world.run(1)
    ended(world, worker, 40)
    assert worker.exit is not None
    assert worker.exit.accounts == Accounts(received=6, started=2, left=4)


def test_s6_a_second_delivery_has_a_class_of_its_own() -> None:
    world = a_world(2, seconds=5)
    queues = [config_of("jobs", claim_size=10)]
    worker = world.worker(queues=queues, concurrency=4, hold_limit=60)
    world.run(1)
    world.show_again("jobs", "j0")
    world.run(1)
    ended(world, worker)
    assert worker.exit is not None
    assert worker.exit.accounts == Accounts(received=3, started=2, taken_over=1)


@pytest.mark.parametrize("ordered", [False, True])
def test_once_the_handlers_loop_is_closed_all_that_did_not_start_goes_back_and_it_ends_with_1(
    ordered: object,
) -> None:
    driven = Driven(ordered=bool(ordered), concurrency=2)
    driven.receive("one", "two", "three", group_ids=True)
    started = list(driven.engine.state.runs)
    assert len(started) == 2
    driven.tell(LoopClosed(), *(Finished(key, NotStarted(), driven.now) for key in started))
    assert driven.notices()[-1] == "worker_stopping"
    driven.tell(*(Received(poll.poll) for poll in driven.polls()))
    driven.tell(*(Settled(one.call, (None,) * len(one.leases)) for one in driven.all(Nack)))
    given_back = [lease.body for one in driven.all(Nack) for lease in one.leases]
    assert sorted(given_back) == ["one", "three", "two"]
    (end,) = driven.all(Exit)
    assert (end.code, end.accounts) == (1, Accounts(received=3, given_back=3))
