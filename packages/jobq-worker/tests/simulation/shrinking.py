"""A plan with all left out that its breach doesn't need."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.plans import Plan

# Each try is a play of its own, of some ten milliseconds.
MOST_TRIES = 400


def shrunk(plan: Plan, breaks: Callable[[Plan], bool]) -> Plan:
    """The plan with the fewest moves that was found to break still."""
    tries = 0
    size = max(1, len(plan.moves) // 2)
    while size:
        first = 0
        while first < len(plan.moves) and tries < MOST_TRIES:
            tries += 1
            without = plan.moves[:first] + plan.moves[first + size :]
            smaller = replace(plan, moves=without)
            if breaks(smaller):
                plan = smaller
            else:
                first += size
        size //= 2
    return plan
