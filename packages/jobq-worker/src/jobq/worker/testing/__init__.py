"""Test support: the fixtures `run_jobs` and `run_jobs_async` (a pytest plugin), and a group that
runs each job inside `enqueue`.

What is named here is imported when it is first asked for, so that the plugin costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobq.worker.testing.inline import InlineQueueGroup
    from jobq.worker.testing.outcomes import JobRun, JobRuns
    from jobq.worker.testing.run_jobs import AsyncRunJobs, RunJobs

__all__ = ["AsyncRunJobs", "InlineQueueGroup", "JobRun", "JobRuns", "RunJobs"]

_HOMES = {
    "AsyncRunJobs": "run_jobs",
    "InlineQueueGroup": "inline",
    "JobRun": "outcomes",
    "JobRuns": "outcomes",
    "RunJobs": "run_jobs",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
