"""What a producer asks to be sent, and the message that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from jobq.core.codec import encode_body
from jobq.core.errors import InvalidMessageError
from jobq.core.job import Job
from jobq.core.limits import check_delay, check_ids
from jobq.core.message import AttributeValue, Capabilities, Message
from jobq.core.propagation import check_attributes, fit_attributes


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One job for `QueueGroup.enqueue_batch`, with the options of `enqueue`."""

    job_type: str
    payload: Mapping[str, Any] | None = None
    _: KW_ONLY
    correlation_fields: Mapping[str, Any] | None = None
    message_group_id: str | None = None
    message_deduplication_id: str | None = None
    message_attributes: Mapping[str, AttributeValue] | None = None
    delay_seconds: float = 0
    max_attempts: int | None = None

    def to_job(self, queue: str) -> Job:
        """The job that produce hooks see. Raises `InvalidMessageError`."""
        if self.correlation_fields is not None:
            _check_mapping("correlation_fields", self.correlation_fields)
        if self.payload is not None:
            _check_mapping("payload", self.payload)
        return Job(
            self.job_type,
            dict(self.payload or {}),
            queue,
            correlation_fields=dict(self.correlation_fields or {}),
            group_id=self.message_group_id,
        )

    def check(self, capabilities: Capabilities) -> None:
        """Refuse options that such a queue can't take, so that a batch is refused as a whole."""
        if self.message_attributes:
            _check_mapping("message_attributes", self.message_attributes)
            check_attributes(self.message_attributes)
        if self.max_attempts is not None and not (
            type(self.max_attempts) is int and 1 <= self.max_attempts < 2**31
        ):
            raise InvalidMessageError(
                f"max_attempts must be a whole number, 1 to 2**31 - 1, not {self.max_attempts!r}"
            )
        check_ids(
            self.message_group_id,
            self.message_deduplication_id,
            fifo=capabilities.ordered,
            prefix="message_",
        )
        check_delay(self.delay_seconds, fifo=not capabilities.delays)

    def to_message(self, job: Job, largest: int) -> tuple[Message, list[str]]:
        """The message for the job as the hooks left it, and what propagation had to be dropped.

        `largest` is what the queue takes, in bytes. Raises `InvalidMessageError` and
        `MessageTooLargeError`.
        """
        body = encode_body(job.job_type, job.payload)
        attributes, dropped = fit_attributes(
            job,
            body,
            attributes=self.message_attributes,
            max_attempts=self.max_attempts,
            largest=largest,
        )
        message = Message(
            body,
            attributes=attributes,
            group_id=self.message_group_id,
            deduplication_id=self.message_deduplication_id,
            delay_seconds=self.delay_seconds,
        )
        return message, dropped


def _check_mapping(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise InvalidMessageError(
            f"{name} must be a mapping with string keys, not {type(value).__name__}"
        )
