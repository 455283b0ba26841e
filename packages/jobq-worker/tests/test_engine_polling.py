"""Whom the engine asks, for how many and how long: statements 11 and 17 to 21."""

from __future__ import annotations

from collections import Counter

import pytest
from simulated import THROTTLED, Conduct, SimulatedWorker, World
from working import lease

from jobq.core import BackendError, QueueNotFoundError
from jobq.worker.engine import Engine
from jobq.worker.engine.commands import Notice, Receive
from jobq.worker.engine.config import EngineConfig
from jobq.worker.engine.events import Delivery, Received, ReceiveFailed, Tick

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
    for name in ("a", "b", "c"):
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


def test_nothing_is_polled_while_every_slot_is_taken() -> None:
    world = World()
    backlog(world, "jobs", 100)
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


def test_p10_twenty_queues_with_a_backlog_give_nothing_back_twice() -> None:
    world = World()
    dead = world.queue("dead")
    del world.stores["dead"]
    for n in range(20):
        world.queue(f"q{n}", dead_letter=dead, max_receive_count=3)
        world.send(f"q{n}", *[f"{n}-{k}" for k in range(6)])
    world.usual = Conduct(30)
    queues = [config_of(f"q{n}", max_receive_count=3) for n in range(20)]
    worker = world.worker(queues=queues, concurrency=1)
    world.run(20 * 6 * 30 + 300)
    released = Counter(body for body, outcome in worker.outcomes() if outcome == "released")
    assert max(released.values(), default=0) <= 1
    assert len(world.starts) == len(set(world.started())) == 120
    assert dead.stats(now=world.now).waiting == 0


@pytest.mark.parametrize("workers", [2, 10])
def test_p11_one_message_does_not_wander_between_busy_workers(workers: int) -> None:
    world = World()
    backlog(world, "long", 3 * workers)
    world.queue("idle")
    world.conduct["rare"] = [Conduct(0.1)]
    world.usual = Conduct(60)
    for _ in range(workers):
        world.worker(concurrency=1)
    world.run(30)
    world.send("idle", "rare")
    world.run(120)
    start = next(start for start in world.starts if start.body == "rare")
    assert start.receive_count <= 2


def test_p12_nine_messages_do_not_wait_behind_an_hour_long_one() -> None:
    world = World()
    world.usual = Conduct(0.01)
    world.queue("mixed")
    world.send("mixed", *[f"fast-{n}" for n in range(40)])
    world.send("mixed", "hour")
    world.conduct["hour"] = [Conduct(3600)]
    world.send("mixed", *[f"late-{n}" for n in range(9)])
    world.worker(queues=[config_of("mixed", max_runtime=7200)], concurrency=1)
    world.worker(queues=[config_of("mixed", max_runtime=7200)], concurrency=1)
    world.run(60)
    assert sum(start.body.startswith("late") for start in world.starts) == 9


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


def test_p6_weights_are_the_shares_of_starts() -> None:
    world = World()
    backlog(world, "five", 3000)
    backlog(world, "one", 3000)
    world.usual = Conduct(0.05)
    world.worker(queues=[config_of("five", weight=5), config_of("one")], concurrency=1)
    world.run(3600, until=lambda: len(world.starts) >= 1000)
    shares = Counter(world.started()[n].split("-")[0] for n in range(1000))
    assert 4 <= shares["five"] / shares["one"] <= 6


@pytest.mark.parametrize("seconds", [0.02, 0.3, 5])
@pytest.mark.parametrize("concurrency", [1, 4])
def test_weights_hold_for_jobs_of_any_length(seconds: float, concurrency: int) -> None:
    world = World()
    backlog(world, "three", 900)
    backlog(world, "one.fifo", 900, groups=900)
    world.usual = Conduct(seconds)
    queues = [config_of("three", weight=3), config_of("one.fifo")]
    world.worker(queues=queues, concurrency=concurrency)
    world.run(10_000, until=lambda: len(world.starts) >= 600)
    shares = Counter(start.queue for start in world.starts[:600])
    assert 2.2 <= shares["three"] / shares["one.fifo"] <= 4


def test_no_queue_starves_beside_one_with_much_more_weight() -> None:
    world = World()
    backlog(world, "heavy", 2000)
    backlog(world, "light", 5)
    world.usual = Conduct(0.1)
    world.worker(queues=[config_of("heavy", weight=50), config_of("light")], concurrency=1)
    world.run(100)
    assert sum(start.queue == "light" for start in world.starts) == 5


def test_strict_starts_a_later_queue_only_when_the_earlier_has_nothing() -> None:
    world = World()
    backlog(world, "high", 50)
    backlog(world, "low", 50)
    world.usual = Conduct(0.5)
    world.worker(concurrency=2, polling="strict")
    world.run(60)
    order = [start.queue for start in world.starts]
    # Both queues' first long polls went out together, before either was known to have work.
    assert order[2:50].count("low") <= 1
    assert len(order) == 100


def test_strict_does_not_start_a_later_message_past_an_earlier_queue_still_to_be_asked() -> None:
    world = World()
    world.queue("high")
    world.queue("low")
    world.usual = Conduct(1)
    world.send("high", *[f"h{n}" for n in range(10)])
    world.send("low", *[f"l{n}" for n in range(10)])
    queues = [config_of("high"), config_of("low", claim_size=10)]
    world.worker(queues=queues, concurrency=1, polling="strict", claim_ahead=30, hold_limit=600)
    world.run(60)
    order = [start.queue for start in world.starts]
    assert order[2:10] == ["high"] * 8
    assert order[11:] == ["low"] * 9


@pytest.mark.parametrize("polling", ["weighted", "strict"])
def test_a_queue_holds_no_more_slots_than_its_cap(polling: str) -> None:
    world = World()
    backlog(world, "capped", 100)
    backlog(world, "open", 100)
    world.usual = Conduct(1)
    queues = [config_of("capped", cap=1, weight=10), config_of("open")]
    worker = world.worker(queues=queues, concurrency=4, polling=polling)
    for _ in range(200):
        world.run(0.1)
        held = [run.queue for run, _ in worker.running.values()]
        assert held.count("capped") <= 1
    assert sum(start.queue == "open" for start in world.starts) > 45


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


def test_a_failing_queue_backs_off_alone_up_to_half_a_minute() -> None:
    world = World()
    world.queue("good")
    world.queue("bad")
    world.faults["receive bad"].errors.extend([THROTTLED] * 500)
    worker = world.worker(concurrency=1)
    world.run(600)
    assert world.count("receive", "bad") <= 40
    assert 28 <= world.count("receive", "good") <= 31
    warned = [notice for notice in worker.notices if notice.event == "receive_failed"]
    assert 1 <= len(warned) <= 15
    world.faults["receive bad"].errors.clear()
    world.send("bad", "served again")
    world.run(60)
    assert world.started() == ["served again"]


def test_a_worker_whose_every_queue_failed_ten_times_finishes_and_ends_with_1() -> None:
    world = World()
    world.queue("jobs")
    world.send("jobs", "long")
    world.conduct["long"] = [Conduct(500)]
    worker = world.worker(concurrency=2)
    world.run(1)
    world.faults["receive jobs"].errors.extend([THROTTLED] * 500)
    finish(world, worker)
    assert worker.exit is not None
    assert worker.exit.code == 1


def test_many_receives_that_break_at_once_are_one_failure() -> None:
    config = EngineConfig(queues=(config_of("jobs.fifo"),), concurrency=40)
    engine = Engine(config, now=0, random=lambda: 0.5)
    commands, number = engine.handle([Tick()], 0), 0
    out: list[int] = []
    while len(out) < 12:
        out += [command.poll for command in commands if isinstance(command, Receive)]
        message = lease(message_id=f"m{number}", group_id=f"g{number}", receipt=f"r{number}")
        commands = engine.handle([Received(out.pop(0), (Delivery(message),))], number / 100)
        commands += engine.handle([Tick()], number / 100)
        number += 1
    commands = engine.handle([ReceiveFailed(poll, BackendError("cut off")) for poll in out], 0.5)
    assert [command.event for command in commands if isinstance(command, Notice)] == [
        "receive_failed"
    ]


def test_a_missing_queue_ends_the_worker_where_it_was_asked_to() -> None:
    world = World()
    world.queue("a")
    world.queue("b")
    gone = QueueNotFoundError("queue 'a' does not exist")
    world.faults["receive a"].errors.append(gone)
    worker = world.worker(on_broken_queue="exit")
    finish(world, worker, 30)
    assert worker.exit is not None
    assert worker.exit.code == 1


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


def test_a_receive_denied_once_it_had_been_allowed_counts_as_a_failure() -> None:
    world = World()
    world.queue("jobs")
    worker = world.worker()
    world.run(25)
    world.faults["receive jobs"].errors.append(BackendError("no", denied=True))
    world.run(25)
    assert worker.exit is None
    assert [notice.event for notice in worker.notices] == ["receive_failed"]


@pytest.mark.parametrize(
    "error", [BackendError("no", denied=True), QueueNotFoundError("no such queue")]
)
def test_a_queue_denied_or_missing_from_the_first_ends_the_worker(error: BackendError) -> None:
    world = World()
    world.queue("jobs")
    world.faults["receive jobs"].errors.append(error)
    worker = world.worker()
    world.run(5)
    assert worker.exit is not None
    assert worker.exit.code == 1


def test_room_for_many_long_jobs_fills_in_a_few_round_trips_not_one_by_one() -> None:
    world = World(latency=(0.02, 0.02))
    backlog(world, "jobs.fifo", 60, groups=60)
    world.usual = Conduct(600)
    world.worker(concurrency=40)
    world.run(0.6)
    assert len(world.starts) == 40
