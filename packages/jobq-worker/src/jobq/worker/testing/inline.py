"""A group that runs each job where it is enqueued."""

from __future__ import annotations

import threading
from contextvars import copy_context
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from jobq.core import ConfigurationError, InvalidMessageError
from jobq.core.testing.job_queues import DEFAULT_QUEUES, JobQueues
from jobq.worker.dispatch import Dispatcher
from jobq.worker.engine.commands import Run
from jobq.worker.engine.events import Succeeded
from jobq.worker.handlers import handler_table
from jobq.worker.subscriptions import subscribe
from jobq.worker.testing.loops import OwnLoop
from jobq.worker.testing.outcomes import Failures
from jobq.worker.testing.run_jobs import run_one

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jobq.core import JobMiddleware, JobRequest, Lease, QueueDefinition
    from jobq.core.memory import ManualClock
    from jobq.core.message import AttributeValue
    from jobq.worker.dispatch import Record
    from jobq.worker.handlers import Handler, HandlerFunction


class InlineQueueGroup(JobQueues):
    """A `QueueGroup` in memory whose `enqueue` runs the handler before it returns.

    The message is checked, encoded and decoded as always; produce and consume hooks run around its
    two halves, and the job has a context of its own. What its handler raises, `enqueue` raises: a
    job runs once and is never retried. A delay passes on `clock` at once.

    Async handlers run on a loop of their own, in a thread where one runs already.
    """

    def __init__(
        self,
        handlers: Mapping[str, HandlerFunction | Handler],
        *,
        queues: Mapping[str, QueueDefinition | Mapping[str, Any]] = DEFAULT_QUEUES,
        middleware: Sequence[JobMiddleware] = (),
        clock: ManualClock | None = None,
    ) -> None:
        super().__init__(queues, middleware, clock=clock)
        self._failures = Failures()
        self._dispatcher = Dispatcher(
            handler_table(handlers),
            {one.name: self._failures.watch(one.route) for one in subscribe(self)},
            retry=None,
            context=copy_context(),
            clock=self.clock.now,
            unix_time=self.clock.unix_time,
            stopping=threading.Event(),
        )

    def enqueue(
        self,
        queue: str,
        job_type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        correlation_fields: Mapping[str, Any] | None = None,
        message_group_id: str | None = None,
        message_deduplication_id: str | None = None,
        message_attributes: Mapping[str, AttributeValue] | None = None,
        delay_seconds: float = 0,
        max_attempts: int | None = None,
    ) -> str:
        """Send one job and run it; returns its message id.

        Raises what `QueueGroup.enqueue` does, what the handler does, and `ConfigurationError` where
        there is none.
        """
        message_id = super().enqueue(
            queue,
            job_type,
            payload,
            correlation_fields=correlation_fields,
            message_group_id=message_group_id,
            message_deduplication_id=message_deduplication_id,
            message_attributes=message_attributes,
            delay_seconds=delay_seconds,
            max_attempts=max_attempts,
        )
        self._run_all(queue, delay=delay_seconds)
        return message_id

    def enqueue_batch(self, queue: str, requests: Iterable[JobRequest]) -> list[str]:
        """Send all jobs, then run them in order, up to the first one that raises."""
        requests = list(requests)
        message_ids = super().enqueue_batch(queue, requests)
        delay = max((request.delay_seconds for request in requests), default=0)
        self._run_all(queue, delay=delay)
        return message_ids

    def _run_all(self, queue: str, *, delay: float) -> None:
        self.clock.advance(ceil(delay))
        source = self.queue(queue)
        leases: list[Lease] = []
        while (lease := source.claim()) is not None:
            # Gone at once: nobody else is to receive it, and the handler may enqueue to its group.
            source.ack(lease)
            leases.append(lease)
        with OwnLoop() as loop:
            for lease in leases:
                self._run_one(queue, lease, loop)

    def _run_one(self, queue: str, lease: Lease, loop: OwnLoop) -> None:
        delivery = self._dispatcher.examine(queue, lease)
        record: Record = delivery.job
        if delivery.verdict == "malformed":
            raise InvalidMessageError(f"no worker could read this job: {record.fields['reason']}")
        if delivery.verdict == "unknown_job_type":
            raise ConfigurationError(
                f"no handler for job type {record.fields['job_type']!r}: "
                "give it to InlineQueueGroup, under that name"
            )
        seconds = delivery.max_runtime or self.definition(queue).max_runtime_seconds
        ends = self.clock.now() + seconds
        run = Run(0, queue, lease, record, not_after=inf, runtime_ends=ends)
        finished = run_one(self._dispatcher, run, loop)
        error = self._failures.take(lease) or record.defect
        if error is not None and not isinstance(finished.result, Succeeded):
            raise error
