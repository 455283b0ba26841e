"""Splitting into batches."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from jobq.core.limits import LARGEST_BATCH_BYTES
from jobq.sqs.common.batches import by_count, take

sizes = st.lists(st.integers(1, LARGEST_BATCH_BYTES), max_size=60)


def _all(found: list[int]) -> list[list[int]]:
    waiting, batches = deque(range(len(found))), list[list[int]]()
    while batch := take(waiting, found):
        batches.append(batch)
    return batches


@given(sizes)
def test_batches_hold_every_position_once_and_in_order(found: list[int]) -> None:
    assert [position for batch in _all(found) for position in batch] == list(range(len(found)))


@given(sizes)
def test_a_batch_is_within_both_limits_and_as_full_as_they_allow(found: list[int]) -> None:
    batches = _all(found)
    for batch, following in zip(batches, [*batches[1:], []], strict=False):
        total = sum(found[position] for position in batch)
        assert len(batch) <= 10
        assert total <= LARGEST_BATCH_BYTES
        if following:
            assert len(batch) == 10 or total + found[following[0]] > LARGEST_BATCH_BYTES


def test_m3_25_messages_of_150_kb_are_split_by_bytes() -> None:
    assert [len(batch) for batch in _all([150_000] * 25)] == [6, 6, 6, 6, 1]


def test_what_is_skipped_takes_no_room() -> None:
    waiting = deque(range(30))
    assert take(waiting, [1] * 30, skip=lambda position: position % 2 == 0) == list(range(1, 20, 2))
    assert waiting[0] == 20


@given(st.integers(0, 60))
def test_counted_batches_cover_all_positions(total: int) -> None:
    batches = list(by_count(total))
    assert [position for batch in batches for position in batch] == list(range(total))
    assert all(0 < len(batch) <= 10 for batch in batches)
