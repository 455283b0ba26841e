"""What a receive brought, message by message: each into a lease, or why it can't be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobq.core import Attribute, BackendError, Lease
from jobq.core.attributes import natural
from jobq.sqs.common import faults, replies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobq.core.message import AttributeValue
    from jobq.sqs.common.calls import Call

# An empty reply is `{}`, or has a `Messages` of null or nothing; a longer one means something else.
_EMPTY_BYTES = range(2, 33)
_WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A message that no lease can be made of; its id where it has one."""

    message_id: str | None
    reason: str

    def error(self, call: Call) -> BackendError:
        """For a receive that brought nothing else."""
        return BackendError(
            f"{faults.name_of(call.operation)} brought only messages that can't be read "
            f"({self.reason}): check that the endpoint is one of SQS",
            retryable=True,
            code=faults.UNKNOWN_REPLY,
        )


def read(
    reply: Mapping[str, Any], call: Call, *, expires_at: float
) -> tuple[list[Lease], list[Unreadable]]:
    """The messages of a reply: one that is bad costs the others nothing.

    A reply without any is an empty queue's, unless its headers tell that SQS didn't write it: a
    page of HTML, no body, a part of one and a refusal with status 200 all look empty to the SDK.
    Raises `BackendError` for those, and where no message can be read.
    """
    messages = reply.get("Messages")
    if messages is None and not _may_be_empty(reply):
        raise replies.no_sqs(call, "Messages")
    good: list[Lease] = []
    bad: list[Unreadable] = []
    for message in messages or ():
        try:
            good.append(_lease(message, expires_at))
        except _WRONG as error:
            bad.append(_unreadable(message, error))
    if bad and not good:
        raise bad[0].error(call)
    return good, bad


def _may_be_empty(reply: Mapping[str, Any]) -> bool:
    """As far as there are headers to tell by. One without a length was cut off inside them."""
    metadata: Mapping[str, Any] = reply.get("ResponseMetadata") or {}
    headers: Mapping[str, str] = metadata.get("HTTPHeaders") or {}
    if not headers:
        return True
    if "html" in headers.get("content-type", ""):
        return False
    if "content-length" not in headers:
        return "transfer-encoding" in headers
    length = headers["content-length"]
    return length.isdecimal() and int(length) in _EMPTY_BYTES


def _lease(message: Mapping[str, Any], expires_at: float) -> Lease:
    system: Mapping[str, Any] = message.get("Attributes") or {}
    attributes: Mapping[str, Any] | None = message.get("MessageAttributes")
    group = system.get("MessageGroupId")
    return Lease(
        message_id=_text(message, "MessageId"),
        body=_text(message, "Body"),
        attributes={name: _value(value) for name, value in attributes.items()}
        if attributes
        else {},
        receipt=_text(message, "ReceiptHandle"),
        receive_count=int(system.get("ApproximateReceiveCount", 1)),
        sent_at=int(system.get("SentTimestamp", 0)) / 1000,
        group_id=None if group is None else _text(system, "MessageGroupId"),
        expires_at=expires_at,
    )


def _value(value: Mapping[str, Any]) -> AttributeValue:
    data_type = _text(value, "DataType")
    if data_type == "String":
        return _text(value, "StringValue")
    if data_type.startswith("Binary"):
        return natural(Attribute(data_type, value["BinaryValue"]))
    return natural(Attribute(data_type, _text(value, "StringValue")))


def _text(owner: Mapping[str, Any], key: str) -> str:
    value = owner.get(key)
    if not isinstance(value, str):
        # Its type alone: a body is never logged.
        raise TypeError(f"{key} is of type {type(value).__name__}")
    return value


def _unreadable(message: Mapping[str, Any] | None, error: Exception) -> Unreadable:
    message_id = message.get("MessageId") if message else None
    return Unreadable(
        message_id=message_id if isinstance(message_id, str) else None,
        reason=f"{type(error).__name__}: {error}",
    )
