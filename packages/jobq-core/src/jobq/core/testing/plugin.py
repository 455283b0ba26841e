"""The pytest plugin of jobq-core: the fixtures `job_queues` and `async_job_queues`.

No queue and no suite is imported until a fixture is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jobq.core.aio import AsyncQueueGroup
    from jobq.core.definitions import QueueDefinition
    from jobq.core.memory import ManualClock
    from jobq.core.testing.job_queues import JobQueues

pytest.register_assert_rewrite("jobq.core.testing.conformance")


@pytest.fixture
def job_clock() -> ManualClock:
    """The clock of `job_queues`, for queues that a test makes by hand."""
    from jobq.core.memory import ManualClock

    return ManualClock()


@pytest.fixture
def job_queue_definitions() -> Mapping[str, QueueDefinition | Mapping[str, Any]]:
    """What `job_queues` holds: a standard queue `default` and a FIFO queue `ledger`.

    Override it in a conftest or a test module to have other queues.
    """
    from jobq.core.testing.job_queues import DEFAULT_QUEUES

    return DEFAULT_QUEUES


@pytest.fixture
def job_queues(
    job_queue_definitions: Mapping[str, QueueDefinition | Mapping[str, Any]],
    job_clock: ManualClock,
) -> Iterator[JobQueues]:
    """A `QueueGroup` in memory, with time travel: `job_queues.clock.advance(seconds)`.

    Nothing else moves that clock: a `claim` with a `wait` blocks until another thread advances it.
    """
    from jobq.core.testing.job_queues import JobQueues

    with JobQueues(job_queue_definitions, clock=job_clock) as queues:
        yield queues


@pytest.fixture
def async_job_queues(job_queues: JobQueues) -> AsyncQueueGroup:
    """The queues of `job_queues` as an `AsyncQueueGroup`, to put in the place of an application's.

    What is sent over it, `job_queues` holds. The handlers of `run_jobs` find it entered; any other
    coroutine needs `async with async_job_queues:` around it, as with every group.
    """
    from jobq.core.testing.async_job_queues import async_twin

    return async_twin(job_queues)
