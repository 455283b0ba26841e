"""A server's faults are excused by name, and no longer than they last."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import pytest
from jobq.core.memory import ManualClock, MemoryQueue, MemoryServer
from jobq.core.testing.conformance import Excused, ManualTime, StandardConformance

class Forgetful(MemoryQueue):
    def publish(self, message):
        return "never sent"

class TestIt(StandardConformance):
    excused = (Excused("some server", "it forgets", tests={%r}, always=%s),)

    @pytest.fixture
    def make_queue(self):
        return lambda **options: %s(server=MemoryServer(clock=ManualClock()))

    @pytest.fixture
    def timeline(self):
        return ManualTime(ManualClock())
"""
NAME = "test_a_message_arrives_as_it_was_sent"


def run(
    pytester: pytest.Pytester, excused: str, queue: str, *, always: bool = True
) -> pytest.RunResult:
    pytester.makepyfile(SUITE % (excused, always, queue))
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-k", NAME, "-rx")


def test_an_excused_test_that_fails_is_expected_to(pytester: pytest.Pytester) -> None:
    result = run(pytester, NAME, "Forgetful")
    result.assert_outcomes(xfailed=1)
    result.stdout.fnmatch_lines(["*some server: it forgets*"])


def test_an_excused_test_that_passes_fails_the_run(pytester: pytest.Pytester) -> None:
    result = run(pytester, NAME, "MemoryQueue")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*XPASS(strict)*some server: it forgets*"])


@pytest.mark.parametrize(
    ("queue", "outcome"), [("MemoryQueue", "xpassed"), ("Forgetful", "xfailed")]
)
def test_a_fault_that_shows_now_and_then_is_excused_either_way(
    pytester: pytest.Pytester, queue: str, outcome: str
) -> None:
    result = run(pytester, NAME, queue, always=False)
    result.assert_outcomes(**{outcome: 1})


def test_an_excuse_for_a_test_that_is_not_there_fails_the_run(pytester: pytest.Pytester) -> None:
    result = run(pytester, "test_renamed_since", "MemoryQueue")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*not in the suite: *'test_renamed_since'*"])


def test_a_backend_without_an_excuse_has_to_pass(pytester: pytest.Pytester) -> None:
    result = run(pytester, "test_an_empty_queue_gives_nothing", "Forgetful")
    result.assert_outcomes(failed=1)
