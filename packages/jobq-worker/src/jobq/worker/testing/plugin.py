"""The pytest plugin of jobq-worker: the fixtures `run_jobs` and `run_jobs_async`.

No worker is imported for them until one of them is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jobq.core import AsyncQueueGroup
    from jobq.core.testing.job_queues import JobQueues
    from jobq.worker.testing.run_jobs import AsyncRunJobs, RunJobs

# What a test raises to end itself ends it in a handler, too, where it would be one more failed job.
_NEVER_A_JOBS_OWN = (
    KeyboardInterrupt,
    pytest.fail.Exception,
    pytest.skip.Exception,
    pytest.exit.Exception,
)


@pytest.fixture
def run_jobs(job_queues: JobQueues, async_job_queues: AsyncQueueGroup) -> RunJobs:
    """Runs what is in `job_queues` as a burst does: `run_jobs(handlers, **worker_options)`.

    Async handlers send further jobs over `async_job_queues`, which it enters for them.
    """
    from jobq.worker.testing.run_jobs import RunJobs

    return RunJobs(job_queues, async_queues=async_job_queues, through=_NEVER_A_JOBS_OWN)


@pytest.fixture
def run_jobs_async(job_queues: JobQueues, async_job_queues: AsyncQueueGroup) -> AsyncRunJobs:
    """The same for a test that is a coroutine: awaited, and on its loop."""
    from jobq.worker.testing.run_jobs import AsyncRunJobs

    return AsyncRunJobs(job_queues, async_queues=async_job_queues, through=_NEVER_A_JOBS_OWN)
