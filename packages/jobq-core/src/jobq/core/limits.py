"""What SQS takes, in numbers and as checks that refuse the rest before anything happened.

Every queue checks by these, in memory as on SQS, and so does a group before its hooks run.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from jobq.core.attributes import check_text, message_size, spell_out
from jobq.core.errors import (
    ConfigurationError,
    DelayTooLongError,
    InvalidMessageError,
    MessageTooLargeError,
    UnsupportedFeatureError,
)
from jobq.core.message import Capabilities

if TYPE_CHECKING:
    from jobq.core.message import Attribute, Message

# SQS developer guide, "quotas related to messages". A batch's bytes are those of all its entries.
LARGEST_MESSAGE_BYTES = 1_048_576
LARGEST_BATCH = 10
LARGEST_BATCH_BYTES = 1_048_576
LONGEST_DELAY_SECONDS = 900
LONGEST_VISIBILITY_SECONDS = 43_200
# ReceiveMessage: WaitTimeSeconds.
LONGEST_WAIT_SECONDS = 20
# CreateQueue: QueueName, and RedrivePolicy's maxReceiveCount.
_LONGEST_QUEUE_NAME = 80
_MOST_RECEIVES = 1000
_QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]+(\.fifo)?\Z")
# SendMessage: MessageGroupId and MessageDeduplicationId.
_LONGEST_ID = 128
_ID = re.compile(r"[!-~]+\Z")

STANDARD = Capabilities(
    ordered=False,
    delays=True,
    priorities=False,
    largest_batch=LARGEST_BATCH,
    largest_message=LARGEST_MESSAGE_BYTES,
    longest_visibility=LONGEST_VISIBILITY_SECONDS,
)
FIFO = replace(STANDARD, ordered=True, delays=False)


class CheckedMessage(NamedTuple):
    """What is sent of a good message: its attributes, `size` in bytes, `delay` in whole seconds."""

    attributes: dict[str, Attribute]
    size: int
    delay: int


def check_message(message: Message, *, fifo: bool, max_bytes: int) -> CheckedMessage:
    """Raises `UnsupportedFeatureError`, `DelayTooLongError`, `InvalidMessageError` or
    `MessageTooLargeError` (`max_bytes` of body and attributes).
    """
    check_priority("priority", message.priority)
    delay = check_delay(message.delay_seconds, fifo=fifo)
    check_ids(message.group_id, message.deduplication_id, fifo=fifo)
    check_text("the body", message.body)
    attributes = spell_out(message.attributes)
    size = message_size(message.body, attributes)
    check_size("the message", size, max_bytes)
    return CheckedMessage(attributes, size, delay)


def check_size(owner: str, size: int, max_bytes: int) -> None:
    """Raise `MessageTooLargeError` where `owner`, a message, has more than `max_bytes`."""
    if size > max_bytes:
        raise MessageTooLargeError(
            f"{owner} has {size} bytes, body and attributes together, and the queue takes "
            f"{max_bytes}: store the payload elsewhere and send a reference"
        )


def check_priority(name: str, value: int) -> None:
    """Refuse any priority but 0."""
    if value != 0:
        raise UnsupportedFeatureError(
            f"{name} is {value!r}, and SQS queues have no priorities: leave it 0, "
            "or use a queue for each priority and weights"
        )


def check_delay(seconds: float, *, fifo: bool) -> int:
    """A message's delay in whole seconds."""
    if not _is_number(seconds) or not seconds >= 0:
        raise InvalidMessageError(f"delay_seconds must be 0 or more seconds, not {seconds!r}")
    if fifo and seconds != 0:
        raise UnsupportedFeatureError(
            f"delay_seconds is {seconds!r}, and a FIFO queue delays no single message: leave it 0, "
            "or use a standard queue"
        )
    if seconds > LONGEST_DELAY_SECONDS:
        raise DelayTooLongError(
            f"delay_seconds is {seconds!r}, and SQS delays a message for "
            f"{LONGEST_DELAY_SECONDS} s at most: enqueue it later"
        )
    return math.ceil(seconds)


def check_ids(
    group_id: str | None, deduplication_id: str | None, *, fifo: bool, prefix: str = ""
) -> None:
    """A group id is required on FIFO and welcome elsewhere; a deduplication id is FIFO's alone.

    `prefix` goes before both names where the caller's arguments have it.
    """
    if fifo and group_id is None:
        raise InvalidMessageError(
            f"{prefix}group_id is None, and a FIFO queue orders messages by group: "
            "give each message one"
        )
    if not fifo and deduplication_id is not None:
        raise UnsupportedFeatureError(
            f"{prefix}deduplication_id is {deduplication_id!r}, and a standard queue doesn't "
            "deduplicate: leave it None, or use a FIFO queue"
        )
    _check_id(f"{prefix}group_id", group_id)
    _check_id(f"{prefix}deduplication_id", deduplication_id)


def _check_id(name: str, value: object) -> None:
    if value is None:
        return
    if not (isinstance(value, str) and len(value) <= _LONGEST_ID and _ID.match(value)):
        raise InvalidMessageError(
            f"{name} is {value!r}: SQS takes 1 to {_LONGEST_ID} letters, digits and ASCII "
            "punctuation, no spaces"
        )


def check_visibility(seconds: float) -> int:
    """A visibility timeout in whole seconds; `ConfigurationError` outside 0 to 43,200."""
    if not (_is_number(seconds) and 0 <= seconds <= LONGEST_VISIBILITY_SECONDS):
        raise ConfigurationError(
            f"visibility must be 0 to {LONGEST_VISIBILITY_SECONDS} seconds, not {seconds!r}"
        )
    return math.ceil(seconds)


def check_retry_delay(seconds: float, *, name: str = "delay") -> int:
    """The delay of a message that is given back, in whole seconds.

    Raises `DelayTooLongError` over 43,200 and `ConfigurationError` for what is no such time.
    """
    if not _is_number(seconds):
        raise ConfigurationError(f"{name} must be a number of seconds, not {seconds!r}")
    if seconds > LONGEST_VISIBILITY_SECONDS:
        raise DelayTooLongError(
            f"{name} is {seconds!r} s, and a message can be hidden for "
            f"{LONGEST_VISIBILITY_SECONDS} s at most: send a new message for a later time"
        )
    if not seconds >= 0:
        raise ConfigurationError(f"{name} must be 0 or more seconds, not {seconds!r}")
    return math.ceil(seconds)


def check_receive(max_messages: int, wait: float, min_priority: int) -> int:
    """The wait of a receive in whole seconds."""
    check_priority("min_priority", min_priority)
    if not (type(max_messages) is int and max_messages >= 1):
        raise ConfigurationError(
            f"max_messages must be a whole number, at least 1, not {max_messages!r}"
        )
    if not (_is_number(wait) and 0 <= wait <= LONGEST_WAIT_SECONDS):
        raise ConfigurationError(f"wait must be 0 to {LONGEST_WAIT_SECONDS} seconds, not {wait!r}")
    return math.ceil(wait)


def check_queue_name(name: str) -> None:
    """Raise `ConfigurationError` for a name that CreateQueue doesn't take."""
    if not _QUEUE_NAME.match(name) or len(name) > _LONGEST_QUEUE_NAME:
        raise ConfigurationError(
            f"queue name {name!r}: SQS takes 1 to {_LONGEST_QUEUE_NAME} of A-Z, a-z, 0-9, '-' and "
            "'_', and '.fifo' at the end of a FIFO queue's"
        )


def check_redrive(
    queue: str, *, dead_letter_queue: str | None, max_receive_count: int | None
) -> None:
    """Raise `ConfigurationError` for what is no redrive policy of the queue of that name.

    `dead_letter_queue` is a name, URL or ARN.
    """
    if dead_letter_queue is None and max_receive_count is None:
        return
    if dead_letter_queue is None or max_receive_count is None:
        raise ConfigurationError(
            f"queue {queue!r}: dead_letter_queue={dead_letter_queue!r} and "
            f"max_receive_count={max_receive_count!r} go together: give both or neither"
        )
    if not 1 <= max_receive_count <= _MOST_RECEIVES:
        raise ConfigurationError(
            f"queue {queue!r}: max_receive_count must be 1 to {_MOST_RECEIVES}, "
            f"not {max_receive_count!r}"
        )
    if dead_letter_queue.endswith(".fifo") != queue.endswith(".fifo"):
        raise ConfigurationError(
            f"queue {queue!r}: {dead_letter_queue!r} is of another kind; a FIFO "
            "queue's dead-letter queue is FIFO, a standard queue's is standard"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
