"""What a worker makes of receives that fail, poll by poll: statement 21."""

from __future__ import annotations

import itertools

import pytest
from driven import DENIED, OUTAGE, Driven

from jobq.core import BackendError, QueueNotFoundError
from jobq.worker.engine.commands import AnnounceStop, Exit, Notice
from jobq.worker.engine.events import Received, ReceiveFailed, StopRequested, Succeeded

MISSING = QueueNotFoundError("no such queue: create it")
EXPIRED = BackendError("ExpiredToken: they are read again", denied=True, retryable=True)

broken = pytest.mark.parametrize("error", [MISSING, DENIED])
passing = pytest.mark.parametrize("error", [OUTAGE, EXPIRED, BackendError("bad request")])


def fail(driven: Driven, error: BackendError, queue: str = "jobs") -> None:
    """The receive of a queue that is out fails, after the wait for its turn."""
    while not (polls := [poll for poll in driven.polls() if poll.queue == queue]):
        driven.wait(0.1)
    driven.tell(ReceiveFailed(polls[0].poll, error))


def answer(driven: Driven, queue: str = "jobs") -> None:
    (poll,) = [poll for poll in driven.polls() if poll.queue == queue]
    driven.now += poll.wait
    driven.tell(Received(poll.poll))


@broken
def test_a_queue_broken_at_the_start_ends_the_worker_at_once_with_what_was_said(
    error: BackendError,
) -> None:
    driven = Driven(more_queues=["other"])
    fail(driven, error)
    assert driven.all(AnnounceStop)
    stopping = driven.last(Notice)
    assert (stopping.level, stopping.fields["reason"]) == ("error", str(error))
    answer(driven, "other")
    assert driven.last(Exit).code == 1


@passing
def test_what_may_pass_ends_no_worker_at_its_start(error: BackendError) -> None:
    driven = Driven(on_broken_queue="exit")
    fail(driven, error)
    driven.wait(5)
    assert driven.all(AnnounceStop) == []


@broken
def test_a_queue_broken_later_is_backed_off_from_unless_told_to_exit(error: BackendError) -> None:
    driven = Driven(more_queues=["other"])
    answer(driven)
    fail(driven, error)
    driven.wait(5)
    assert driven.all(AnnounceStop) == []
    driven = Driven(more_queues=["other"], on_broken_queue="exit")
    answer(driven)
    fail(driven, error)
    assert driven.all(AnnounceStop)


@passing
def test_told_to_exit_a_worker_still_backs_off_from_what_may_pass(error: BackendError) -> None:
    driven = Driven(on_broken_queue="exit")
    answer(driven)
    for _ in range(9):
        fail(driven, error)
    assert driven.all(AnnounceStop) == []


def test_a_queue_is_asked_again_after_1_s_doubling_to_30_whatever_its_neighbour_does() -> None:
    driven = Driven(more_queues=["other"])
    answer(driven)
    times: list[float] = []
    for _ in range(8):
        fail(driven, MISSING)
        times.append(driven.now)
        (neighbour,) = [poll for poll in driven.polls() if poll.queue == "other"]
        driven.tell(Received(neighbour.poll))
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert gaps == pytest.approx([1, 2, 4, 8, 16, 30, 30], abs=0.11)


def test_jitter_halves_a_backoff_at_most() -> None:
    driven = Driven(random=0.0)
    fail(driven, OUTAGE)
    driven.wait(0.49)
    assert driven.polls() == []
    driven.wait(0.02)
    assert driven.polls() != []


def test_an_answer_ends_the_backoff_and_its_count() -> None:
    driven = Driven()
    for _ in range(9):
        fail(driven, OUTAGE)
    driven.wait(31)
    answer(driven)
    for _ in range(9):
        fail(driven, OUTAGE)
    assert driven.all(AnnounceStop) == []
    driven.wait(31)
    answer(driven)
    fail(driven, OUTAGE)
    before = driven.now
    fail(driven, OUTAGE)
    assert driven.now - before == pytest.approx(1, abs=0.11)


def test_when_the_last_queue_failed_ten_times_what_runs_is_finished_and_the_end_is_1() -> None:
    driven = Driven(more_queues=["other"], concurrency=2)
    driven.receive("runs on")
    for _ in range(10):
        fail(driven, OUTAGE)
    for _ in range(9):
        fail(driven, OUTAGE, "other")
    assert driven.all(AnnounceStop) == []
    fail(driven, OUTAGE, "other")
    assert driven.all(AnnounceStop)
    for poll in driven.polls():
        driven.tell(Received(poll.poll))
    assert driven.all(Exit) == []
    driven.finish(Succeeded())
    driven.answer_delete(None)
    assert driven.last(Exit).code == 1


def test_a_queue_that_fails_beside_a_healthy_one_never_ends_the_worker() -> None:
    driven = Driven(more_queues=["other"])
    answer(driven)
    for _ in range(50):
        fail(driven, MISSING)
    assert driven.all(AnnounceStop) == []


def test_a_failure_during_a_stop_ends_nothing_twice_and_is_no_error_of_the_stop() -> None:
    driven = Driven()
    driven.receive("one")
    driven.tell(StopRequested())
    for poll in driven.polls():
        driven.tell(ReceiveFailed(poll.poll, OUTAGE))
    driven.finish(Succeeded())
    driven.answer_delete(None)
    assert len(driven.all(AnnounceStop)) == 1
    assert driven.last(Exit).code == 0
