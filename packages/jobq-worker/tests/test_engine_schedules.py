"""Schedules from fresh seeds, and from those that once went wrong, hold to DESIGN's statements."""

from __future__ import annotations

import random
import time

import pytest
from schedules import broken_by

# Each of these broke an invariant once, or a copy of it did.
ONCE_BROKEN = [0, 1, 5, 88, 299, 314]
BUDGET_SECONDS = 6


@pytest.mark.parametrize("seed", ONCE_BROKEN)
def test_a_schedule_that_once_broke_holds(seed: int) -> None:
    assert broken_by(seed) == []


def test_fresh_schedules_hold() -> None:
    first = random.SystemRandom().randrange(10**9)
    end = time.monotonic() + BUDGET_SECONDS
    told = 0
    while time.monotonic() < end:
        assert broken_by(first + told) == [], f"seed {first + told}"
        told += 1
    print(f"{told} schedules from seed {first}")
    assert told > 5
