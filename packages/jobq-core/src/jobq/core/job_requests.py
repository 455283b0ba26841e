"""What a producer asks to be sent, and the message that it becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import Any

from jobq.core.codec import encode_body
from jobq.core.errors import DelayTooLongError, InvalidMessageError, UnsupportedFeatureError
from jobq.core.job import Job
from jobq.core.message import AttributeValue, Capabilities, Message
from jobq.core.propagation import check_attributes, fit_attributes

# SendMessage: DelaySeconds 0 to 900; MessageGroupId and MessageDeduplicationId 1 to 128
# alphanumeric and punctuation characters.
LONGEST_DELAY_SECONDS = 900
_ID = re.compile(r"[!-~]{1,128}")


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
        _check_id("message_group_id", self.message_group_id)
        _check_id("message_deduplication_id", self.message_deduplication_id)
        if capabilities.ordered and self.message_group_id is None:
            raise InvalidMessageError(
                f"job type {self.job_type!r} needs a message_group_id: the queue is FIFO, and "
                "keeps order inside each group"
            )
        if not capabilities.ordered and self.message_deduplication_id is not None:
            raise UnsupportedFeatureError(
                "message_deduplication_id is for FIFO queues: leave it out, or use a FIFO queue"
            )
        _check_delay(self.delay_seconds, capabilities)

    def to_message(self, job: Job, largest: float) -> tuple[Message, list[str]]:
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


def _check_id(name: str, value: object) -> None:
    if value is None or (isinstance(value, str) and _ID.fullmatch(value)):
        return
    raise InvalidMessageError(
        f"{name} must be 1 to 128 ASCII letters, digits and punctuation, not {value!r}"
    )


def _check_delay(seconds: object, capabilities: Capabilities) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < inf:
        raise InvalidMessageError(f"delay_seconds must be 0 or more seconds, not {seconds!r}")
    if seconds > 0 and not capabilities.delays:
        raise UnsupportedFeatureError(
            f"delay_seconds is {seconds!r}, and a FIFO queue delays no single message: "
            "leave it 0, or set a delay on the queue"
        )
    if seconds > LONGEST_DELAY_SECONDS:
        raise DelayTooLongError(
            f"delay_seconds is {seconds!r}, and a message can be delayed for "
            f"{LONGEST_DELAY_SECONDS} s at most"
        )
