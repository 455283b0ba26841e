"""Replies into results and settings; what a receive brought is read in `messages`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jobq.core import BackendError, QueueInfo, QueueStats
from jobq.core.limits import LARGEST_MESSAGE_BYTES
from jobq.sqs.common import faults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobq.core import JobqError
    from jobq.sqs.common.calls import Call

Reply = dict[str, Any]

_NUMBERS = {
    "VisibilityTimeout",
    "MaximumMessageSize",
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
}


def field_of(reply: Reply, key: str, call: Call) -> str:
    """A field that SQS always sends; `BackendError` where something else answered."""
    value = reply.get(key)
    if not isinstance(value, str):
        raise no_sqs(call, key)
    return value


def no_sqs(call: Call, key: str) -> BackendError:
    """Something else than SQS has answered: `key` is what its answer lacks."""
    # Worth another try: a proxy's page of the moment looks the same.
    return BackendError(
        f"the answer to {faults.name_of(call.operation)} has no {key}: "
        "check that the endpoint is one of SQS",
        retryable=True,
        code=faults.UNKNOWN_REPLY,
    )


def errors(reply: Reply, call: Call) -> dict[int, JobqError | None]:
    """Position by position what became of a batch call's entries; None is success.

    An entry that the reply doesn't name counts as failed, retryable; one that wasn't asked for
    counts for nothing.
    """
    asked = {entry["Id"] for entry in call.arguments["Entries"]}
    found: dict[int, JobqError | None] = {
        int(entry["Id"]): None for entry in _entries(reply, "Successful") if entry["Id"] in asked
    }
    for entry in _entries(reply, "Failed"):
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
        code=faults.UNKNOWN_REPLY,
    )


def message_ids(reply: Reply) -> dict[int, str]:
    """The ids of the messages that a batch send had accepted, by position."""
    return {
        int(entry["Id"]): entry["MessageId"]
        for entry in _entries(reply, "Successful")
        if entry["Id"].isdecimal() and isinstance(entry.get("MessageId"), str)
    }


def _entries(reply: Reply, key: str) -> list[dict[str, Any]]:
    """Those that name the entry of the request that they answer."""
    found: list[Any] = reply.get(key) or []
    return [entry for entry in found if entry and isinstance(entry.get("Id"), str)]


def settings(reply: Reply, call: Call) -> dict[str, str]:
    """All attributes of a queue; what is read of them here is as the API reference has it."""
    found: dict[str, Any] = reply.get("Attributes") or {}
    if "VisibilityTimeout" not in found:
        raise no_sqs(call, "Attributes")
    for key in _NUMBERS & found.keys():
        if not str(found[key]).isdecimal():
            raise no_sqs(call, f"number in its {key}")
    if not _is_policy(found.get("RedrivePolicy")):
        raise no_sqs(call, "policy in its RedrivePolicy")
    return found


def _is_policy(text: Any) -> bool:
    try:
        policy = json.loads(text or "{}")
    except (TypeError, ValueError):
        return False
    return isinstance(policy, dict) and str(policy.get("maxReceiveCount", 0)).isdecimal()  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


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
