"""Runs that outlast their lease: what waits for them goes back, and nobody turns in vain."""

from __future__ import annotations

import pytest
from simulated import LOST_REQUEST, Conduct, SimulatedWorker, World, raises

from jobq.core.memory.store import Store

HANGS = Conduct(100_000)


def world_of(queue: str, *, most: int = 0) -> World:
    world = World(latency=(0.001, 0.002))
    grave = Store(
        "dead",
        fifo=queue.endswith(".fifo"),
        visibility_timeout=30,
        max_message_bytes=1_048_576,
        new_id=lambda: "unused",
    )
    world.queue(queue, dead_letter=grave if most else None, max_receive_count=most)
    return world


def worker_on(
    world: World, queue: str, *, most: int | None = None, **options: int
) -> SimulatedWorker:
    config = SimulatedWorker.config_of(
        queue, visibility=10.0, max_runtime=20, max_receive_count=most
    )
    return world.worker(queues=[config], **{"concurrency": 2, **options})


@pytest.mark.parametrize("queue", ["a", "a.fifo"])
def test_a_last_receive_goes_back_when_it_waits_for_a_hung_run_of_its_own(queue: str) -> None:
    world = world_of(queue, most=2)
    world.conduct["j"] = [HANGS]
    world.send(queue, "j", group="g" if queue == "a.fifo" else None)
    worker = worker_on(world, queue, most=2, hold_limit=5)
    world.run(60)
    assert len(world.starts) == 1
    assert worker.outcomes() == [("j", "released")]
    assert [one.event for one in worker.notices].count("last_receive_given_back") == 1
    assert world.left(queue) == 0  # the next receive found it spent: the redrive policy has it


def test_a_last_receive_goes_back_when_it_waits_for_a_hung_run_of_its_group() -> None:
    world = world_of("a.fifo", most=1)
    world.conduct["first"] = [HANGS]
    world.send("a.fifo", "first", group="g")
    worker = worker_on(world, "a.fifo", most=1, hold_limit=5)
    world.run(25)
    assert [one.event for one in worker.notices].count("lease_lost") == 1
    world.send("a.fifo", "second", group="g")
    world.run(60)
    assert world.started() == ["first"]
    assert ("second", "released") in worker.outcomes()


def test_a_last_receive_is_kept_while_it_waits_for_room() -> None:
    world = world_of("a", most=1)
    world.conduct["long"] = [Conduct(15)]
    world.send("a", "long", "short")
    worker = worker_on(world, "a", most=1, concurrency=1, hold_limit=2)
    world.run(30)
    assert world.started() == ["long", "short"]
    assert worker.outcomes() == [("long", "success"), ("short", "success")]


def test_what_arrives_while_hung_runs_hold_every_slot_goes_back_at_once() -> None:
    world = world_of("a")
    world.queue("b")
    world.conduct["hung"] = [HANGS]
    world.send("a", "hung")
    config_of = SimulatedWorker.config_of
    queues = [config_of(name, visibility=10.0, max_runtime=20) for name in ("a", "b")]
    worker = world.worker(queues=queues, concurrency=1, hold_limit=20, idle_wait=40)
    world.run(25)
    assert [one.event for one in worker.notices] == ["lease_lost"]
    # The long poll of this queue went out before the slot was taken.
    world.send("b", "late")
    world.run(0.1)
    assert worker.outcomes() == [("late", "released")]


@pytest.mark.parametrize("queue", ["a", "a.fifo"])
def test_a_delete_unanswered_past_the_runtime_does_not_make_the_engine_spin(queue: str) -> None:
    world = world_of(queue)
    world.faults[f"ack on {queue}"].errors += [LOST_REQUEST] * 3
    # An extension was due before 20 s of runtime were over, but a delete was out.
    world.usual = Conduct(18.5)
    world.send(queue, "j", group="g" if queue == "a.fifo" else None)
    worker = worker_on(world, queue)
    world.run(60)
    assert len(world.starts) == 1
    assert worker.outcomes() == [("j", "success")]


@pytest.mark.parametrize("concurrency", [1, 8])
def test_a_group_whose_head_always_fails_costs_those_behind_it_few_receives(
    concurrency: int,
) -> None:
    world = world_of("a.fifo", most=3)
    world.conduct["head"] = [raises(0.1, base_delay=1)]
    world.send("a.fifo", "head", *(f"j{n}" for n in range(4)), group="g")
    config = SimulatedWorker.config_of("a.fifo", claim_size=10, max_receive_count=3)
    worker = world.worker(queues=[config], concurrency=concurrency)
    world.run(120)
    assert [body for body, outcome in worker.outcomes() if outcome == "success"] == [
        f"j{n}" for n in range(4)
    ]
    assert world.started().count("head") == 3
