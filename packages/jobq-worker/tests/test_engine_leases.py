"""Heartbeats and lost leases in the engine: statements 2, 13 to 16."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from driven import Driven
from simulated import DENIED, THROTTLED, Conduct, Request, SimulatedWorker, World, raises
from working import lease

from jobq.core import BackendError, LeaseLostError
from jobq.worker.engine import Engine
from jobq.worker.engine.commands import Accounts, Ack, Exit, Extend, Receive, Run
from jobq.worker.engine.config import EngineConfig
from jobq.worker.engine.events import Delivery, Received, Tick

if TYPE_CHECKING:
    from jobq.core import JobqError, Lease

config_of = SimulatedWorker.config_of


each_kind = pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])


def one_job(*conduct: Conduct, queue: str = "jobs") -> World:
    world = World()
    world.queue(queue)
    world.send(queue, "job", group="g" if queue.endswith("fifo") else None)
    world.conduct["job"] = list(conduct)
    return world


def extensions(world: World) -> list[Request]:
    return [request for request in world.requests if request.kind == "extend"]


@each_kind
def test_l8_a_job_of_many_visibility_timeouts_runs_once(queue: str) -> None:
    world = one_job(Conduct(300), queue=queue)
    world.worker(queues=[config_of(queue, visibility=10)])
    world.run(320)
    assert world.started() == ["job"]
    assert world.left(queue) == 0


@each_kind
def test_l7_ten_in_hand_are_extended_together_and_received_once(queue: str) -> None:
    world = World()
    world.queue(queue)
    world.send(queue, *[f"j{n}" for n in range(10)], group="g" if queue.endswith("fifo") else None)
    world.usual = Conduct(3)
    worker = world.worker(
        queues=[config_of(queue, visibility=10, claim_size=10)],
        concurrency=1,
        claim_ahead=60,
        hold_limit=600,
    )
    world.run(2)
    assert worker.in_hand() == 10
    world.run(38)
    assert world.started() == [f"j{n}" for n in range(10)]
    assert {start.receive_count for start in world.starts} == {1}
    assert sorted(world.deleted) == sorted(world.started())
    assert 6 <= len(extensions(world)) <= 30 / (10 / 3)


@each_kind
def test_l7_ten_that_came_one_by_one_are_extended_together_too(queue: str) -> None:
    world = World()
    world.queue(queue)
    world.usual = Conduct(100)
    worker = world.worker(queues=[config_of(queue, visibility=10, claim_size=10)], concurrency=10)
    for n in range(10):
        world.send(queue, f"j{n}", group=f"g{n}" if queue.endswith("fifo") else None)
        world.run(0.1)
    assert len(worker.running) == 10
    world.run(60)
    assert len(extensions(world)) <= 61 / (10 / 3)
    assert {start.receive_count for start in world.starts} == {1}


@each_kind
def test_l9_a_throttled_extension_is_tried_again_while_there_is_time(queue: str) -> None:
    world = one_job(Conduct(30), queue=queue)
    world.faults["extend"].errors.extend([THROTTLED, THROTTLED])
    world.worker(queues=[config_of(queue, visibility=9)])
    world.run(40)
    assert world.started() == world.deleted == ["job"]


@pytest.mark.parametrize("error", [THROTTLED, DENIED, BackendError("odd")])
def test_an_extension_that_never_succeeds_loses_the_lease_and_leaves_the_message(
    error: BackendError,
) -> None:
    world = one_job(Conduct(25), Conduct(50))
    world.faults["extend"].errors.extend([error] * 100)
    worker = world.worker(queues=[config_of("jobs", visibility=9)])
    world.run(24)
    assert [notice.event for notice in worker.notices].count("lease_lost") == 1
    world.run(3)
    assert worker.outcomes()[0] == ("job", "heartbeat_failed")
    assert "job" not in world.deleted


def test_a_refused_receipt_loses_the_lease_at_once() -> None:
    world = one_job(Conduct(25, cancellable=True), Conduct(1))
    world.faults["extend"].errors.append(LeaseLostError("not in flight"))
    worker = world.worker(queues=[config_of("jobs", visibility=9)])
    world.run(4)
    assert worker.outcomes() == [("job", "heartbeat_failed")]


@each_kind
def test_l10_a_two_hour_job_takes_at_most_six_extensions(queue: str) -> None:
    world = one_job(Conduct(7200), queue=queue)
    world.worker(queues=[config_of(queue, visibility=3600, max_runtime=10_800)])
    world.run(7300)
    assert 2 <= len(extensions(world)) <= 6
    assert world.started() == world.deleted == ["job"]


class Asking(SimulatedWorker):
    """Notes each extension that is sent, and each that the service takes: when, of what, how long.

    And when each delete is sent.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.sent: list[tuple[float, str]] = []
        self.asked: list[tuple[float, float]] = []
        self.deletes: dict[str, float] = {}
        super().__init__(*arguments, **options)

    def _obey(self, command: Any) -> None:
        if isinstance(command, Extend):
            self.sent += [(self.world.now, lease.body) for lease in command.leases]
        elif isinstance(command, Ack):
            self.deletes |= {lease.body: self.world.now for lease in command.leases}
        super()._obey(command)

    def _settle(self, command: Any, lease: Lease, kind: str) -> JobqError | None:
        refused = super()._settle(command, lease, kind)
        if isinstance(command, Extend) and refused is None:
            self.asked.append((self.world.now, command.visibility))
        return refused


def throttle_extensions(world: World, seconds: float) -> None:
    world.faults["extend"].errors.extend([THROTTLED] * 10_000)
    world.run(seconds)
    world.faults["extend"].errors.clear()


@each_kind
def test_l6_ten_seconds_before_the_twelve_hours_no_more_is_asked_than_is_left(queue: str) -> None:
    world = one_job(Conduct(43_300), Conduct(1), queue=queue)
    queues = [config_of(queue, visibility=600, max_runtime=100_000)]
    worker = Asking(world, 0, queues=queues)
    world.run(10)
    received = world.starts[0].at
    world.run(received + 42_400 - world.now)
    # The throttling puts the last two extensions where they are to be: at 11:49:52 and 11:59:50.
    throttle_extensions(world, received + 42_592 - world.now)
    world.run(8)
    throttle_extensions(world, received + 43_190 - world.now)
    world.run(3)
    at, seconds = worker.asked[-1]
    assert 43_190 <= at - received <= 43_192
    assert 1 <= seconds <= received + 43_200 - at
    assert all(seconds <= received + 43_200 - at for at, seconds in worker.asked)
    assert [notice.event for notice in worker.notices] == []
    world.run(8)
    assert [notice.event for notice in worker.notices] == ["lease_lost"]
    world.run(received + 43_300.1 - world.now)
    assert worker.outcomes() == [("job", "heartbeat_failed")]
    assert world.deleted == []


@pytest.mark.parametrize("conduct", [Conduct(100), Conduct(100, cancellable=True)])
def test_a_job_past_its_longest_runtime_is_given_up_even_if_it_then_succeeds(
    conduct: Conduct,
) -> None:
    world = one_job(conduct, Conduct(1))
    worker = world.worker(queues=[config_of("jobs", visibility=9, max_runtime=60)])
    world.run(61)
    assert len(worker.running) == (0 if conduct.cancellable else 1)
    world.run(45)
    assert worker.outcomes()[0] == ("job", "heartbeat_failed")
    last = max(request.at for request in extensions(world))
    assert last < 1000 + 61


def test_what_waits_behind_slots_held_by_lost_jobs_is_given_back() -> None:
    world = World()
    world.queue("jobs")
    world.send("jobs", "stuck", "waits", "waits too")
    world.conduct["stuck"] = [Conduct(3000)]
    queues = [config_of("jobs", visibility=9, max_runtime=60, claim_size=10)]
    worker = world.worker(queues=queues, hold_limit=600)
    world.run(62)
    assert ("waits", "released") in worker.outcomes()
    assert ("waits too", "released") in worker.outcomes()


def test_a_message_redelivered_while_its_lost_run_goes_on_starts_after_it() -> None:
    world = one_job(Conduct(40), Conduct(1))
    world.faults["extend"].errors.extend([THROTTLED] * 100)
    worker = world.worker(queues=[config_of("jobs", visibility=9)], concurrency=4)
    world.run(30)
    world.faults["extend"].errors.clear()
    assert len(worker.running) == 1
    world.run(60)
    first, second = world.starts
    assert second.at >= first.at + 40
    assert world.left("jobs") == 0


@pytest.mark.parametrize("seconds", [3, 12])
def test_a_second_delivery_of_what_runs_is_taken_over_not_started(seconds: float) -> None:
    world = one_job(Conduct(seconds))
    worker = world.worker(queues=[config_of("jobs", visibility=30)], concurrency=4)
    world.run(1)
    world.show_again("jobs", "job")
    world.run(30)
    assert world.started() == ["job"]
    assert world.left("jobs") == 0
    worker.stop()
    world.run(30)
    assert worker.exit is not None
    assert worker.exit.accounts.taken_over == 1


def test_l2_a_message_received_twice_and_done_once_is_deleted_by_its_newer_receipt() -> None:
    world = World()
    world.queue("jobs")
    world.send("jobs", *[f"j{n}" for n in range(9)])
    world.usual = Conduct(0.02)
    world.conduct["j8"] = [Conduct(3)]
    world.worker(queues=[config_of("jobs", claim_size=10)], concurrency=10)
    world.run(0.06)
    world.show_again("jobs", "j1")
    world.run(10)
    assert world.left("jobs") == 0
    assert world.started().count("j1") == 1


def test_nothing_starts_on_a_lease_that_ran_out_while_the_process_stood_still() -> None:
    world = World()
    world.queue("jobs")
    world.send("jobs", "first", "second")
    world.conduct["first"] = [Conduct(1)]
    queues = [config_of("jobs", visibility=9, claim_size=10)]
    worker = world.worker(queues=queues, hold_limit=600)
    world.run(0.5)
    worker.stall(30)
    world.run(40)
    second = [start for start in world.starts if start.body == "second"]
    assert [start.receive_count for start in second] == [2]


def test_a_success_after_a_stall_past_the_lease_deletes_nothing() -> None:
    world = one_job(Conduct(1), Conduct(1))
    worker = world.worker(queues=[config_of("jobs", visibility=9)])
    world.run(0.5)
    worker.stall(30)
    world.run(31)
    assert worker.outcomes()[0] == ("job", "heartbeat_failed")


def test_a_thread_may_not_start_a_job_on_what_its_replys_way_may_have_used_up() -> None:
    driven = Driven()
    driven.receive("one")
    run = driven.last(Run)
    assert run.not_after == run.lease.expires_at - 1


def test_a_process_that_stood_still_says_for_how_long_and_a_busy_one_says_nothing() -> None:
    world = World()
    world.queue("jobs")
    world.send("jobs", *(f"j{n}" for n in range(20)))
    worker = world.worker()
    world.run(60)
    assert worker.notices == []
    worker.stall(11)
    world.run(60)
    (notice,) = worker.notices
    assert (notice.level, notice.event) == ("warning", "worker_stood_still")
    assert 11 <= notice.fields["seconds"] <= 12.1


def test_a_reply_that_lay_unread_during_a_stall_is_dated_before_it() -> None:
    world = World()
    world.queue("jobs")
    worker = world.worker(queues=[config_of("jobs", visibility=9)])
    world.run(2)
    worker.stall(8.5)
    world.run(0.1)
    world.send("jobs", "job")
    world.run(60)
    assert world.started() == ["job"]
    assert world.starts[0].receive_count == 2, "half a second was left, too little to start on"


def test_a_reply_that_lay_unread_during_two_stalls_is_dated_before_the_first() -> None:
    config = EngineConfig(queues=(config_of("jobs", visibility=9),))
    engine = Engine(config, now=0, random=lambda: 0.5)
    (receive,) = engine.handle([Tick()], 0)
    assert isinstance(receive, Receive)
    for now in (4, 4.1, 8.5):
        engine.handle([Tick()], now)
    late = Received(receive.poll, (Delivery(lease(expires_at=8.6 + 9)),))
    commands = engine.handle([late], 8.6)
    assert not [command for command in commands if isinstance(command, Run)]


@each_kind
@pytest.mark.parametrize("seconds", [4.5, 5, 6, 7.5])
def test_l5_nothing_is_extended_once_its_delete_was_sent(queue: str, seconds: float) -> None:
    """Calls take so long that ticks of the heartbeat come due while the delete is under way; those
    of another message, too.
    """
    world = World(latency=(2.0, 2.0))
    world.queue(queue)
    for body in ("job", "other"):
        world.send(queue, body, group=body if queue.endswith("fifo") else None)
    world.conduct["job"] = [Conduct(seconds)]
    world.conduct["other"] = [Conduct(30)]
    queues = [config_of(queue, visibility=9, claim_size=10)]
    worker = Asking(world, 0, queues=queues, concurrency=2)
    world.run(60)
    assert world.deleted == ["job", "other"]
    sent_at = worker.deletes["job"]
    assert all(at < sent_at for at, body in worker.sent if body == "job")
    assert any(sent_at <= at <= sent_at + 4 for at, body in worker.sent if body == "other")
    assert worker.outcomes() == [("job", "success"), ("other", "success")]


@each_kind
@pytest.mark.parametrize("ends", [0.1, 0.9, 1.5, 1.9])
def test_l5_a_receipt_refused_while_the_delete_is_under_way_is_nothing_unusual(
    queue: str, ends: float
) -> None:
    """The job ends `ends` seconds after an extension went out whose answer takes two."""
    world = World(latency=(1.0, 1.0))
    world.queue(queue)
    world.send(queue, "job", group="g" if queue.endswith("fifo") else None)
    worker = world.worker(queues=[config_of(queue, visibility=9)])
    world.faults["extend"].errors.append(LeaseLostError("no such receipt any more"))
    first_tick = 9 / 3
    world.conduct["job"] = [Conduct(first_tick + ends)]
    world.run(60)
    assert len(extensions(world)) == 1
    assert world.started() == world.deleted == ["job"]
    assert worker.outcomes() == [("job", "success")]
    assert worker.notices == []


@each_kind
def test_l12_a_throttled_delete_is_tried_again_with_extensions_between(queue: str) -> None:
    world = one_job(Conduct(1), queue=queue)
    world.faults["ack"].errors.extend([THROTTLED] * 6)
    worker = world.worker(queues=[config_of(queue, visibility=9)])
    world.run(120)
    assert world.started() == world.deleted == ["job"]
    tries = [request.at for request in world.requests if request.kind == "ack"]
    assert len(tries) == 7
    assert tries[-1] - world.starts[0].at > 9
    assert any(tries[0] < request.at < tries[-1] for request in extensions(world))
    assert worker.outcomes() == [("job", "success")]


def test_a_hide_waits_for_an_extension_that_is_out() -> None:
    world = World(latency=(1.0, 1.0))
    world.queue("jobs")
    world.send("jobs", "job")
    world.conduct["job"] = [raises(4.5, base_delay=2, jitter=False), Conduct(1)]
    world.worker(queues=[config_of("jobs", visibility=9)])
    world.run(40)
    first, second = world.starts
    assert second.at - first.at < 4.5 + 2 + 8


class Busy(SimulatedWorker):
    """Its first run begins 40 s late, as on a loop that another handler blocks."""

    late = 40.0

    def _run(self, command: Run) -> None:
        late, self.late = self.late, 0.0
        self.world.after(late, lambda: super(Busy, self)._run(command))


@pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])
def test_a_job_kept_from_starting_past_its_first_lease_starts_on_the_extended_one(
    queue: str,
) -> None:
    world = one_job(queue=queue)
    worker = Busy(world, 0)
    world.run(45)
    assert [start.receive_count for start in world.starts] == [1]
    assert worker.outcomes() == [("job", "success")]
    assert worker.engine.state.accounts() == Accounts(received=1, started=1)


def test_a_stop_gives_back_a_job_that_was_kept_from_starting() -> None:
    world = one_job()
    worker = Busy(world, 0, shutdown_timeout=60)
    world.run(35)
    worker.stop()
    world.run(30)
    assert world.started() == []
    assert worker.exit == Exit(0, Accounts(received=1, given_back=1))


def test_who_deletes_what_came_during_a_stall_knows_how_old_its_lease_is() -> None:
    driven = Driven()
    driven.now = 20.0
    driven.receive("malformed")
    (sent,) = driven.last(Ack).leases
    assert sent.expires_at == 30, "it may have come right after the process stood still"
