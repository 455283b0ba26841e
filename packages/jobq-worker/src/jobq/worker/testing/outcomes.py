"""What a run of jobs came to, for a test to look at."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from jobq.core.middleware import Hook

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from jobq.core import Job, Lease, QueueStats
    from jobq.worker.dispatch import Record, Route
    from jobq.worker.engine.commands import Accounts, JobEnded, Outcome

    DeliveryKey: TypeAlias = tuple[str | None, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One delivery of a job and what became of it, as the log line `job_finished` has it.

    `job_type` and `payload` are None where the body is malformed. `error` is what the handler
    raised, or a consume hook before it. `at` is when it ended, in seconds on the queues' clock.
    """

    queue: str
    job_type: str | None
    payload: dict[str, Any] | None
    outcome: Outcome
    receive_count: int
    message_id: str
    group_id: str | None
    error: BaseException | None
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRuns:
    """All that a burst did: `runs` in the order in which they ended, `accounts` of its receives.

    `remaining` is what each queue still holds, `seconds` how far the clock moved.
    """

    runs: tuple[JobRun, ...]
    accounts: Accounts
    remaining: Mapping[str, QueueStats]
    seconds: float

    @property
    def outcomes(self) -> list[tuple[str | None, Outcome]]:
        """The job type and the outcome of each run, in order."""
        return [(run.job_type, run.outcome) for run in self.runs]

    def of(self, job_type: str) -> list[JobRun]:
        return [run for run in self.runs if run.job_type == job_type]


@dataclass(slots=True)
class Failures:
    """Remembers what each job failed of: a dispatcher tells nobody but the log."""

    _started: set[DeliveryKey] = field(default_factory=set["DeliveryKey"])
    _errors: dict[DeliveryKey, BaseException] = field(
        default_factory=dict["DeliveryKey", BaseException]
    )

    def watch(self, route: Route) -> Route:
        """The route with one more around each hook and one around the handler.

        They await `call_next` alone, so they run in sync and async chains alike.
        """
        outer = Hook(self._of_hook, "watch", awaited=True)
        inner = Hook(self._of_handler, "watch", awaited=True)
        watched = [one for hook in route.hooks for one in (outer, hook)]
        return replace(route, hooks=(*watched, inner))

    def of(self, lease: Lease) -> BaseException | None:
        """What the run of this delivery failed of."""
        return self._errors.get((lease.message_id, lease.receive_count))

    def first_of(self, lease: Lease) -> BaseException | None:
        """What the message failed of the first time that it did."""
        mine = (
            error
            for (message_id, _), error in self._errors.items()
            if message_id == lease.message_id
        )
        return next(mine, None)

    def take(self, lease: Lease) -> BaseException | None:
        """The same, and forget it."""
        self._started.discard((lease.message_id, lease.receive_count))
        return self._errors.pop((lease.message_id, lease.receive_count), None)

    async def _of_hook(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        try:
            return await call_next(job)
        except BaseException as error:
            key = (job.message_id, job.receive_count)
            if key not in self._started:
                self._errors.setdefault(key, error)
            raise

    async def _of_handler(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        key = (job.message_id, job.receive_count)
        self._started.add(key)
        try:
            return await call_next(job)
        except BaseException as error:
            self._errors[key] = error
            raise


def job_run(ended: JobEnded, *, error: BaseException | None, at: float) -> JobRun:
    record: Record = ended.job
    return JobRun(
        queue=ended.queue,
        job_type=record.job.job_type if record.job else None,
        payload=record.job.payload if record.job else None,
        outcome=ended.outcome,
        receive_count=ended.lease.receive_count,
        message_id=ended.lease.message_id,
        group_id=ended.lease.group_id,
        error=error or record.defect,
        at=at,
    )
