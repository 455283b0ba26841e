"""Faults of a server, named; never a weaker assertion."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Excused:
    """Tests that a server fails through a fault of its own.

    They run as strict xfails: one that passes fails the run, so that the excuse goes when the
    fault does, unless the fault shows only now and then: with `always=False` they may pass. A test
    is named by its function, or with its parameter: `test_x[empty body]`.
    """

    server: str
    reason: str
    tests: AbstractSet[str]
    always: bool = True

    def covers(self, name: str, function: str) -> bool:
        return bool({name, function} & self.tests)

    def unknown(self, suite: type) -> list[str]:
        """Names of tests that the suite doesn't have."""
        return sorted(t for t in self.tests if not hasattr(suite, t.partition("[")[0]))
