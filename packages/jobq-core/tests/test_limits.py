"""What every queue and every group refuses by one rule; the conformance suite holds the rest."""

from __future__ import annotations

from typing import Any

import pytest

from jobq.core import (
    ConfigurationError,
    DelayTooLongError,
    InvalidMessageError,
    Message,
    UnsupportedFeatureError,
)
from jobq.core.limits import (
    FIFO,
    STANDARD,
    CheckedMessage,
    check_delay,
    check_ids,
    check_message,
    check_queue_name,
    check_receive,
    check_redrive,
    check_retry_delay,
    check_visibility,
)
from jobq.core.message import Attribute


def test_a_good_message_is_spelled_out_measured_and_its_delay_rounded_up() -> None:
    message = Message("é", attributes={"n": 1}, delay_seconds=0.2)

    assert check_message(message, fifo=False, max_bytes=10) == CheckedMessage(
        attributes={"n": Attribute("Number", "1")}, size=2 + 1 + 6 + 1, delay=1
    )


def test_the_two_kinds_differ_in_order_and_delays_alone() -> None:
    assert (STANDARD.ordered, STANDARD.delays) == (False, True)
    assert (FIFO.ordered, FIFO.delays) == (True, False)
    assert FIFO.largest_message == STANDARD.largest_message == 1_048_576
    assert FIFO.largest_batch == STANDARD.largest_batch == 10
    assert FIFO.longest_visibility == STANDARD.longest_visibility == 43_200


@pytest.mark.parametrize("seconds", [-1, float("nan"), "5", True, None])
def test_a_delay_that_is_no_time_is_invalid_on_both_kinds(seconds: Any) -> None:
    for fifo in (False, True):
        with pytest.raises(InvalidMessageError, match=f"0 or more seconds, not {seconds!r}"):
            check_delay(seconds, fifo=fifo)


def test_an_endless_delay_is_too_long() -> None:
    with pytest.raises(DelayTooLongError, match=r"inf.*900"):
        check_delay(float("inf"), fifo=False)


@pytest.mark.parametrize("value", ["", "a b", "a\n", "é", "x" * 129, 7, b"a"])
def test_an_id_is_refused_under_the_caller_s_name_for_it(value: Any) -> None:
    with pytest.raises(InvalidMessageError, match=r"^message_group_id is .* 1 to 128"):
        check_ids(value, None, fifo=False, prefix="message_")
    with pytest.raises(InvalidMessageError, match=r"^deduplication_id is .* 1 to 128"):
        check_ids("g", value, fifo=True)


def test_ids_that_a_kind_needs_or_does_not_take_are_named() -> None:
    with pytest.raises(InvalidMessageError, match=r"^message_group_id is None"):
        check_ids(None, None, fifo=True, prefix="message_")
    with pytest.raises(UnsupportedFeatureError, match=r"^message_deduplication_id is 'd'"):
        check_ids(None, "d", fifo=False, prefix="message_")
    check_ids("!~" * 64, "x" * 128, fifo=True)
    check_ids(None, None, fifo=False)


@pytest.mark.parametrize(("seconds", "whole"), [(0, 0), (0.1, 1), (43_199.5, 43_200)])
def test_a_delay_of_what_is_given_back_is_rounded_up(seconds: float, whole: int) -> None:
    assert check_retry_delay(seconds) == whole


@pytest.mark.parametrize("seconds", [-1, 43_201, float("nan"), "5", True, None])
def test_a_visibility_or_a_wait_that_is_none_is_refused(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"0 to 43200 seconds, not {seconds!r}"):
        check_visibility(seconds)
    with pytest.raises(ConfigurationError, match=f"0 to 20 seconds, not {seconds!r}"):
        check_receive(1, seconds, 0)


@pytest.mark.parametrize("count", [0, 1.5, "1", True, None])
def test_a_receive_asks_for_a_whole_number_of_messages(count: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"at least 1, not {count!r}"):
        check_receive(count, 0, 0)


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 80, "a.fifo", "x" * 75 + ".fifo"])
def test_a_queue_name_may_hold_what_sqs_takes(name: str) -> None:
    check_queue_name(name)


@pytest.mark.parametrize("name", ["", ".fifo", "a.b", "a b", "ä", "x" * 81, "x" * 76 + ".fifo"])
def test_a_queue_name_may_hold_nothing_else(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name!r}: SQS takes 1 to 80"):
        check_queue_name(name)


@pytest.mark.parametrize(
    ("dead_letter_queue", "max_receive_count"),
    [("dead.fifo", 1), ("arn:aws:sqs:r:1:dead.fifo", 1000), ("https://sqs/1/dead.fifo", 3)],
)
def test_a_redrive_policy_names_a_queue_of_the_kind(
    dead_letter_queue: str, max_receive_count: int
) -> None:
    check_redrive(
        "jobs.fifo", dead_letter_queue=dead_letter_queue, max_receive_count=max_receive_count
    )
