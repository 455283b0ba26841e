"""Replies into leases, results and settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jobq.core import Attribute, BackendError, Lease, QueueInfo, QueueStats
from jobq.core.attributes import natural
from jobq.core.limits import LARGEST_MESSAGE_BYTES
from jobq.sqs.common import faults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobq.core import JobqError
    from jobq.core.message import AttributeValue
    from jobq.sqs.common.calls import Call

Reply = dict[str, Any]


def field_of(reply: Reply, key: str, call: Call) -> str:
    """A field that SQS always sends; `BackendError` where something else answered."""
    value = reply.get(key)
    if not isinstance(value, str):
        raise _no_sqs(call, key)
    return value


def _no_sqs(call: Call, key: str) -> BackendError:
    return BackendError(
        f"the answer to {faults.name_of(call.operation)} has no {key}: "
        "check that the endpoint is one of SQS",
        code="UnknownReply",
    )


def leases(reply: Reply, *, expires_at: float) -> list[Lease]:
    """The messages of a receive; a reply without `Messages` has none."""
    return [_lease(message, expires_at) for message in reply.get("Messages") or ()]


def _lease(message: Mapping[str, Any], expires_at: float) -> Lease:
    system: Mapping[str, Any] = message.get("Attributes") or {}
    attributes: Mapping[str, Any] | None = message.get("MessageAttributes")
    return Lease(
        message_id=message["MessageId"],
        body=message["Body"],
        attributes={name: _value(value) for name, value in attributes.items()}
        if attributes
        else {},
        receipt=message["ReceiptHandle"],
        receive_count=int(system.get("ApproximateReceiveCount", 1)),
        sent_at=int(system.get("SentTimestamp", 0)) / 1000,
        group_id=system.get("MessageGroupId"),
        expires_at=expires_at,
    )


def _value(value: Mapping[str, Any]) -> AttributeValue:
    data_type: str = value["DataType"]
    if data_type == "String":
        return value["StringValue"]
    binary = data_type.startswith("Binary")
    return natural(Attribute(data_type, value["BinaryValue" if binary else "StringValue"]))


def errors(reply: Reply, call: Call) -> dict[int, JobqError | None]:
    """Position by position what became of a batch call's entries; None is success.

    An entry that the reply doesn't name counts as failed, retryable; one that wasn't asked for
    counts for nothing.
    """
    asked = {entry["Id"] for entry in call.arguments["Entries"]}
    found: dict[int, JobqError | None] = {
        int(entry["Id"]): None for entry in reply.get("Successful") or () if entry["Id"] in asked
    }
    for entry in reply.get("Failed") or ():
        if entry["Id"] in asked:
            found[int(entry["Id"])] = faults.error_of(faults.read_entry(entry), call)
    if len(found) < len(asked):
        for entry in call.arguments["Entries"]:
            found.setdefault(int(entry["Id"]), _unnamed(call))
    return found


def _unnamed(call: Call) -> BackendError:
    return BackendError(
        f"the answer to {faults.name_of(call.operation)} doesn't name this entry; try again, and "
        "check that the endpoint is one of SQS",
        retryable=True,
        code="UnknownReply",
    )


def message_ids(reply: Reply) -> dict[int, str]:
    """The ids of the messages that a batch send had accepted, by position."""
    return {int(entry["Id"]): entry["MessageId"] for entry in reply.get("Successful") or ()}


def settings(reply: Reply, call: Call) -> dict[str, str]:
    """All attributes of a queue."""
    found = reply.get("Attributes")
    if not isinstance(found, dict) or "VisibilityTimeout" not in found:
        raise _no_sqs(call, "Attributes")
    return found  # pyright: ignore[reportUnknownVariableType] - as the API reference has it


def info(settings: Mapping[str, str], *, fifo: bool) -> QueueInfo:
    policy = redrive_policy(settings)
    count = policy.get("maxReceiveCount")
    return QueueInfo(
        visibility_timeout=int(settings["VisibilityTimeout"]),
        max_receive_count=int(count) if count is not None else None,
        dead_letter_queue=policy.get("deadLetterTargetArn"),
        fifo=fifo,
        max_message_bytes=int(settings.get("MaximumMessageSize", LARGEST_MESSAGE_BYTES)),
    )


def redrive_policy(settings: Mapping[str, str]) -> dict[str, Any]:
    """`deadLetterTargetArn` and `maxReceiveCount` (a number, or one in a string), or nothing."""
    return json.loads(settings.get("RedrivePolicy") or "{}")


def stats(settings: Mapping[str, str]) -> QueueStats:
    return QueueStats(
        waiting=int(settings.get("ApproximateNumberOfMessages", 0)),
        in_flight=int(settings.get("ApproximateNumberOfMessagesNotVisible", 0)),
        delayed=int(settings.get("ApproximateNumberOfMessagesDelayed", 0)),
    )


def arn_parts(arn: str) -> tuple[str, str]:
    """Account and name of `arn:aws:sqs:region:account:name`."""
    *_, account, name = arn.split(":")
    return account, name


def moves(reply: Reply) -> Sequence[Mapping[str, Any]]:
    return reply.get("Results") or ()
