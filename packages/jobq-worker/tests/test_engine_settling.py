"""What becomes of a message after its run: statements 1, 3, 4, 6 to 8."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from simulated import (
    DENIED,
    THROTTLED,
    Conduct,
    SimulatedWorker,
    World,
    postpones,
    raises,
    refuses,
)

from jobq.core import BackendError, LeaseLostError
from jobq.worker.engine.commands import Accounts, Nack

config_of = SimulatedWorker.config_of


each_kind = pytest.mark.parametrize("queue", ["jobs", "jobs.fifo"])


def a_world(*bodies: str, queue: str = "jobs") -> World:
    world = World()
    world.queue(queue)
    for body in bodies:
        world.send(queue, body, group=f"of-{body}" if queue.endswith("fifo") else None)
    return world


def test_a_success_and_a_refusal_for_good_delete_the_message() -> None:
    world = a_world("good", "never")
    world.conduct["never"] = [refuses()]
    worker = world.worker(concurrency=2)
    world.run(5)
    assert sorted(worker.outcomes()) == [("good", "success"), ("never", "delete")]
    assert world.left("jobs") == 0


@each_kind
def test_m4_a_job_that_always_fails_comes_back_ever_later_and_never_at_once(queue: str) -> None:
    world = a_world("fails", queue=queue)
    world.conduct["fails"] = [raises(0.01, base_delay=1)]
    world.worker()
    world.run(30, until=lambda: len(world.starts) == 5)
    times = [start.at for start in world.starts]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    for gap, longest in zip(gaps, (1, 2, 4, 8), strict=True):
        assert max(1, longest / 2) - 0.05 <= gap <= longest + 1.1


def test_without_a_base_delay_a_failure_waits_for_its_visibility_timeout_without_a_call() -> None:
    world = a_world("fails")
    world.conduct["fails"] = [raises(0.01), Conduct()]
    worker = world.worker()
    world.run(60)
    assert world.count("nack") == 0
    assert world.starts[1].at - world.starts[0].at >= 29.9
    assert worker.outcomes() == [("fails", "retry"), ("fails", "success")]


@pytest.mark.parametrize("seconds", [0, 1, 60.5])
def test_retry_after_hides_the_message_for_that_long(seconds: float) -> None:
    world = a_world("later")
    world.conduct["later"] = [postpones(0.01, seconds), Conduct()]
    world.worker()
    world.run(100)
    assert seconds <= world.starts[1].at - world.starts[0].at <= seconds + 2


@each_kind
@pytest.mark.parametrize(
    "later",
    [postpones(0.01, 7200), raises(0.01, base_delay=7200, max_delay=7200, jitter=False)],
    ids=["RetryAfter", "base_delay"],
)
def test_l1_a_job_due_in_two_hours_waits_in_the_queue_not_in_memory(
    later: Conduct, queue: str
) -> None:
    world = a_world("later", queue=queue)
    world.conduct["later"] = [later, Conduct()]
    worker = world.worker()
    world.run(60)
    assert world.count("nack") == 1
    assert world.count("extend") == 0
    assert worker.in_hand() == 0
    world.run(7300)
    assert world.count("extend") == 0
    assert [start.receive_count for start in world.starts] == [1, 2]
    assert 7200 <= world.starts[1].at - world.starts[0].at <= 7202
    assert world.deleted == ["later"]


def test_a_retry_delay_is_cut_to_what_is_left_of_the_twelve_hours() -> None:
    world = a_world("long")
    world.conduct["long"] = [postpones(40_000, 10_000), Conduct()]
    world.worker(queues=[config_of("jobs", max_runtime=50_000)])
    world.run(43_300)
    assert len(world.starts) == 2


def test_a_hide_that_is_tried_again_asks_for_no_more_than_is_left_by_then() -> None:
    class Asking(SimulatedWorker):
        def _call(self, command: Any) -> None:
            if isinstance(command, Nack):
                asked.append(world.now - received + command.delay)
            super()._call(command)

    asked: list[float] = []
    world = a_world("later")
    world.usual = postpones(0.01, 43_200)
    world.faults["nack"].errors = [THROTTLED] * 4
    received = world.now
    world.workers.append(Asking(world, 0))
    world.run(60)
    assert len(asked) == 5
    assert max(asked) <= 43_200


@each_kind
def test_m2_an_unknown_job_type_is_hidden_for_five_minutes_and_never_deleted(queue: str) -> None:
    world = a_world("unknown", queue=queue)
    worker = world.worker()
    world.run(299)
    assert world.count("receive") < 30
    assert worker.outcomes() == [("unknown", "unknown_job_type")]
    world.run(30)
    assert len(worker.outcomes()) == 2
    assert world.left(queue) == 1
    assert world.count("ack") == 0
    assert worker.engine.state.accounts() == Accounts(received=2, refused=2)


def test_m2_an_unknown_job_type_goes_the_way_of_the_redrive_policy() -> None:
    world = World()
    dead = world.queue("dead")
    del world.stores["dead"]
    world.queue("jobs", dead_letter=dead, max_receive_count=3)
    world.send("jobs", "unknown")
    worker = world.worker(queues=[config_of("jobs", max_receive_count=3)])
    world.run(3 * 300 + 60)
    assert worker.outcomes() == [("unknown", "unknown_job_type")] * 3
    assert [entry.body for entry in dead.entries().values()] == ["unknown"]


@pytest.mark.parametrize(("policy", "left"), [("delete", 0), ("leave", 1)])
def test_m1_malformed_messages_go_by_the_policy_and_the_next_one_runs(
    policy: str, left: int
) -> None:
    world = a_world("malformed", "good")
    worker = world.worker(on_malformed=policy)
    world.run(5)
    assert world.started() == ["good"]
    assert world.left("jobs") == left
    assert ("malformed", "malformed") in worker.outcomes()


def test_no_slot_is_held_by_what_no_handler_can_run() -> None:
    world = a_world(*[f"malformed{n}" for n in range(20)], "good")
    world.conduct["good"] = [Conduct(100)]
    world.send("jobs", "malformed-late")
    worker = world.worker(queues=[config_of("jobs", claim_size=10)], concurrency=1)
    world.run(30)
    assert len(worker.outcomes()) >= 20


def test_deletes_go_ten_to_a_call_and_wait_50_ms_at_most() -> None:
    world = a_world(*[f"j{n}" for n in range(40)])
    world.usual = Conduct(0.001)
    world.conduct["slow"] = [Conduct(20)]
    world.send("jobs", "slow")
    worker = world.worker(concurrency=2, claim_ahead=60)
    world.run(10)
    calls = [request.count for request in world.requests if request.kind == "ack"]
    assert sum(calls) == 40
    assert max(calls) <= 10
    assert len(worker.running) == 1, "the slow job kept the worker from being idle"


def test_a_delete_waits_for_company_not_for_one_that_backs_off() -> None:
    world = a_world("refused")
    world.faults["ack refused"].errors.extend([THROTTLED] * 20)
    world.usual = Conduct(0.01)
    world.conduct["slow"] = [Conduct(100)]
    world.worker(concurrency=4)
    world.run(10)
    world.send("jobs", "slow")
    world.run(1)
    world.send("jobs", "quick")
    world.run(0.2)
    assert "quick" in world.deleted


def test_a_delete_never_waits_while_the_worker_is_otherwise_idle() -> None:
    world = World(latency=(0.001, 0.001))
    world.queue("jobs")
    world.send("jobs", "only")
    world.usual = Conduct(1)
    world.worker()
    world.run(3)
    delete = next(request for request in world.requests if request.kind == "ack")
    assert delete.at - (world.starts[0].at + 1) < 0.005


def test_l3_of_a_delete_batch_one_entry_is_retried_one_logged_and_eight_stand() -> None:
    world = a_world(*[f"j{n}" for n in range(10)])
    world.usual = Conduct(0.5)
    world.faults["ack j3"].errors.append(THROTTLED)
    world.faults["ack j4"].errors.append(BackendError("the sender's fault"))
    worker = world.worker(concurrency=10)
    world.run(10)
    outcomes = dict(worker.outcomes())
    assert outcomes.pop("j4") == "delete_failed"
    assert set(outcomes.values()) == {"success"}
    assert len(outcomes) == 9
    assert sum(request.count for request in world.requests if request.kind == "ack") == 11
    failed = next(ended for ended in worker.ended if ended.outcome == "delete_failed")
    assert failed.processing_outcome == "success"


def test_l3_twenty_five_pending_deletes_make_three_calls() -> None:
    world = a_world(*[f"j{n}" for n in range(25)])
    world.usual = Conduct(0.5)
    world.worker(concurrency=25)
    world.run(10)
    # All that started together ended together.
    first = min(start.at for start in world.starts)
    together = sum(start.at < first + 0.04 for start in world.starts)
    calls = [r for r in world.requests if r.kind == "ack" and r.at < first + 0.5 + 0.06]
    assert together == 25
    assert len(calls) == 3


@each_kind
def test_l13_a_role_that_may_not_delete_stops_the_claims_not_the_worker(queue: str) -> None:
    world = a_world("one", "two", "three", queue=queue)
    world.queue("other")
    world.faults["ack"].errors.extend([DENIED] * 1000)
    worker = world.worker(queues=[config_of(queue, max_runtime=100), config_of("other")])
    world.run(5)
    receives = world.count("receive", queue)
    world.run(2000)
    assert world.count("receive", queue) == receives
    assert 1 <= len(world.starts) <= 2
    assert len(world.starts) == len(set(world.started()))
    assert world.deleted == []
    assert [notice.event for notice in worker.notices].count("queue_closed") == 1
    assert worker.exit is None


def test_the_first_delete_that_succeeds_opens_the_queue_again() -> None:
    world = a_world("one", "two", "three")
    world.faults["ack"].errors.extend([DENIED] * 5)
    worker = world.worker()
    world.run(300)
    assert sorted(set(world.started())) == ["one", "three", "two"]
    assert world.left("jobs") == 0
    assert "queue_reopened" in [notice.event for notice in worker.notices]


def test_a_worker_with_no_queue_left_to_serve_ends_with_1() -> None:
    world = a_world("one", "two")
    world.faults["ack"].errors.extend([DENIED] * 1000)
    worker = world.worker(queues=[config_of("jobs", max_runtime=100)])
    world.run(2000)
    assert worker.exit is not None
    assert worker.exit.code == 1


def test_a_delete_refused_for_a_stale_receipt_leaves_the_message_and_the_queue_open() -> None:
    world = a_world("one", "two")
    world.faults["ack one"].errors.append(LeaseLostError("not the latest receipt"))
    worker = world.worker()
    world.run(90)
    assert ("one", "delete_failed") in worker.outcomes()
    assert world.left("jobs") == 0


def test_a_throttled_hide_is_tried_again() -> None:
    world = a_world("fails")
    world.conduct["fails"] = [raises(0.01, base_delay=1), Conduct()]
    world.faults["nack"].errors.extend([THROTTLED] * 3)
    world.worker()
    world.run(25)
    assert len(world.starts) == 2


def test_a_worker_told_to_exit_on_a_broken_queue_does_so_where_deletes_are_denied() -> None:
    world = a_world("one", "two")
    world.queue("other")
    world.faults["ack"].errors.extend([DENIED] * 1000)
    worker = world.worker(on_broken_queue="exit")
    world.run(40)
    assert worker.exit is not None
    assert worker.exit.code == 1


def test_a_second_delivery_before_a_hide_is_sent_is_hidden_with_the_first() -> None:
    world = a_world("fails")
    world.conduct["fails"] = [raises(0.1, base_delay=20, jitter=False), Conduct()]
    world.faults["nack"].errors.append(THROTTLED)
    world.worker(concurrency=4)
    world.run(0.4)
    world.show_again("jobs", "fails")
    world.run(60)
    first, second = world.starts
    assert second.at - first.at >= 20
