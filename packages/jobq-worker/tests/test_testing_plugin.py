"""The pytest plugin of jobq-worker, as a test run sees it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import jobq.worker.testing

pytest_plugins = ["pytester"]

LATE = (
    "jobq.core.memory",
    "jobq.core.testing.job_queues",
    "jobq.core.testing.async_job_queues",
    "jobq.worker.testing.run_jobs",
    "jobq.worker.testing.burst",
    "jobq.worker.testing.inline",
    "structlog",
    "rich",
    "click",
)


def test_what_no_test_uses_is_not_loaded() -> None:
    code = (
        "import sys, jobq.worker.testing.plugin; "
        f"print([name for name in {LATE!r} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_the_names_are_there_when_they_are_asked_for() -> None:
    names = jobq.worker.testing.__all__
    assert names == sorted(names)
    assert [getattr(jobq.worker.testing, name).__name__ for name in names] == names
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        jobq.worker.testing.nothing  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def test_a_users_test_has_the_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        from jobq.core import RetryPolicy

        def test_it(job_queues, run_jobs):
            calls = []

            def greet(payload):
                calls.append(payload)
                if len(calls) == 1:
                    raise ConnectionError("try again")

            job_queues.enqueue("default", "greet", {"who": "you"})
            retry = RetryPolicy(base_delay=3600, max_delay=7200)
            ran = run_jobs({"greet": greet}, retry=retry)
            assert ran.outcomes == [("greet", "retry"), ("greet", "success")]
            assert ran.runs[1].at == 3600
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_a_failed_job_draws_no_variables_on_the_screen() -> None:
    code = """
from jobq.core.testing.job_queues import JobQueues
from jobq.worker.testing import InlineQueueGroup, RunJobs
import structlog

def greet(payload):
    token = payload["token"]
    raise ValueError("no")

before = list(structlog.get_config()["processors"])
queues = JobQueues()
queues.enqueue("default", "greet", {"token": "hush"})
RunJobs(queues)({"greet": greet}, seconds=5)
try:
    InlineQueueGroup({"greet": greet}).enqueue("default", "greet", {"token": "hush"})
except ValueError:
    pass
assert structlog.get_config()["processors"] == before
assert not structlog.is_configured()
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.count("ValueError: no") == 2
    assert "hush" not in out.stdout
