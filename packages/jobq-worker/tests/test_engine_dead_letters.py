"""How a message that is given up goes to the dead-letter queue, or nowhere: statements 1, 5, 9."""

from __future__ import annotations

import itertools

import pytest
from driven import DENIED, GIVES_UP, OUTAGE, Driven, raised

from jobq.core import InvalidMessageError, LeaseLostError
from jobq.worker.engine.commands import (
    Ack,
    DeadLetter,
    Exit,
    Extend,
    JobDiscarded,
    JobEnded,
    Nack,
    Notice,
    Receive,
    Run,
)
from jobq.worker.engine.events import Finished, Postponed, Received, StopRequested, Succeeded


def test_an_exhausted_message_is_deleted_once_its_copy_was_accepted_and_not_before() -> None:
    driven = Driven()
    driven.exhaust()
    assert [one.message_id for one in driven.last(DeadLetter).leases] == ["one"]
    driven.wait(5)
    assert driven.all(Ack) == []
    driven.answer_copy(None)
    assert [one.message_id for one in driven.last(Ack).leases] == ["one"]
    assert driven.outcomes() == []
    driven.answer_delete(None)
    assert driven.outcomes() == [("one", "exhausted")]
    assert len(driven.all(DeadLetter)) == 1


@pytest.mark.parametrize("receive_count", [1, 2])
def test_attempts_are_receives_and_before_the_last_one_the_message_is_retried(
    receive_count: int,
) -> None:
    driven = Driven()
    driven.exhaust(receive_count=receive_count)
    assert driven.all(DeadLetter) == []
    assert driven.outcomes() == [("one", "retry")]


def test_a_message_received_more_often_than_allowed_still_runs_first() -> None:
    driven = Driven()
    driven.receive("one", receive_count=9)
    driven.finish(Succeeded())
    driven.answer_delete(None)
    assert driven.outcomes() == [("one", "success")]


def test_a_message_postponed_by_its_handler_is_never_exhausted() -> None:
    driven = Driven()
    driven.receive("one", receive_count=9)
    driven.finish(Postponed(5))
    assert driven.all(DeadLetter) == []
    assert driven.last(Nack).delay == 5


def test_several_copies_go_in_one_call_and_are_answered_one_by_one() -> None:
    driven = Driven(concurrency=3)
    driven.receive("a", "b", "c")
    driven.tell(*(Finished(run.key, GIVES_UP, driven.now) for run in driven.all(Run)))
    assert [one.message_id for one in driven.last(DeadLetter).leases] == ["a", "b", "c"]
    driven.answer_copy(None, DENIED, None)
    assert [one.message_id for one in driven.last(Ack).leases] == ["a", "c"]
    assert driven.outcomes() == [("b", "exhausted")]


@pytest.mark.parametrize("error", [DENIED, InvalidMessageError("eleven attributes")])
def test_a_message_whose_copy_is_refused_for_good_is_left(error: Exception) -> None:
    driven = Driven()
    driven.exhaust()
    driven.answer_copy(error)
    driven.wait(29)
    assert driven.outcomes() == [("one", "exhausted")]
    assert (driven.all(Ack), driven.all(Nack), driven.all(Extend)) == ([], [], [])
    failed = next(one for one in driven.all(Notice) if one.event == "dead_letter_failed")
    assert failed.level == "error"
    assert failed.fields == {"queue": "jobs", "message_id": "one", "error": str(error)}


def test_a_send_that_may_succeed_later_is_tried_again_on_a_backoff_under_the_heartbeat() -> None:
    driven = Driven()
    driven.exhaust()
    times = [driven.now]
    for _ in range(4):
        driven.answer_copy(OUTAGE)
        tries = len(driven.all(DeadLetter))
        while len(driven.all(DeadLetter)) == tries:
            driven.wait(0.5)
        times.append(driven.now)
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert gaps == pytest.approx([1, 2, 4, 8], abs=0.51)
    assert driven.all(Extend)
    driven.answer_copy(None)
    assert driven.all(Ack)
    assert "dead_letter_failed" not in driven.notices()


def test_the_engine_asks_to_be_woken_for_the_next_try() -> None:
    driven = Driven()
    driven.exhaust()
    driven.stop_receiving()
    driven.answer_copy(OUTAGE)
    assert driven.engine.wake_at() == driven.now + 1


def test_after_five_tries_the_message_is_left() -> None:
    driven = Driven()
    driven.exhaust()
    for _ in range(5):
        driven.answer_copy(OUTAGE)
        driven.wait(8)
    assert len(driven.all(DeadLetter)) == 5
    assert driven.outcomes() == [("one", "exhausted")]
    assert driven.notices().count("dead_letter_failed") == 1


def test_no_copy_is_sent_on_a_lease_that_may_have_run_out() -> None:
    driven = Driven(extends=False)
    driven.receive("one")
    driven.wait(25)
    driven.now += 6  # the process stood still, and nothing was extended
    driven.finish(GIVES_UP)
    assert driven.all(DeadLetter) == []
    assert driven.outcomes() == [("one", "heartbeat_failed")]


def test_a_message_whose_lease_runs_out_between_two_tries_is_left() -> None:
    driven = Driven(extends=False)
    driven.exhaust()
    driven.wait(29)
    driven.answer_copy(OUTAGE)
    driven.wait(3)
    assert len(driven.all(DeadLetter)) == 1
    assert driven.outcomes() == [("one", "exhausted")]
    assert "dead_letter_failed" in driven.notices()
    assert driven.all(Ack) == []


def test_a_copy_accepted_after_the_lease_ran_out_deletes_nothing() -> None:
    driven = Driven(extends=False)
    driven.exhaust()
    driven.wait(31)
    driven.answer_copy(None)
    driven.wait(5)
    assert driven.all(Ack) == []
    assert driven.outcomes() == [("one", "exhausted")]


def test_each_copy_that_was_accepted_is_named_whatever_became_of_its_lease() -> None:
    for seconds in (1, 31):
        driven = Driven(extends=False)
        driven.exhaust()
        driven.wait(seconds)
        driven.answer_copy(None)
        said = [one.fields for one in driven.all(Notice) if one.event == "message_dead_lettered"]
        assert [(one["queue"], one["message_id"]) for one in said] == [("jobs", "one")]


def test_a_lease_that_a_busy_thread_found_run_out_is_tried_again_while_it_was_extended() -> None:
    driven = Driven()
    driven.exhaust()
    driven.answer_copy(LeaseLostError("ran out 1 s ago"))
    driven.wait(2)
    assert len(driven.all(DeadLetter)) == 2


def test_a_delete_that_fails_after_the_copy_is_tried_again_alone() -> None:
    driven = Driven()
    driven.exhaust()
    driven.answer_copy(None)
    driven.answer_delete(OUTAGE)
    driven.wait(3)
    assert len(driven.all(Ack)) == 2
    driven.answer_delete(None)
    assert len(driven.all(DeadLetter)) == 1
    assert driven.outcomes() == [("one", "exhausted")]


def test_a_delete_that_can_not_be_done_after_the_copy_ends_as_delete_failed() -> None:
    driven = Driven()
    driven.exhaust()
    driven.answer_copy(None)
    driven.answer_delete(LeaseLostError("not the latest receipt"))
    ended = driven.last(JobEnded)
    assert (ended.outcome, ended.processing_outcome) == ("delete_failed", "exhausted")


def test_a_second_delivery_while_the_copy_is_out_sends_no_second_copy() -> None:
    driven = Driven(concurrency=2)
    driven.exhaust()
    driven.wait(1)
    driven.receive("one", receive_count=4)
    driven.answer_copy(None)
    assert driven.last(Ack).leases[0].receipt == "one1.0"
    driven.answer_delete(None)
    assert len(driven.all(DeadLetter)) == 1
    assert len(driven.all(Run)) == 1


def test_the_next_of_a_group_starts_only_once_the_exhausted_one_is_confirmed_deleted() -> None:
    driven = Driven(ordered=True, concurrency=4)
    driven.receive("1", "2", group_id="g")
    driven.finish(GIVES_UP)
    driven.wait(1)
    driven.answer_copy(OUTAGE)
    driven.wait(2)
    driven.answer_copy(None)
    driven.wait(1)
    assert [run.lease.message_id for run in driven.all(Run)] == ["1"]
    driven.answer_delete(None)
    assert [run.lease.message_id for run in driven.all(Run)] == ["1", "2"]


def test_when_a_copy_can_not_be_sent_the_rest_of_its_group_is_given_back_unrun() -> None:
    driven = Driven(ordered=True, concurrency=4)
    driven.receive("1", "2", "3", group_id="g")
    driven.finish(GIVES_UP)
    driven.answer_copy(DENIED)
    driven.wait(5)
    assert [one.message_id for one in driven.last(Nack).leases] == ["2", "3"]
    assert [run.lease.message_id for run in driven.all(Run)] == ["1"]


def test_a_stop_waits_for_the_copy_and_the_delete() -> None:
    driven = Driven()
    driven.exhaust()
    driven.tell(StopRequested())
    driven.tell(Received(driven.last(Receive).poll))
    assert driven.all(Exit) == []
    driven.answer_copy(None)
    driven.answer_delete(None)
    assert driven.last(Exit).code == 0


def test_a_stop_that_runs_out_of_time_leaves_what_was_not_copied() -> None:
    driven = Driven(shutdown_timeout=5)
    driven.exhaust()
    driven.tell(StopRequested())
    driven.wait(6)
    assert driven.last(Exit).code == 1
    assert driven.outcomes() == [("one", "exhausted")]
    assert driven.all(Ack) == []


def test_a_malformed_message_is_copied_then_deleted_and_counts_as_refused() -> None:
    driven = Driven(on_malformed="dead_letter")
    driven.receive("malformed", receive_count=1)
    assert driven.all(Run) == []
    assert [one.message_id for one in driven.last(DeadLetter).leases] == ["malformed"]
    driven.answer_copy(None)
    driven.answer_delete(None)
    assert driven.outcomes() == [("malformed", "malformed")]
    driven.tell(StopRequested())
    driven.tell(*(Received(poll) for poll in list(driven.engine.state.polls)))
    assert driven.last(Exit).accounts.refused == 1


def test_a_malformed_message_that_can_not_be_copied_is_left_and_the_worker_goes_on() -> None:
    driven = Driven(on_malformed="dead_letter")
    driven.receive("malformed", receive_count=1)
    driven.answer_copy(DENIED)
    driven.receive("good", receive_count=1)
    assert [run.lease.message_id for run in driven.all(Run)] == ["good"]
    assert driven.outcomes() == [("malformed", "malformed")]


def test_discard_says_what_is_deleted_before_it_is() -> None:
    driven = Driven()
    driven.receive("one")
    driven.finish(raised(max_attempts=3, when_exhausted="discard"))
    discarded, deleted = driven.last(JobDiscarded), driven.last(Ack)
    assert driven.new.index(discarded) < driven.new.index(deleted)
    driven.answer_delete(None)
    assert driven.outcomes() == [("one", "exhausted")]
    assert driven.all(DeadLetter) == []


def test_redrive_leaves_an_exhausted_message_as_a_failed_one() -> None:
    driven = Driven()
    driven.receive("one")
    driven.finish(raised(max_attempts=3, base_delay=7, jitter=False))
    assert driven.last(Nack).delay == 28
    assert driven.last(Nack).leases[0].message_id == "one"
    assert driven.all(DeadLetter) == []
