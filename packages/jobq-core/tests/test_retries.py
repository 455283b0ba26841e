"""Retry policies: the nearest counts field by field, and delays grow to a cap."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.core import ConfigurationError, DelayTooLongError, RetryAfter, RetryPolicy
from jobq.core.retries import DEFAULT_RETRY, retry_delay


def test_the_nearest_policy_counts_field_by_field() -> None:
    handlers = RetryPolicy(max_attempts=2)
    queues = RetryPolicy(max_attempts=9, base_delay=1.5, jitter=False)

    assert handlers.over(queues).over(None).over(DEFAULT_RETRY) == RetryPolicy(
        max_attempts=2, base_delay=1.5, max_delay=900, jitter=False, when_exhausted="redrive"
    )


def test_a_value_that_is_falsy_still_counts() -> None:
    assert RetryPolicy(base_delay=0, jitter=False).over(
        RetryPolicy(base_delay=5, jitter=True)
    ) == RetryPolicy(base_delay=0, jitter=False)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"max_attempts": 0}, "max_attempts must be a whole number, at least 1, not 0"),
        ({"max_attempts": "3"}, "not '3'"),
        ({"max_attempts": 2.0}, "not 2.0"),
        ({"max_attempts": True}, "not True"),
        ({"base_delay": -1}, "base_delay must be 0 or more seconds, not -1"),
        ({"base_delay": "1"}, "base_delay must be a number of seconds, not '1'"),
        ({"max_delay": float("nan")}, "max_delay must be"),
        ({"jitter": "no"}, "jitter must be True or False, not 'no'"),
        ({"when_exhausted": "drop"}, "redrive, dead_letter, discard, not 'drop'"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(fields: Any, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        RetryPolicy(**fields)


@pytest.mark.parametrize("field", ["base_delay", "max_delay"])
@pytest.mark.parametrize("seconds", [43_201, float("inf")])
def test_m7_a_delay_over_twelve_hours_is_refused_where_it_is_made(
    field: str, seconds: float
) -> None:
    fields: dict[str, Any] = {field: seconds}
    with pytest.raises(DelayTooLongError, match=f"{field} is {seconds}.* 43200 s at most"):
        RetryPolicy(**fields)


def test_delays_double_from_the_base_to_the_cap() -> None:
    policy = RetryPolicy(base_delay=1, max_delay=20, jitter=False)

    assert [retry_delay(policy, receive_count=n, random=0.5) for n in range(1, 8)] == [
        1, 2, 4, 8, 16, 20, 20,
    ]  # fmt: skip


def test_without_a_cap_of_its_own_a_delay_ends_at_900_seconds() -> None:
    policy = RetryPolicy(base_delay=1, jitter=False)
    assert retry_delay(policy, receive_count=30, random=0) == 900


@given(
    st.floats(0, 43_200),
    st.floats(0, 43_200),
    st.integers(0, 10**6),
    st.floats(0, 1),
)
def test_a_delay_is_whole_seconds_from_one_to_the_longest(
    base: float, cap: float, receives: int, random: float
) -> None:
    policy = RetryPolicy(base_delay=base, max_delay=cap)
    delay = retry_delay(policy, receive_count=receives, random=random)

    assert isinstance(delay, int)
    assert 1 <= delay <= 43_200


@given(st.integers(1, 12), st.floats(0, 1))
def test_jitter_takes_at_most_half_of_a_delay(receives: int, random: float) -> None:
    plain = retry_delay(
        RetryPolicy(base_delay=3, jitter=False), receive_count=receives, random=random
    )
    jittered = retry_delay(RetryPolicy(base_delay=3), receive_count=receives, random=random)

    assert plain is not None
    assert jittered is not None
    assert plain / 2 <= jittered <= plain


def test_without_a_base_delay_the_visibility_timeout_decides() -> None:
    assert retry_delay(DEFAULT_RETRY, receive_count=3, random=0.5) is None


@pytest.mark.parametrize("seconds", [43_201, float("inf")])
def test_m7_retry_after_takes_no_more_than_twelve_hours(seconds: float) -> None:
    with pytest.raises(DelayTooLongError, match=f"{seconds} s, .* 43200 s at most: send a new"):
        RetryAfter(seconds)


@pytest.mark.parametrize("seconds", [-1, float("nan"), "5", True])
def test_retry_after_takes_seconds(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"RetryAfter's delay must be .*, not {seconds!r}"):
        RetryAfter(seconds)


def test_retry_after_keeps_its_seconds_and_reason() -> None:
    assert RetryAfter(43_200, "quota").seconds == 43_200
    assert str(RetryAfter(5, "quota")) == "quota"
