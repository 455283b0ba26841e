"""What happens where messages may not be deleted: statement 8."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from driven import DENIED, OUTAGE, Driven

from jobq.core import BackendError, LeaseLostError, QueueNotFoundError
from jobq.worker.engine.commands import Ack, AnnounceStop, DeadLetter, Exit, Extend, JobEnded, Nack
from jobq.worker.engine.events import Postponed, Received, ReceiveFailed, Settled, Succeeded

EXPIRED = BackendError("ExpiredToken", denied=True, retryable=True)


def outage() -> BackendError:
    """An error of its own for each entry, as a batch reply has them."""
    return BackendError("InternalError", retryable=True)


def busy(count: int, *, concurrency: int | None = None, **options: Any) -> Driven:
    """A worker with so many jobs done whose deletes are out."""
    driven = Driven(concurrency=concurrency or count, **options)
    driven.work(count)
    return driven


def test_one_delete_refused_for_want_of_permission_closes_the_queue() -> None:
    driven = busy(1)
    driven.answer_delete(DENIED)
    assert "queue_closed" in driven.notices()
    driven.stop_receiving()
    driven.wait(25)
    assert driven.polls() == []


def test_expired_credentials_are_no_want_of_permission() -> None:
    driven = busy(1)
    driven.answer_delete(EXPIRED)
    assert "queue_closed" not in driven.notices()


def test_ten_deletes_refused_one_after_another_close_the_queue() -> None:
    driven = Driven()
    for n in range(10):
        assert "queue_closed" not in driven.notices()
        driven.work(1, first=n)
        driven.answer_delete(outage())
        driven.now += 0.1
    assert driven.notices().count("queue_closed") == 1


def test_ten_refused_entries_of_one_batch_close_the_queue_when_the_next_is_refused_too() -> None:
    driven = busy(10)
    driven.answer_delete(*(outage() for _ in range(10)))
    assert "queue_closed" not in driven.notices(), "one moment may be one hiccup"
    driven.wait(1.1)
    driven.answer_delete(*(outage() for _ in range(10)))
    assert "queue_closed" in driven.notices()


def test_one_hiccup_of_many_single_deletes_closes_nothing() -> None:
    driven = Driven(ordered=True, concurrency=20)
    driven.receive(*(f"m{n}" for n in range(20)), group_ids=True)
    driven.finish_all(Succeeded())
    calls = driven.all(Ack)
    assert len(calls) > 1
    driven.now += 0.1
    for call in calls:
        driven.tell(Settled(call.call, tuple(outage() for _ in call.leases)))
    assert "queue_closed" not in driven.notices()


def test_a_success_in_between_starts_the_count_anew() -> None:
    driven = Driven()
    for n in range(30):
        driven.work(1, first=n)
        driven.answer_delete(None if n % 9 == 8 else BackendError("bad request"))
        driven.now += 0.1
    assert "queue_closed" not in driven.notices()


def test_a_success_in_the_middle_of_a_batch_starts_the_count_anew() -> None:
    driven = busy(10)
    driven.answer_delete(*(outage() for _ in range(9)), None)
    driven.wait(1.1)
    driven.answer_delete(*(outage() for _ in range(5)), None, *(outage() for _ in range(3)))
    driven.wait(2.1)
    driven.answer_delete(*(outage() for _ in range(6)), None, outage())
    assert "queue_closed" not in driven.notices()


def test_what_was_refused_before_a_success_in_the_same_batch_counts_no_more() -> None:
    driven = busy(10)
    driven.answer_delete(*(outage() for _ in range(9)), None)
    driven.wait(1.1)
    driven.answer_delete(*(outage() for _ in range(9)))
    assert "queue_closed" not in driven.notices()


def test_receipts_that_are_no_longer_good_count_neither_way() -> None:
    driven = busy(10)
    driven.answer_delete(*(LeaseLostError("not the latest") for _ in range(10)))
    driven.work(1, first=10)
    driven.answer_delete(LeaseLostError("not the latest"))
    assert "queue_closed" not in driven.notices()
    assert {outcome for _, outcome in driven.outcomes()} == {"delete_failed"}


def test_a_queue_that_is_gone_is_not_closed_so_that_it_is_served_once_it_is_made_again() -> None:
    driven = Driven()
    for n in range(12):
        driven.work(1, first=n)
        driven.answer_delete(QueueNotFoundError("no such queue"))
        driven.now += 0.1
    assert "queue_closed" not in driven.notices()
    assert driven.polls() != []


def test_what_was_refused_is_tried_again_on_the_backoff_under_the_heartbeat() -> None:
    driven = busy(1)
    times = [driven.now]
    for _ in range(7):
        driven.answer_delete(DENIED)
        tries = len(driven.all(Ack))
        while len(driven.all(Ack)) == tries:
            driven.wait(0.5)
        times.append(driven.now)
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert gaps == pytest.approx([1, 2, 4, 8, 16, 30, 30], abs=0.51)
    assert driven.all(Extend)


def test_a_hide_that_succeeds_does_not_hurry_refused_deletes() -> None:
    driven = busy(1)
    for _ in range(4):
        driven.answer_delete(DENIED)
        driven.wait(9)
    driven.answer_delete(DENIED)
    driven.receive("later")
    driven.finish(Postponed(5))
    driven.tell(Settled(driven.last(Nack).call, (None,)))
    tries = len(driven.all(Ack))
    driven.wait(15)
    assert len(driven.all(Ack)) == tries


def test_the_first_success_opens_the_queue() -> None:
    driven = busy(2)
    driven.answer_delete(DENIED, DENIED)
    driven.stop_receiving()
    driven.wait(1.1)
    driven.answer_delete(None, DENIED)
    assert "queue_reopened" in driven.notices()
    assert driven.polls() == [], "it is closed again by the second"
    driven.wait(2.1)
    driven.answer_delete(None)
    driven.wait(1)
    assert driven.polls() != []


def test_a_delete_that_succeeds_with_an_older_receipt_opens_the_queue() -> None:
    driven = busy(1)
    driven.answer_delete(DENIED)
    driven.wait(1.1)
    driven.receive("m0")
    assert "queue_reopened" not in driven.notices()
    driven.answer_delete(None)
    assert "queue_reopened" in driven.notices()
    assert driven.outcomes() == [], "its newer receipt is to be deleted yet"


def test_what_came_while_a_queue_was_closed_makes_it_no_busy_one_when_it_opens() -> None:
    driven = busy(1, concurrency=8)
    driven.receive("m1")
    driven.answer_delete(DENIED)
    driven.receive("late")
    driven.stop_receiving()
    driven.wait(1.1)
    driven.answer_deletes(None)
    assert "queue_reopened" in driven.notices()
    assert len(driven.polls()) == 1


def test_when_the_last_has_run_out_the_queue_stays_closed_and_the_others_are_served() -> None:
    driven = busy(2, more_queues=["other"], max_runtime=60)
    driven.answer_delete(DENIED, DENIED)
    driven.stop_receiving()
    while not driven.all(JobEnded):
        driven.wait(1)
        driven.answer_deletes(DENIED)
    assert driven.now > 60
    driven.wait(1)
    ended = driven.all(JobEnded)
    assert [(one.outcome, one.processing_outcome) for one in ended] == [
        ("delete_failed", "success"),
        ("delete_failed", "success"),
    ]
    assert driven.notices().count("queue_stays_closed") == 1
    driven.wait(600)
    assert driven.all(Exit) == []
    assert {poll.queue for poll in driven.polls()} == {"other"}


def test_a_worker_with_no_other_queue_ends_with_1_when_the_last_has_run_out() -> None:
    driven = busy(1, max_runtime=60)
    driven.answer_delete(DENIED)
    driven.stop_receiving()
    driven.wait_for_exit(DENIED)
    assert driven.now > 60
    assert driven.last(Exit).code == 1
    assert driven.outcomes() == [("m0", "delete_failed")]


def test_another_queue_that_has_failed_ten_times_is_none_to_serve() -> None:
    driven = busy(1, more_queues=["other"], max_runtime=60)
    driven.answer_delete(DENIED)
    driven.stop_receiving()
    for _ in range(500):
        driven.answer_deletes(DENIED)
        for poll in driven.polls():
            driven.tell(ReceiveFailed(poll.poll, OUTAGE))
        driven.wait(1)
    assert driven.last(Exit).code == 1


def test_while_a_job_of_a_queue_that_fails_beside_it_runs_that_one_is_finished() -> None:
    driven = busy(2, more_queues=["other"], max_runtime=60)
    driven.answer_delete(DENIED, DENIED)
    driven.stop_receiving()
    while len(driven.all(JobEnded)) < 2:
        driven.answer_deletes(DENIED)
        driven.wait(1)
    driven.receive("runs on", queue="other")
    while not driven.all(AnnounceStop):
        assert driven.now < 1000
        for poll in driven.polls():
            driven.tell(ReceiveFailed(poll.poll, OUTAGE))
        driven.wait(1)
    assert driven.all(Exit) == []
    driven.finish(Succeeded())
    driven.answer_delete(None)
    assert driven.last(Exit).code == 1


def test_told_to_exit_a_worker_stops_as_soon_as_a_queue_closes() -> None:
    driven = busy(2, more_queues=["other"], on_broken_queue="exit")
    driven.answer_delete(None, DENIED)
    for poll in driven.polls():
        driven.tell(Received(poll.poll))
    assert driven.all(Exit) == [], "what was refused may still be deleted"
    driven.wait(26)
    assert driven.last(Exit).code == 1


def test_told_to_exit_a_worker_survives_one_hiccup() -> None:
    driven = busy(10, on_broken_queue="exit")
    driven.answer_delete(*[OUTAGE] * 10)
    driven.wait(1.1)
    driven.answer_delete(*[None] * 10)
    driven.wait(60)
    assert driven.all(Exit) == []


def test_a_burst_ends_with_1_where_a_queue_stays_closed() -> None:
    driven = busy(1, more_queues=["other"], burst=True, max_runtime=60)
    driven.wait_for_exit(DENIED)
    assert driven.last(Exit).code == 1


def test_a_closed_queue_keeps_no_room_from_its_neighbours() -> None:
    driven = busy(1, more_queues=["other"])
    driven.answer_delete(DENIED)
    driven.receive("late")
    driven.finish(Succeeded())
    driven.receive("one", queue="other")
    driven.finish(Succeeded())
    (poll,) = driven.polls()
    assert (poll.queue, poll.wait) == ("other", 20)


def test_a_copy_that_was_accepted_is_not_sent_again_while_its_delete_is_refused() -> None:
    driven = Driven(max_runtime=60)
    driven.exhaust()
    driven.answer_copy(None)
    driven.wait_for_exit(DENIED)
    assert len(driven.all(DeadLetter)) == 1
    ended = driven.last(JobEnded)
    assert (ended.outcome, ended.processing_outcome) == ("delete_failed", "exhausted")
