"""What a running handler can ask about its own job."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.core.job import Job


class Signal(Protocol):
    """The reading half of an event; `wait` takes seconds and tells whether it is set."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The running job, the time it has, and two events that a long handler can look at.

    `lease_lost` is set once this delivery can no longer be deleted: what the handler still does,
    another delivery may do again. `stopping` is set once the worker was asked to stop.
    """

    job: Job
    lease_lost: Signal
    stopping: Signal
    remaining: Callable[[], float]

    def seconds_left(self) -> float:
        """Seconds until the worker gives this job up (`max_runtime_seconds`, 12 hours), or 0."""
        return max(0.0, self.remaining())


running_job: ContextVar[JobContext | None] = ContextVar("jobq_running_job", default=None)


def current_job() -> JobContext | None:
    """The job that the calling handler or hook runs for; None outside a job."""
    return running_job.get()
