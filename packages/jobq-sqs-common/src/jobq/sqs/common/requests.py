"""The arguments of each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.core.limits import LARGEST_MESSAGE_BYTES, check_message
from jobq.sqs.common.calls import Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jobq.core import Attribute, Lease, Message

# Only what a lease holds: every attribute that is asked for costs the reply's bytes.
_SYSTEM_ATTRIBUTES = ["ApproximateReceiveCount", "SentTimestamp", "MessageGroupId"]


def entry_of(
    message: Message,
    *,
    fifo: bool,
    new_id: str,
    max_bytes: int = LARGEST_MESSAGE_BYTES,
) -> tuple[dict[str, Any], int]:
    """What SendMessage and an entry of SendMessageBatch say of a message, and its size in bytes.

    `new_id` is the deduplication id of a FIFO message that has none of its own. Raises
    `InvalidMessageError`, `MessageTooLargeError`, `UnsupportedFeatureError` or `DelayTooLongError`.
    """
    attributes, size, delay = check_message(message, fifo=fifo, max_bytes=max_bytes)
    entry: dict[str, Any] = {"MessageBody": message.body}
    if attributes:
        entry["MessageAttributes"] = {
            name: _attribute_value(attribute) for name, attribute in attributes.items()
        }
    if delay:
        entry["DelaySeconds"] = delay
    if message.group_id is not None:
        entry["MessageGroupId"] = message.group_id
    if fifo:
        entry["MessageDeduplicationId"] = message.deduplication_id or new_id
    return entry, size


def _attribute_value(attribute: Attribute) -> dict[str, Any]:
    key = "BinaryValue" if isinstance(attribute.value, bytes) else "StringValue"
    return {"DataType": attribute.data_type, key: attribute.value}


def send(url: str, entry: Mapping[str, Any]) -> Call:
    return Call("send_message", {"QueueUrl": url, **entry})


def send_batch(url: str, positions: Iterable[int], entries: Sequence[Mapping[str, Any]]) -> Call:
    """Entry ids are positions: the same message may be in a batch twice."""
    batch = [{"Id": str(position), **entries[position]} for position in positions]
    return Call("send_message_batch", {"QueueUrl": url, "Entries": batch})


def receive(
    url: str, *, max_messages: int, visibility: int, wait: int, attempt_id: str | None
) -> Call:
    arguments: dict[str, Any] = {
        "QueueUrl": url,
        "MaxNumberOfMessages": max_messages,
        "VisibilityTimeout": visibility,
        "WaitTimeSeconds": wait,
        "MessageSystemAttributeNames": _SYSTEM_ATTRIBUTES,
        "MessageAttributeNames": ["All"],
    }
    if attempt_id is not None:
        arguments["ReceiveRequestAttemptId"] = attempt_id
    return Call("receive_message", arguments)


def delete(url: str, lease: Lease) -> Call:
    return Call("delete_message", {"QueueUrl": url, "ReceiptHandle": lease.receipt})


def delete_batch(url: str, positions: Iterable[int], leases: Sequence[Lease]) -> Call:
    batch = [{"Id": str(p), "ReceiptHandle": leases[p].receipt} for p in positions]
    return Call("delete_message_batch", {"QueueUrl": url, "Entries": batch})


def change_visibility(url: str, lease: Lease, seconds: int) -> Call:
    return Call(
        "change_message_visibility",
        {"QueueUrl": url, "ReceiptHandle": lease.receipt, "VisibilityTimeout": seconds},
    )


def change_visibility_batch(
    url: str, positions: Iterable[int], leases: Sequence[Lease], seconds: int
) -> Call:
    batch = [
        {"Id": str(p), "ReceiptHandle": leases[p].receipt, "VisibilityTimeout": seconds}
        for p in positions
    ]
    return Call("change_message_visibility_batch", {"QueueUrl": url, "Entries": batch})


def attributes(url: str) -> Call:
    # Not by name: a standard queue refuses to be asked for the attributes of a FIFO one.
    return Call("get_queue_attributes", {"QueueUrl": url, "AttributeNames": ["All"]})


LOOKUP = "get_queue_url"


def url_of(name: str, account: str | None = None) -> Call:
    arguments = {"QueueName": name}
    if account:
        arguments["QueueOwnerAWSAccountId"] = account
    return Call(LOOKUP, arguments)


def create(name: str, attributes: Mapping[str, str]) -> Call:
    return Call("create_queue", {"QueueName": name, "Attributes": dict(attributes)})


def purge(url: str) -> Call:
    return Call("purge_queue", {"QueueUrl": url})


def start_move(source_arn: str, destination_arn: str | None, per_second: int | None) -> Call:
    arguments: dict[str, Any] = {"SourceArn": source_arn}
    if destination_arn is not None:
        arguments["DestinationArn"] = destination_arn
    if per_second is not None:
        arguments["MaxNumberOfMessagesPerSecond"] = per_second
    return Call("start_message_move_task", arguments)


def list_moves(source_arn: str) -> Call:
    # Ten is the most that ListMessageMoveTasks returns.
    return Call("list_message_move_tasks", {"SourceArn": source_arn, "MaxResults": 10})


def cancel_move(task: str) -> Call:
    return Call("cancel_message_move_task", {"TaskHandle": task})
