"""Queues that fail, are gone or answer with nothing: statements 20 and 21."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from simulated import THROTTLED, Conduct, Request, SimulatedWorker, World
from working import lease

from jobq.core import BackendError, QueueNotFoundError
from jobq.worker.engine import Engine
from jobq.worker.engine.commands import Notice, Receive
from jobq.worker.engine.config import EngineConfig
from jobq.worker.engine.events import Delivery, Received, ReceiveFailed, Tick

if TYPE_CHECKING:
    from jobq.core import JobqError

config_of = SimulatedWorker.config_of

GONE = QueueNotFoundError("queue 'gone' does not exist: create it")
OVER_LIMIT = BackendError("OverLimit", retryable=True, throttled=True)
SKEWED = BackendError("Signature expired: set this machine's clock right", retryable=True)


def finish(world: World, worker: SimulatedWorker, seconds: float = 3600) -> None:
    world.run(seconds, until=lambda: worker.exit is not None)
    assert worker.exit is not None


def fail_receives(world: World, queue: str, error: JobqError, times: int = 1000) -> None:
    world.faults[f"receive {queue}"].errors.extend([error] * times)


def warnings(worker: SimulatedWorker, event: str = "receive_failed") -> list[Notice]:
    return [notice for notice in worker.notices if notice.event == event]


def test_p3_a_queue_that_was_deleted_costs_little_and_the_others_nothing() -> None:
    world = World()
    for name in ("gone", "one", "two.fifo"):
        world.queue(name)
    world.send("one", *[f"one-{n}" for n in range(1000)])
    for n in range(1000):
        world.send("two.fifo", f"two-{n}", group=f"g{n % 50}")
    world.usual = Conduct(1)
    worker = world.worker(concurrency=2)
    world.run(30)
    fail_receives(world, "gone", GONE)
    before = len(world.starts)
    world.run(600)
    calls = [one for one in world.requests if one.queue == "gone" and one.at > 1030]
    assert 20 <= len(calls) <= 40
    assert 1 <= len([one for one in worker.notices if one.fields.get("queue") == "gone"]) <= 15
    assert len(world.starts) - before >= 0.97 * 2 * 600
    assert worker.exit is None


@pytest.mark.parametrize("gone_for", [5, 60, 600])
def test_p3_once_it_was_made_again_it_is_served_within_a_minute(gone_for: float) -> None:
    world = World()
    for name in ("gone", "one", "two.fifo"):
        world.queue(name)
    worker = world.worker()
    world.run(30)
    fail_receives(world, "gone", GONE)
    world.run(gone_for)
    world.faults["receive gone"].errors.clear()
    world.send("gone", "job")
    world.run(60)
    assert world.started() == ["job"]
    assert worker.exit is None


@pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])
def test_p8_where_too_much_is_in_flight_receives_back_off_and_what_runs_goes_on(
    queue: str,
) -> None:
    world = World()
    world.queue(queue)
    for n in range(20):
        world.send(queue, f"j{n}", group=f"g{n}" if queue.endswith("fifo") else None)
    world.usual = Conduct(20)
    worker = world.worker(queues=[config_of(queue, visibility=9.0)], concurrency=4)
    world.run(1)
    fail_receives(world, queue, OVER_LIMIT, times=6)
    before = world.count("receive")
    world.run(40)
    assert world.count("receive") - before <= 9
    world.run(400)
    assert sorted(world.deleted) == sorted(world.started()) == sorted(f"j{n}" for n in range(20))
    assert {start.receive_count for start in world.starts} == {1}
    assert worker.exit is None


class Denied(SimulatedWorker):
    """Its server gives it nothing, and says so at once, whatever wait it was asked for."""

    limited = True

    def _receive(self, command: Receive) -> None:
        if self.limited:
            now = self.world.now
            self.world.requests.append(
                Request(now, "receive", command.queue, self.number, 1, command.wait)
            )
            self._reply(command, [], now)
        else:
            super()._receive(command)


@pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_p8_long_polls_that_bring_nothing_and_at_once_are_not_repeated_at_once(
    queue: str, concurrency: int
) -> None:
    world = World()
    world.queue(queue)
    worker = Denied(world, 0, concurrency=concurrency)
    world.run(300)
    assert world.count("receive") <= 300 / 2 + 10
    world.send(queue, "job", group="g" if queue.endswith("fifo") else None)
    worker.limited = False
    world.run(5)
    assert world.started() == ["job"]


def test_one_long_poll_that_ends_early_is_followed_by_the_next_at_once() -> None:
    world = World()
    world.queue("jobs")
    worker = Denied(world, 0)
    world.run(0.015)
    worker.limited = False
    world.send("jobs", "job")
    world.run(0.1)
    assert world.started() == ["job"]


def test_c5_signatures_that_fail_five_times_are_one_warning_and_the_worker_goes_on() -> None:
    world = World()
    world.queue("jobs")
    world.queue("jobs.fifo")
    worker = world.worker(concurrency=2)
    world.run(30)
    fail_receives(world, "jobs", SKEWED, times=5)
    world.send("jobs.fifo", "beside", group="g")
    world.run(60)
    (line,) = warnings(worker)
    assert (line.level, line.fields["queue"]) == ("warning", "jobs")
    assert "clock" in line.fields["error"]
    world.send("jobs", "after")
    world.run(30)
    assert world.started() == ["beside", "after"]
    assert worker.exit is None


@pytest.mark.parametrize("good_between", [0, 1, 3])
def test_c5_while_signatures_fail_there_is_one_warning_a_minute_at_most(good_between: int) -> None:
    world = World()
    world.queue("jobs")
    world.queue("other")
    worker = world.worker()
    errors = [SKEWED, *[None] * good_between]
    world.faults["receive jobs"].errors.extend(errors * 500)
    world.run(5)
    told: list[float] = []
    for _ in range(1200):
        before = len(warnings(worker))
        world.run(0.5)
        told += [world.now] * (len(warnings(worker)) - before)
    assert len(told) >= 3
    assert all(after - before >= 59 for before, after in itertools.pairwise(told))
    assert worker.exit is None


def test_c5_a_delete_that_fails_so_five_times_is_sent_again_and_the_job_runs_once() -> None:
    world = World()
    world.queue("jobs")
    world.send("jobs", "job")
    world.faults["ack"].errors.extend([SKEWED] * 5)
    world.faults["extend"].errors.extend([SKEWED] * 2)
    worker = world.worker()
    world.run(120)
    assert world.started() == world.deleted == ["job"]
    assert worker.outcomes() == [("job", "success")]


def test_a_failing_queue_backs_off_alone_up_to_half_a_minute() -> None:
    world = World()
    world.queue("good")
    world.queue("bad")
    fail_receives(world, "bad", THROTTLED)
    worker = world.worker(concurrency=1)
    world.run(600)
    assert world.count("receive", "bad") <= 40
    assert 28 <= world.count("receive", "good") <= 31
    assert 1 <= len(warnings(worker)) <= 15
    world.faults["receive bad"].errors.clear()
    world.send("bad", "served again")
    world.run(60)
    assert world.started() == ["served again"]


def test_a_queue_that_goes_on_failing_is_warned_of_ever_more_rarely() -> None:
    world = World()
    world.queue("good")
    world.queue("bad")
    fail_receives(world, "bad", THROTTLED)
    worker = world.worker()
    counts: list[int] = []
    for _ in range(4):
        before = len(warnings(worker))
        world.run(900)
        counts.append(len(warnings(worker)) - before)
    assert counts[0] >= 4
    assert counts[1:] == sorted(counts[1:], reverse=True)
    assert counts[3] <= 1


def test_a_worker_whose_every_queue_failed_ten_times_finishes_and_ends_with_1() -> None:
    world = World()
    world.queue("jobs")
    world.send("jobs", "long")
    world.conduct["long"] = [Conduct(500)]
    worker = world.worker(concurrency=2)
    world.run(1)
    fail_receives(world, "jobs", THROTTLED)
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
    (queue,) = engine.state.queues
    assert queue.failures == 1


def test_a_missing_queue_ends_the_worker_where_it_was_asked_to() -> None:
    world = World()
    world.queue("a")
    world.queue("b")
    fail_receives(world, "a", GONE, times=1)
    worker = world.worker(on_broken_queue="exit")
    finish(world, worker, 30)
    assert worker.exit is not None
    assert worker.exit.code == 1


def test_a_receive_denied_once_it_had_been_allowed_counts_as_a_failure() -> None:
    world = World()
    world.queue("jobs")
    worker = world.worker()
    world.run(25)
    fail_receives(world, "jobs", BackendError("no", denied=True), times=1)
    world.run(25)
    assert worker.exit is None
    assert [notice.event for notice in worker.notices] == ["receive_failed"]


@pytest.mark.parametrize(
    "error", [BackendError("no", denied=True), QueueNotFoundError("no such queue")]
)
def test_a_queue_denied_or_missing_from_the_first_ends_the_worker(error: BackendError) -> None:
    world = World()
    world.queue("jobs")
    fail_receives(world, "jobs", error, times=1)
    worker = world.worker()
    world.run(5)
    assert worker.exit is not None
    assert worker.exit.code == 1
