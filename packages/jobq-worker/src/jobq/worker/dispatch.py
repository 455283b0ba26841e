"""One lease into an outcome: decode, find the handler, run it inside its hooks and its context."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from jobq.core import Job, JobContext, NonRetryableError, RetryAfter
from jobq.core.codec import Malformed
from jobq.core.context import running_job
from jobq.core.logs import get_logger
from jobq.core.middleware import HandlerRun, Hook
from jobq.core.propagation import correlation_log_fields, loggable, read_job, read_max_attempts
from jobq.worker.ends import resolve
from jobq.worker.engine.events import (
    Delivery,
    Finished,
    NotStarted,
    Postponed,
    Raised,
    Refused,
    Result,
    Succeeded,
)
from jobq.worker.execution import Execution, Ready
from jobq.worker.faults import traceback_of
from jobq.worker.lease_events import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobq.core import Lease, RetryPolicy
    from jobq.core.context import Signal
    from jobq.worker.engine.commands import Run
    from jobq.worker.execution import Settle
    from jobq.worker.handlers import Handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a queue brings to the jobs that come from it: its consume hooks and its retry policies.

    `retry` is its own, `environment_retry` that of the environment its group was made from.
    """

    hooks: tuple[Hook, ...] = ()
    retry: RetryPolicy | None = None
    environment_retry: RetryPolicy | None = None


@dataclass(slots=True, eq=False)
class Record:
    """All that is known of one delivery; the engine carries it about and never looks inside.

    `fields` are on every log line about it. `context` is the job's own as its handler left it, None
    until then. `defect` is what kept us from reading the message, through no fault of its own.
    """

    fields: dict[str, Any]
    job: Job | None = None
    handler: Handler | None = None
    max_attempts: int | None = None
    defect: Exception | None = None
    lease_lost: LeaseLost = field(default_factory=LeaseLost)
    context: Context | None = None


class Dispatcher:
    """Examines what was received and runs what can be run. Nothing here raises.

    `context` is what every job's own is a copy of. `clock` is the engine's, `unix_time` the one of
    `Lease.sent_at`; `stopping` is every job's.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        routes: Mapping[str, Route],
        *,
        retry: RetryPolicy | None,
        context: Context,
        clock: Callable[[], float],
        unix_time: Callable[[], float],
        stopping: Signal,
    ) -> None:
        from structlog.contextvars import bind_contextvars

        self._handlers = handlers
        self._routes = routes
        self._retry = retry
        self.clock = clock
        self._unix_time = unix_time
        self._stopping = stopping
        self._bind = bind_contextvars
        self._log = get_logger("jobq.job").bind()
        self.context = context

    def examine(self, queue: str, lease: Lease) -> Delivery:
        """What a received message is, and the record that the engine is to hand back."""
        fields: dict[str, Any] = {
            "queue": queue,
            "message_id": lease.message_id,
            "receive_count": lease.receive_count,
        }
        try:
            return self._examine(queue, lease, fields)
        except Exception as error:  # noqa: BLE001 - a received message is never lost to a bug
            # Nothing says that the message is bad, so it fails like a job, and is not deleted.
            return Delivery(lease, "runnable", Record(fields, defect=error))

    def _examine(self, queue: str, lease: Lease, fields: dict[str, Any]) -> Delivery:
        job = read_job(queue, lease)
        if isinstance(job, Malformed):
            return Delivery(lease, "malformed", Record({**fields, "reason": job.reason}))
        fields["job_type"] = loggable(job.job_type)
        if job.correlation_fields:
            fields |= correlation_log_fields(job)
        handler = self._handlers.get(job.job_type)
        if handler is None:
            return Delivery(lease, "unknown_job_type", Record(fields, job))
        record = Record(fields, job, handler, read_max_attempts(lease.attributes))
        return Delivery(lease, "runnable", record, handler.max_runtime_seconds)

    def policy(self, queue: str, record: Record) -> RetryPolicy:
        """The retry policy that counts for one job, the nearest level first, all filled in."""
        own = record.handler and record.handler.retry
        route = self._routes[queue]
        policy = resolve(own, route.retry, self._retry, route.environment_retry)
        if record.handler is None:
            # What no handler ran is never exhausted.
            return replace(policy, max_attempts=None)
        if record.max_attempts is not None:
            policy = replace(policy, max_attempts=record.max_attempts)
        return policy

    def run_sync(self, run: Run, settle: Settle) -> Finished:
        """Run a job whose handler is sync, in this thread."""
        return self.context.copy().run(self._run_sync, run, settle)

    def _run_sync(self, run: Run, settle: Settle) -> Finished:
        ready = self._ready(run)
        if isinstance(ready, Finished):
            return ready
        execution, raised = Execution(run, ready, settle), None
        try:
            self._begin(run, ready)
            execution.call(self._routes[run.queue].hooks, ready.job)
        except BaseException as error:  # noqa: BLE001 - whatever is raised is this job's own
            raised = error
        execution.wait()
        try:
            return self._conclude(run, execution.handler_run, raised)
        finally:
            # A traceback holds the frames that hold it; a job's data must not live on for that.
            del raised, execution

    async def run_async(self, run: Run) -> Finished:
        """Run a job whose handler is async, in a task whose context is the job's own."""
        ready = self._ready(run)
        if isinstance(ready, Finished):
            return ready
        execution, raised = Execution(run, ready), None
        try:
            self._begin(run, ready)
            await execution.call_async(self._routes[run.queue].hooks, ready.job)
        except BaseException as error:  # noqa: BLE001 - whatever is raised is this job's own
            raised = error
        await execution.wait_async()
        try:
            return self._conclude(run, execution.handler_run, raised)
        finally:
            del raised, execution

    def _ready(self, run: Run) -> Ready | Finished:
        """What to run, or the end of a run that must not begin."""
        now = self.clock()
        record: Record = run.job
        if now >= run.not_after:
            return Finished(run.key, NotStarted(), now)
        if record.job is None or record.handler is None:
            self._bind(**record.fields)
            return Finished(run.key, self._result(run.queue, record, record.defect), now)
        return Ready(record.job, record.handler.function)

    def _begin(self, run: Run, ready: Ready) -> None:
        record: Record = run.job
        self._bind(**record.fields)
        clock, ends = self.clock, run.runtime_ends
        running_job.set(
            JobContext(
                job=ready.job,
                lease_lost=record.lease_lost,
                stopping=self._stopping,
                remaining=lambda: ends - clock(),
            )
        )
        waited = self._unix_time() - run.lease.sent_at
        self._say(
            "info",
            "job_started",
            group_id=run.lease.group_id,
            queue_wait_ms=max(0, round(waited * 1000)),
        )

    def _conclude(
        self, run: Run, handler_run: HandlerRun, raised: BaseException | None
    ) -> Finished:
        ended = self.clock()
        record: Record = run.job
        if record.context is None:
            record.context = copy_context()
        # Again: a handler may have cleared them, or bound others in their place.
        record.context.run(self._bind, **record.fields)
        failure, aside = handler_run.judge(raised)
        if aside is not None:
            exception = traceback_of(aside)
            record.context.run(self._say, "warning", "consume_hook_failed", exception=exception)
        result = self._result(run.queue, record, failure)
        handler_run.error = None
        return Finished(run.key, result, ended)

    def _result(self, queue: str, record: Record, failure: BaseException | None) -> Result:
        if failure is None:
            return Succeeded()
        # Where the handler ended, so that a span which is over by now is still named.
        say = partial((record.context or copy_context()).run, self._say)
        if isinstance(failure, RetryAfter):
            say("info", "job_postponed", seconds=failure.seconds, reason=str(failure))
            return Postponed(failure.seconds)
        if not (isinstance(failure, asyncio.CancelledError) and record.lease_lost.is_set()):
            say("error", "job_failed", exception=traceback_of(failure))
        if isinstance(failure, NonRetryableError):
            return Refused()
        return Raised(self.policy(queue, record))

    def _say(self, level: str, event: str, **fields: Any) -> None:
        # A log that can't be written costs no job.
        with contextlib.suppress(Exception):
            getattr(self._log, level)(event, **fields)
