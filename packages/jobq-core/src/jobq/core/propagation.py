"""What travels beside the body: correlation fields, trace headers, `max_attempts`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from jobq.core.codec import Malformed, decode_body, decode_json, encode_json
from jobq.core.errors import InvalidMessageError, MessageTooLargeError
from jobq.core.job import Job
from jobq.core.message import Attribute, AttributeValue, Lease

CORRELATION_FIELDS = "correlation_fields"
MAX_ATTEMPTS = "max_attempts"
# SendMessage: at most ten attributes. Names: letters, digits, _ - and single inner dots, 256 at
# most, none that begins with AWS. or Amazon. in any case.
MOST_ATTRIBUTES = 10
_NAME = re.compile(r"(?!aws\.|amazon\.)[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", re.ASCII | re.IGNORECASE)
_TYPE = re.compile(r"(?:String|Number|Binary)(?:\.[^\x00-\x1f]+)?")
_REFUSED = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_OURS = ("queue", "message_id", "job_type", "receive_count", "group_id", "trace_id", "span_id")
# positional_args would be applied to the event with %.
_STRUCTLOGS = ("event", "level", "logger", "timestamp", "exc_info", "stack_info", "positional_args")
_RESERVED = frozenset(_OURS + _STRUCTLOGS)


def check_attributes(attributes: Mapping[str, AttributeValue]) -> None:
    """Refuse what a caller may not send, with `InvalidMessageError`."""
    for name, value in attributes.items():
        if name in (CORRELATION_FIELDS, MAX_ATTEMPTS):
            raise InvalidMessageError(
                f"message attribute {name!r} is jobq's own: pass it as the argument of that name"
            )
        if not _good_name(name):
            raise InvalidMessageError(
                f"message attribute name {name!r}: 1 to 256 letters, digits, '_', '-' and inner "
                "dots, not beginning with 'AWS.' or 'Amazon.'"
            )
        problem = _problem(value)
        if problem is not None:
            raise InvalidMessageError(f"message attribute {name!r} {problem}")


def fit_attributes(
    job: Job,
    body: str,
    *,
    attributes: Mapping[str, AttributeValue] | None = None,
    max_attempts: int | None = None,
    largest: float = float("inf"),
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
    if len(kept) > MOST_ATTRIBUTES:
        raise InvalidMessageError(
            f"job type {job.job_type!r} has {len(kept)} message attributes, max_attempts included: "
            f"SQS takes {MOST_ATTRIBUTES}"
        )
    size = message_size(body, kept)
    if size > largest:
        raise MessageTooLargeError(
            f"job type {job.job_type!r}: body and attributes are {size} bytes, and the queue takes "
            f"{largest}: store the data elsewhere and send a reference"
        )
    dropped: list[str] = []
    for name, value in _propagation(job):
        if name in kept:
            continue
        if not _travels(name, value):
            dropped.append(name)
            continue
        size += _attribute_size(name, value)
        if len(kept) == MOST_ATTRIBUTES or size > largest:
            dropped.append(name)
        else:
            kept[name] = value
    return kept, dropped


def message_size(body: str, attributes: Mapping[str, AttributeValue]) -> int:
    """Bytes as SQS counts them: the body, and each attribute's name, type and value."""
    return _length(body) + sum(_attribute_size(name, attributes[name]) for name in attributes)


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
    """A job's correlation fields under names that can't pass for ours or structlog's."""
    return {
        f"correlation_{key}" if key in _RESERVED else key: value
        for key, value in job.correlation_fields.items()
    }


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
    return isinstance(value, str) and _problem(value) is None and _good_name(name)


def _good_name(name: object) -> bool:
    return isinstance(name, str) and len(name) <= 256 and _NAME.fullmatch(name) is not None


def _problem(value: object) -> str | None:
    if isinstance(value, Attribute):
        if _TYPE.fullmatch(value.data_type) is None:
            return f"has the type {value.data_type!r}: String, Number or Binary, then '.label'"
        value = value.value
    if isinstance(value, str):
        if not value:
            return "is empty, which SQS refuses: leave it out"
        character = _REFUSED.search(value)
        if character is not None:
            return f"holds {character[0]!r}, a character that SQS refuses: encode it first"
        return None
    if isinstance(value, bytes):
        return None if value else "is empty, which SQS refuses: leave it out"
    if type(value) is int:
        return None if abs(value) < 10**38 else "is a number of more than 38 digits"
    return f"is a {type(value).__name__}: a str, int, bytes or Attribute"


def _attribute_size(name: str, value: AttributeValue) -> int:
    if isinstance(value, Attribute):
        return _length(name) + _length(value.data_type) + _length(value.value)
    if isinstance(value, int):
        return _length(name) + len("Number") + len(str(value))
    return _length(name) + len("String") + _length(value)


def _length(value: str | bytes) -> int:
    if isinstance(value, bytes) or value.isascii():
        return len(value)
    return len(value.encode("utf-8", "surrogatepass"))
