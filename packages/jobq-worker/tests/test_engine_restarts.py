"""Workers that are stopped or killed and started again: what a restart costs a message."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from simulated import Conduct, SimulatedWorker, World

if TYPE_CHECKING:
    from jobq.core.memory.store import Store

config_of = SimulatedWorker.config_of
each_kind = pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])


@each_kind
def test_s8_a_message_whose_worker_was_killed_is_back_after_the_visibility_timeout(
    queue: str,
) -> None:
    world = World()
    world.queue(queue)
    world.send(queue, "job", group="g" if queue.endswith("fifo") else None)
    world.conduct["job"] = [Conduct(60), Conduct(1)]
    worker = world.worker(queues=[config_of(queue, visibility=20.0)])
    world.run(25)
    extended_at = max(request.at for request in world.requests if request.kind == "extend")
    worker.kill()
    world.worker()
    world.run(60)
    first, second = world.starts
    assert (first.receive_count, second.receive_count) == (1, 2)
    assert extended_at + 20 <= second.at <= extended_at + 20.1
    assert world.deleted == ["job"]


class Restarts:
    """A queue whose messages may be received three times, and workers one after another.

    `caught` counts how often each message was in hand, not started, as a worker was ended.
    """

    def __init__(self, seed: int, queue: str, *, jobs: int, seconds: float) -> None:
        self.chance = random.Random(seed)
        self.world = World(seed)
        self.queue = queue
        self.dead: Store = self.world.queue(f"dead-{queue}")
        del self.world.stores[self.dead.name]
        self.world.queue(queue, dead_letter=self.dead, max_receive_count=3)
        for n in range(jobs):
            self.world.send(queue, f"j{n}", group=f"g{n % 4}" if queue.endswith("fifo") else None)
        self.world.usual = Conduct(seconds)
        self.caught: Counter[str] = Counter()
        self.warned: set[str] = set()

    def worker(self, **options: Any) -> SimulatedWorker:
        claim_size = options.pop("claim_size", None)
        config = config_of(self.queue, max_receive_count=3, claim_size=claim_size, visibility=20.0)
        return self.world.worker(queues=[config], **options)

    def end(self, worker: SimulatedWorker, *, kill: bool = False) -> None:
        started = set(self.world.started())
        for held in [held for one in worker.engine.state.queues for held in one.held.values()]:
            if held.lease.body not in started:
                self.caught[held.lease.body] += 1
        if kill:
            worker.kill()
            self.world.run(25)  # all that it held is back
        else:
            worker.stop()
            self.world.run(30, until=lambda: worker.exit is not None)
        ids = {held.message_id: held.body for held in self.dead.entries().values()}
        ids |= {one.message_id: one.body for one in self._entries()}
        self.warned |= {
            ids[notice.fields["message_id"]]
            for notice in worker.notices
            if notice.event == "last_receive_given_back"
        }

    def dead_unrun(self) -> set[str]:
        """What no handler has ever seen and none will."""
        return {entry.body for entry in self.dead.entries().values()} - set(self.world.started())

    def _entries(self) -> list[Any]:
        return list(self.world.stores[self.queue].entries().values())


@each_kind
@pytest.mark.parametrize("seed", range(6))
def test_m6_five_restarts_of_a_worker_with_default_settings_dead_letter_nothing_unrun(
    seed: int, queue: str
) -> None:
    """It takes in hand what starts within a second, and each worker lives for longer."""
    restarts = Restarts(seed, queue, jobs=200, seconds=0.3)
    for _ in range(5):
        worker = restarts.worker(concurrency=2)
        restarts.world.run(restarts.chance.uniform(2, 6))
        restarts.end(worker)
    restarts.worker(concurrency=2)
    restarts.world.run(300)
    assert restarts.caught, "no stop caught a message in hand"
    assert restarts.dead_unrun() == set()
    assert set(restarts.world.started()) == {f"j{n}" for n in range(200)}


@each_kind
@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_m6_a_restart_costs_what_it_caught_in_hand_one_receive_and_no_more(
    seed: int,
    kill: bool,  # noqa: FBT001
    queue: str,
) -> None:
    """Ten are in hand for one slot, for longer than the workers live.

    So the bound is: only what three restarts caught in hand can be dead-lettered without a run,
    and of stops the third has warned with its id.
    """
    restarts = Restarts(seed, queue, jobs=14, seconds=1.0)
    greedy: dict[str, Any] = {"claim_size": 10, "claim_ahead": 60, "hold_limit": 600}
    for life in range(1, 6):
        worker = restarts.worker(**greedy)
        restarts.world.run(restarts.chance.uniform(0.1, 2.5))
        restarts.end(worker, kill=kill)
        if life < 3:
            assert restarts.dead_unrun() == set()
    restarts.worker(**greedy)
    restarts.world.run(300)
    for start in restarts.world.starts:
        if restarts.world.started().count(start.body) == 1:
            assert start.receive_count <= 1 + restarts.caught[start.body]
    for body in restarts.dead_unrun():
        assert restarts.caught[body] >= 3
        assert kill or body in restarts.warned
    assert set(restarts.world.started()) | restarts.dead_unrun() == {f"j{n}" for n in range(14)}


def test_m6_what_was_caught_twice_starts_before_all_others() -> None:
    world = World()
    dead = world.queue("dead")
    del world.stores["dead"]
    world.queue("busy")
    world.queue("jobs", dead_letter=dead, max_receive_count=3)
    world.send("busy", *[f"busy{n}" for n in range(100)])
    world.send("jobs", *[f"j{n}" for n in range(5)])
    world.usual = Conduct(1)
    queues = [
        config_of("busy", weight=100, claim_size=10),
        config_of("jobs", max_receive_count=3, claim_size=10),
    ]
    greedy: dict[str, Any] = {"claim_ahead": 60, "hold_limit": 600}
    for _ in range(2):
        worker = world.worker(queues=queues, **greedy)
        world.run(0.5)
        worker.stop()
        world.run(5)
    before = len(world.starts)
    world.worker(queues=queues, **greedy)
    world.run(20)
    started = world.started()
    caught = {f"j{n}" for n in range(5)} - set(started[:before])
    assert len(caught) >= 3
    # The slot is free once before all of them have come.
    assert caught <= set(started[before : before + 1 + len(caught)])
    assert dead.stats(now=world.now).waiting == 0
