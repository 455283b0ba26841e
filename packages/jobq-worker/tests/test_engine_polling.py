"""Whom the engine asks, for how many and how long: statements 11 and 17 to 21."""

from __future__ import annotations

from collections import Counter

import pytest
from simulated import Conduct, SimulatedWorker, World

config_of = SimulatedWorker.config_of


def finish(world: World, worker: SimulatedWorker, seconds: float = 3600) -> None:
    world.run(seconds, until=lambda: worker.exit is not None)
    assert worker.exit is not None


def backlog(world: World, queue: str, count: int, *, groups: int = 0) -> None:
    world.queue(queue)
    for n in range(count):
        world.send(queue, f"{queue}-{n}", group=f"g{n % groups}" if groups else None)


@pytest.mark.parametrize(
    ("concurrency", "seconds"), [(1, 0.0005), (1, 0.005), (10, 0.005), (10, 0.05), (8, 0.02)]
)
def test_a_loaded_standard_queue_costs_at_most_0_22_requests_a_job(
    concurrency: int, seconds: float
) -> None:
    world = World()
    backlog(world, "jobs", 2000)
    world.usual = Conduct(seconds)
    finish(world, world.worker(concurrency=concurrency, burst=True))
    assert (world.count("receive") + world.count("ack")) / 2000 <= 0.22


def test_a_loaded_fifo_queue_costs_two_requests_a_job() -> None:
    world = World()
    backlog(world, "jobs.fifo", 1000, groups=20)
    finish(world, world.worker(concurrency=8, burst=True))
    assert (world.count("receive") + world.count("ack")) / 1000 <= 2.05


def test_a_fifo_queue_with_claims_of_ten_costs_less_than_1_2_requests_a_job() -> None:
    world = World()
    backlog(world, "jobs.fifo", 1000, groups=20)
    queues = [config_of("jobs.fifo", claim_size=10)]
    finish(world, world.worker(queues=queues, concurrency=8, burst=True))
    assert (world.count("receive") + world.count("ack")) / 1000 < 1.2


def test_one_fifo_group_beside_a_busy_queue_is_not_asked_in_vain_for_every_free_slot() -> None:
    world = World()
    backlog(world, "one.fifo", 100, groups=1)
    backlog(world, "many", 2000)
    world.usual = Conduct(0.05)
    finish(world, world.worker(concurrency=8, burst=True))
    assert world.count("receive", "one.fifo") / 100 < 2.5


def test_p7_three_idle_queues_cost_three_receives_a_minute_each() -> None:
    world = World()
    for name in ("a", "b.fifo", "c"):
        world.queue(name)
    world.worker(concurrency=4)
    world.run(600)
    assert 85 <= world.count("receive") <= 95
    assert {request.count for request in world.requests} == {1}


def test_a_job_on_an_idle_queue_starts_at_once() -> None:
    world = World()
    for name in ("a", "b", "c"):
        world.queue(name)
    world.worker(queues=[config_of("a", weight=9), config_of("b"), config_of("c")])
    world.run(47)
    sent_at = world.now
    world.send("c", "late")
    world.run(1)
    assert world.starts[0].at - sent_at < 0.02


def test_p1_nothing_is_polled_while_every_slot_is_taken() -> None:
    world = World()
    backlog(world, "jobs", 100)
    world.queue("idle.fifo")
    world.usual = Conduct(600)
    world.worker(concurrency=2)
    world.run(100)
    receives = world.count("receive")
    world.run(400)
    assert world.count("receive") == receives


@pytest.mark.parametrize("kind", ["jobs", "jobs.fifo"])
def test_hour_long_jobs_are_received_one_by_one(kind: str) -> None:
    world = World()
    backlog(world, kind, 30, groups=30 if kind.endswith("fifo") else 0)
    world.usual = Conduct(3000)
    worker = world.worker(concurrency=1)
    world.run(30_000)
    assert len(world.starts) == 10
    assert "released" not in dict(worker.outcomes()).values()


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_p10_of_twenty_queues_with_a_backlog_nothing_unrun_is_dead_lettered(suffix: str) -> None:
    world = World()
    dead = world.queue(f"dead{suffix}")
    del world.stores[dead.name]
    names = [f"q{n}{suffix}" for n in range(20)]
    for name in names:
        world.queue(name, dead_letter=dead, max_receive_count=3)
        for k in range(4):
            world.send(name, f"{name}-{k}", group=f"g{k % 2}" if suffix else None)
    world.usual = Conduct(30)
    queues = [config_of(name, max_receive_count=3) for name in names]
    worker = world.worker(queues=queues, concurrency=1)
    world.run(20 * 4 * 30 + 300)
    released = Counter(body for body, outcome in worker.outcomes() if outcome == "released")
    assert max(released.values()) == 1
    assert len(world.starts) == len(set(world.started())) == 80
    assert dead.stats(now=world.now).waiting == 0


@pytest.mark.parametrize("idle", ["idle", "idle.fifo"])
@pytest.mark.parametrize("waited", [0, 1.5, 30])
@pytest.mark.parametrize("workers", [2, 10])
def test_p11_one_message_does_not_wander_between_busy_workers(
    workers: int, waited: float, idle: str
) -> None:
    """It comes `waited` seconds after all of them took up long jobs."""
    world = World()
    backlog(world, "long", 3 * workers)
    world.queue(idle)
    world.conduct["rare"] = [Conduct(0.1)]
    world.usual = Conduct(60)
    for _ in range(workers):
        world.worker(concurrency=1)
    world.run(30, until=lambda: len(world.starts) == workers)
    world.run(waited)
    world.send(idle, "rare", group="g" if idle.endswith("fifo") else None)
    world.run(130)
    start = next(start for start in world.starts if start.body == "rare")
    assert start.receive_count <= 2


@pytest.mark.parametrize("queue", ["mixed", "mixed.fifo"])
def test_p12_nine_messages_do_not_wait_behind_an_hour_long_one(queue: str) -> None:
    world = World()
    world.usual = Conduct(0.01)
    world.queue(queue)
    world.conduct["hour"] = [Conduct(3600)]
    bodies = [*[f"fast-{n}" for n in range(40)], "hour", *[f"late-{n}" for n in range(9)]]
    for body in bodies:
        world.send(queue, body, group=f"of-{body}" if queue.endswith("fifo") else None)
    for _ in range(2):
        world.worker(queues=[config_of(queue, max_runtime=7200)], concurrency=1)
    world.run(60)
    assert sum(start.body.startswith("late") for start in world.starts) == 9
    assert world.started().count("hour") == 1


def test_after_a_give_back_a_queue_is_claimed_one_by_one_until_twenty_fast_jobs() -> None:
    world = World()
    world.queue("jobs")
    world.usual = Conduct(0.01)
    world.send("jobs", *[f"fast-{n}" for n in range(30)], "slow", *[f"more-{n}" for n in range(60)])
    world.conduct["slow"] = [Conduct(40)]
    worker = world.worker(concurrency=1)
    world.run(39)
    assert "released" in dict(worker.outcomes()).values()
    before = len(world.requests)
    world.run(100)
    asked = [r.count for r in world.requests[before:] if r.kind == "receive"]
    assert set(asked[:19]) == {1}
    assert max(asked) > 1
    assert world.left("jobs") == 0


@pytest.mark.parametrize("polling", ["weighted", "strict"])
def test_a_message_on_its_last_receive_starts_before_all_others(polling: str) -> None:
    world = World()
    world.queue("first")
    world.queue("second")
    world.usual = Conduct(1)
    world.send("first", *[f"a{n}" for n in range(20)])
    queues = [config_of("first", claim_size=10), config_of("second", max_receive_count=1)]
    worker = world.worker(
        queues=queues, concurrency=2, polling=polling, claim_ahead=30, hold_limit=600
    )
    world.run(0.5)
    assert len(worker.running) == 2
    world.send("second", "last chance")
    world.run(5)
    order = world.started()
    assert order.index("last chance") <= 4


def test_a_message_on_its_last_receive_is_never_given_back_for_room() -> None:
    world = World()
    for name in ("a", "b"):
        world.queue(name)
        world.send(name, f"{name}1")
    world.usual = Conduct(100)
    queues = [config_of(name, max_receive_count=1) for name in ("a", "b")]
    worker = world.worker(queues=queues, concurrency=1)
    world.run(300)
    assert worker.outcomes() == [(worker.outcomes()[0][0], "success")] * 1 + [
        (worker.outcomes()[1][0], "success")
    ]


def test_a_second_delivery_that_is_the_last_receive_is_not_given_back_for_room_either() -> None:
    world = World()
    dead = world.queue("dead")
    world.queue("jobs", dead_letter=dead, max_receive_count=2)
    queue = config_of("jobs", max_receive_count=2)
    worker = world.worker(queues=[queue], concurrency=1, claim_ahead=60, hold_limit=5)
    world.usual = Conduct(0.01)
    quick = [f"quick{n}" for n in range(20)]
    world.send("jobs", *quick)
    world.run(0.9)
    world.conduct["slow"] = [Conduct(60)]
    world.send("jobs", "slow")
    world.run(0.1)
    world.send("jobs", "waits")
    world.run(0.1)
    world.show_again("jobs", "waits")
    world.run(100)
    assert worker.engine.state.accounts().taken_over == 1
    assert world.started()[-2:] == ["slow", "waits"]
    assert world.bodies("dead") == set()


def test_with_a_hold_limit_of_0_only_what_cannot_start_at_once_is_given_back() -> None:
    world = World()
    world.queue("jobs")
    worker = world.worker(queues=[config_of("jobs", claim_size=10)], concurrency=1, hold_limit=0)
    world.usual = Conduct(5)
    world.deliver("jobs", 2)
    world.run(2)
    assert (len(world.starts), world.count("nack"), worker.in_hand()) == (1, 1, 1)
    world.run(20)
    assert world.left("jobs") == 0


def test_an_idle_poll_that_brings_work_late_holds_no_room_of_a_busy_queue() -> None:
    world = World()
    world.queue("was-busy")
    world.queue("busy")
    world.usual = Conduct(0.05)
    world.send("was-busy", "one", "two", "three")
    world.worker(concurrency=1)
    world.run(0.5)
    world.send("busy", *[f"j{n}" for n in range(100)])
    world.run(8)
    assert world.left("busy") == 0


def test_two_seconds_of_silence_from_every_queue_end_a_burst() -> None:
    world = World()
    backlog(world, "a", 5)
    world.queue("b")
    worker = world.worker(concurrency=1, burst=True)
    started = world.now
    finish(world, worker, 30)
    assert worker.exit is not None
    assert worker.exit.code == 0
    assert world.now - started < 8


def test_a_burst_waits_for_the_retry_it_scheduled_but_not_for_a_delayed_message() -> None:
    from simulated import raises

    world = World()
    world.queue("jobs")
    world.send("jobs", "again")
    world.send("jobs", "later", delay=600)
    world.conduct["again"] = [raises(base_delay=20, jitter=False), Conduct()]
    worker = world.worker(burst=True)
    finish(world, worker, 100)
    assert world.started() == ["again", "again"]
    assert world.left("jobs") == 1


def test_room_for_many_long_jobs_fills_in_a_few_round_trips_not_one_by_one() -> None:
    world = World(latency=(0.02, 0.02))
    backlog(world, "jobs.fifo", 60, groups=60)
    world.usual = Conduct(600)
    world.worker(concurrency=40)
    world.run(0.6)
    assert len(world.starts) == 40
