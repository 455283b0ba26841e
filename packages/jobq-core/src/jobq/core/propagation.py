"""What travels beside the body: correlation fields, trace headers, `max_attempts`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from jobq.core.attributes import (
    MOST_ATTRIBUTES,
    attribute_size,
    check_count,
    message_size,
    spell,
    spell_out,
)
from jobq.core.codec import Malformed, decode_body, decode_json, encode_json
from jobq.core.errors import InvalidMessageError
from jobq.core.job import Job
from jobq.core.limits import LARGEST_MESSAGE_BYTES, check_size
from jobq.core.message import AttributeValue, Lease

CORRELATION_FIELDS = "correlation_fields"
MAX_ATTEMPTS = "max_attempts"

_OURS = ("queue", "message_id", "job_type", "receive_count", "group_id", "trace_id", "span_id")
# positional_args would be applied to the event with %. The last four are taken for text and for
# records of logging: any other value makes every log line of the job raise, the handler's too.
_STRUCTLOGS = (
    *("event", "level", "logger", "timestamp", "exc_info", "stack_info", "positional_args"),
    *("exception", "stack", "_record", "_from_structlog"),
)
_RESERVED = frozenset(_OURS + _STRUCTLOGS)


def check_attributes(attributes: Mapping[str, AttributeValue]) -> None:
    """Refuse what a caller may not send, with `InvalidMessageError`."""
    for name in (CORRELATION_FIELDS, MAX_ATTEMPTS):
        if name in attributes:
            raise InvalidMessageError(
                f"attribute {name!r} is jobq's own: pass it as the argument of that name"
            )
    spell_out(attributes)


def fit_attributes(
    job: Job,
    body: str,
    *,
    attributes: Mapping[str, AttributeValue] | None = None,
    max_attempts: int | None = None,
    largest: int = LARGEST_MESSAGE_BYTES,
) -> tuple[dict[str, AttributeValue], list[str]]:
    """All attributes of a job's message, and the names of those that had to be left out.

    What the caller gave (`attributes`, already checked, and `max_attempts`) stays; the job's
    correlation fields and trace headers are dropped from the end while there are more than ten
    attributes or body and attributes exceed `largest` bytes. A trace header never replaces what
    the caller gave. Raises `InvalidMessageError` and `MessageTooLargeError`.
    """
    kept: dict[str, AttributeValue] = dict(attributes or {})
    if max_attempts is not None:
        kept[MAX_ATTEMPTS] = max_attempts
    message = f"the message of job type {job.job_type!r}"
    ours = "" if max_attempts is None else ", max_attempts included,"
    check_count(f"{message}{ours}", len(kept))
    size = message_size(body, kept)
    check_size(message, size, largest)
    dropped: list[str] = []
    for name, value in _propagation(job):
        if name in kept:
            continue
        if not _travels(name, value):
            dropped.append(name)
            continue
        size += attribute_size(name, value)
        if len(kept) == MOST_ATTRIBUTES or size > largest:
            dropped.append(name)
        else:
            kept[name] = value
    return kept, dropped


def read_job(queue: str, lease: Lease) -> Job | Malformed:
    """The job that a lease holds, for the queue of that name in its group."""
    content = decode_body(lease.body)
    if isinstance(content, Malformed):
        return content
    attributes = lease.attributes
    trace_headers = {n: v for n, v in attributes.items() if isinstance(v, str)}
    correlation = trace_headers.pop(CORRELATION_FIELDS, None)
    return Job(
        content.job_type,
        content.payload,
        queue,
        trace_headers,
        {} if correlation is None else _read_correlation(correlation),
        lease.message_id,
        lease.receive_count,
        lease.group_id,
        lease.sent_at,
    )


def read_max_attempts(attributes: Mapping[str, AttributeValue]) -> int | None:
    """The message's own `max_attempts`; None where it has none that makes sense."""
    value = attributes.get(MAX_ATTEMPTS)
    return value if type(value) is int and value >= 1 else None


def correlation_log_fields(job: Job) -> dict[str, Any]:
    """A job's correlation fields under names that can't pass for ours or structlog's.

    A text that is no UTF-8 (a lone surrogate, which JSON can spell) is escaped, so that no log
    line is lost to it.
    """
    return {
        f"correlation_{key}" if key in _RESERVED else loggable(key): loggable(value)
        for key, value in job.correlation_fields.items()
    }


def loggable(value: Any) -> Any:
    """The value as any log output can write it."""
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode(errors="backslashreplace").decode()


def _read_correlation(text: str) -> dict[str, Any]:
    fields = decode_json(text)
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}


def _propagation(job: Job) -> Iterator[tuple[str, Any]]:
    if job.correlation_fields:
        yield (
            CORRELATION_FIELDS,
            encode_json(job.correlation_fields, f"correlation fields of {job.job_type!r}"),
        )
    for name, value in job.trace_headers.items():
        if name not in (CORRELATION_FIELDS, MAX_ATTEMPTS):
            yield name, value


def _travels(name: str, value: object) -> bool:
    """Whether a trace header can be sent: as a String, or not at all."""
    if not isinstance(value, str):
        return False
    try:
        spell(name, value)
    except InvalidMessageError:
        return False
    return True
