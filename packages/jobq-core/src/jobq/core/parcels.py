"""What sending decides, for both senders: what is packed, what a hook answered, what is raised."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from jobq.core.errors import ConfigurationError, JobqError, PublishBatchError
from jobq.core.logs import get_logger
from jobq.core.message import Capabilities, Message, PublishResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.core.job import Job
    from jobq.core.job_requests import JobRequest
    from jobq.core.middleware import Hook


class Parcel(NamedTuple):
    """A job as the hooks left it, and the message that it became."""

    job: Job
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """The rules of sending to one queue, `name` in its group, through produce hooks."""

    name: str
    hooks: tuple[Hook, ...]

    def open(self, request: JobRequest, capabilities: Capabilities) -> Job:
        """The job that the hooks get. Raises what a request is refused with."""
        request.check(capabilities)
        return request.to_job(self.name)

    def open_all(self, requests: Sequence[JobRequest], capabilities: Capabilities) -> list[Job]:
        """The jobs of a batch, each of which was checked before any hook runs."""
        jobs: list[Job] = []
        for position, request in enumerate(requests):
            try:
                jobs.append(self.open(request, capabilities))
            except BaseException as error:
                add_position(error, position)
                raise
        return jobs

    def pack(self, request: JobRequest, job: Job, capabilities: Capabilities) -> Parcel:
        message, dropped = request.to_message(job, capabilities.largest_message)
        if dropped:
            _say(
                "warning",
                "propagation_attributes_dropped",
                queue=self.name,
                job_type=job.job_type,
                dropped=dropped,
            )
        return Parcel(job, message)

    def message_id(self, answer: object, sent: str | None) -> str:
        """What a chain returned, or the id of what was sent inside a hook that returned none."""
        if isinstance(answer, str):
            return answer
        if sent is not None:
            return sent
        names = ", ".join(hook.name for hook in self.hooks)
        raise ConfigurationError(
            f"a produce hook ({names}) returned {answer!r} in place of a message id: "
            "return what call_next returned"
        )

    def message_ids(
        self, results: Sequence[PublishResult], raised: Sequence[BaseException]
    ) -> list[str]:
        """The ids of a batch that was tried, one result for each item.

        Raises `PublishBatchError` where one has an error, else the first that a hook raised.
        """
        errors = [result.error for result in results if result.error is not None]
        if errors:
            raise _batch_error(self.name, results) from (raised or errors)[0]
        if raised:
            raised[0].add_note(f"all {len(results)} messages of the batch had been sent by then")
            raise raised[0]
        return [result.message_id or "" for result in results]

    def log_sent(self, parcel: Parcel, message_id: str) -> None:
        _say(
            "info",
            "job_enqueued",
            queue=self.name,
            job_type=parcel.job.job_type,
            message_id=message_id,
            group_id=parcel.message.group_id,
        )

    def log_all_sent(self, parcels: Sequence[Parcel], results: Sequence[PublishResult]) -> None:
        for parcel, result in zip(parcels, results, strict=True):
            if result.message_id is not None:
                self.log_sent(parcel, result.message_id)


def add_position(error: BaseException, position: int) -> None:
    error.add_note(f"nothing of the batch was sent: this is its item {position}")


def unsent(cause: BaseException) -> JobqError:
    """What a hook sees whose send will not be, since something else of its batch failed."""
    error = JobqError(f"the batch was not sent: {type(cause).__name__}: {cause}")
    error.__cause__ = cause
    return error


def _say(level: str, event: str, **fields: Any) -> None:
    # What was sent must not look unsent because a log can't be written.
    with suppress(Exception):
        getattr(get_logger("jobq.job"), level)(event, **fields)


def _batch_error(queue: str, results: Sequence[PublishResult]) -> PublishBatchError:
    failed = [(at, result.error) for at, result in enumerate(results) if result.error is not None]
    named = "; ".join(f"item {at}: {error}" for at, error in failed[:3])
    more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
    return PublishBatchError(
        f"{len(failed)} of {len(results)} messages were not sent to queue {queue!r}: {named}{more}"
        "; send those again whose entry in .results has an error",
        results=results,
    )
