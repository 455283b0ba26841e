"""How the engine ends: statements 22 and 23."""

from __future__ import annotations

import random

import pytest
from simulated import THROTTLED, Conduct, SimulatedWorker, World, raises

config_of = SimulatedWorker.config_of


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


@pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])
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


def test_s2_no_receive_follows_the_stop() -> None:
    world = a_world(1000, seconds=1)
    worker = world.worker(concurrency=4)
    world.run(10)
    worker.stop()
    # Those sent just before are still on their way.
    world.run(0.02)
    receives = world.count("receive")
    world.run(30)
    assert world.count("receive") == receives
    assert worker.exit is not None
    assert adds_up(worker)


@pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])
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


def test_s7_an_idle_worker_ends_within_the_poll_it_is_in() -> None:
    world = a_world(0, seconds=1)
    worker = world.worker()
    world.run(33)
    assert ended(world, worker) <= 20
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


@pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])
def test_s4_s6_a_stop_at_any_instant_adds_up_and_leaves_nothing_unstarted_invisible(
    queue: str,
) -> None:
    chance = random.Random(7)
    for _ in range(60):
        world = a_world(30, seconds=chance.choice([0.01, 0.1, 1]), queue=queue)
        for n in range(0, 30, 7):
            world.conduct[f"j{n}"] = [raises(0.05, base_delay=1), Conduct()]
        claim = chance.choice([None, 10])
        worker = world.worker(
            queues=[config_of(queue, claim_size=claim)], concurrency=chance.choice([1, 3, 8])
        )
        world.run(chance.uniform(0, 5))
        ended(world, worker)
        assert worker.exit is not None
        assert worker.exit.code == 0
        assert adds_up(worker)
        assert set(world.deleted) <= set(world.started())
        hidden = world.left(queue) - visible(world, queue)
        retried = sum(outcome == "retry" for _, outcome in worker.outcomes())
        assert hidden <= retried
