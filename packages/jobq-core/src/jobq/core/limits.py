"""What SQS refuses, and so does a queue in memory, before anything happened."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from jobq.core.attributes import check_text, size, spell_out
from jobq.core.errors import (
    LONGEST_VISIBILITY_SECONDS,
    ConfigurationError,
    DelayTooLongError,
    InvalidMessageError,
    MessageTooLargeError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from jobq.core.message import Attribute, Message

# SQS quotas, "quotas related to messages".
LARGEST_MESSAGE_BYTES = 1_048_576
LARGEST_BATCH = 10
LONGEST_DELAY_SECONDS = 900
LONGEST_WAIT_SECONDS = 20
_ID = re.compile(r"[!-~]{1,128}\Z")


def check_message(message: Message, *, fifo: bool, max_bytes: int) -> dict[str, Attribute]:
    """The message's attributes, spelled out, once all of it is known to be good.

    Raises `UnsupportedFeatureError`, `DelayTooLongError`, `InvalidMessageError` or
    `MessageTooLargeError` (`max_bytes` of body and attributes).
    """
    check_priority("priority", message.priority)
    check_delay(message.delay_seconds, fifo=fifo)
    check_ids(message, fifo=fifo)
    check_text("the body", message.body)
    attributes = spell_out(message.attributes)
    total = len(message.body.encode()) + size(attributes)
    if total > max_bytes:
        raise MessageTooLargeError(
            f"the message has {total} bytes, body and attributes together, and the queue takes "
            f"{max_bytes}: store the payload elsewhere and send a reference"
        )
    return attributes


def check_priority(name: str, value: int) -> None:
    """Refuse any priority but 0."""
    if value != 0:
        raise UnsupportedFeatureError(
            f"{name} is {value!r}, and SQS queues have no priorities: leave it 0, "
            "or use a queue for each priority and weights"
        )


def check_delay(seconds: float, *, fifo: bool) -> int:
    """A message's delay in whole seconds."""
    if fifo and seconds != 0:
        raise UnsupportedFeatureError(
            f"delay_seconds is {seconds!r}, and a FIFO queue delays no single message: leave it 0, "
            "or use a standard queue"
        )
    if not seconds >= 0:
        raise InvalidMessageError(f"delay_seconds must be 0 or more, not {seconds!r}")
    if seconds > LONGEST_DELAY_SECONDS:
        raise DelayTooLongError(
            f"delay_seconds is {seconds!r}, and SQS delays a message for "
            f"{LONGEST_DELAY_SECONDS} s at most: enqueue it later"
        )
    return math.ceil(seconds)


def check_ids(message: Message, *, fifo: bool) -> None:
    """A group id is required on FIFO and welcome elsewhere; a deduplication id is FIFO's alone."""
    if fifo and message.group_id is None:
        raise InvalidMessageError(
            "group_id is None, and a FIFO queue orders messages by group: give each message one"
        )
    if not fifo and message.deduplication_id is not None:
        raise UnsupportedFeatureError(
            f"deduplication_id is {message.deduplication_id!r}, and a standard queue doesn't "
            "deduplicate: leave it None, or use a FIFO queue"
        )
    for name, value in (
        ("group_id", message.group_id),
        ("deduplication_id", message.deduplication_id),
    ):
        if value is not None and not _ID.match(value):
            raise InvalidMessageError(
                f"{name} is {value!r}: SQS takes 1 to 128 letters, digits and ASCII punctuation, "
                "no spaces"
            )


def check_visibility(seconds: float) -> int:
    """A visibility timeout in whole seconds; `ConfigurationError` outside 0 to 43,200."""
    if not 0 <= seconds <= LONGEST_VISIBILITY_SECONDS:
        raise ConfigurationError(
            f"visibility must be 0 to {LONGEST_VISIBILITY_SECONDS} seconds, not {seconds!r}"
        )
    return math.ceil(seconds)


def check_retry_delay(seconds: float) -> int:
    """The delay of a nack in whole seconds; `DelayTooLongError` over 43,200."""
    if seconds > LONGEST_VISIBILITY_SECONDS:
        raise DelayTooLongError(
            f"delay is {seconds!r} s, and a message can be hidden for "
            f"{LONGEST_VISIBILITY_SECONDS} s at most: send a new message for a later time"
        )
    if not seconds >= 0:
        raise ConfigurationError(f"delay must be 0 or more seconds, not {seconds!r}")
    return math.ceil(seconds)


def check_receive(max_messages: int, wait: float, min_priority: int) -> int:
    """The wait of a receive in whole seconds."""
    check_priority("min_priority", min_priority)
    if max_messages < 1:
        raise ConfigurationError(f"max_messages must be at least 1, not {max_messages!r}")
    if not 0 <= wait <= LONGEST_WAIT_SECONDS:
        raise ConfigurationError(f"wait must be 0 to {LONGEST_WAIT_SECONDS} seconds, not {wait!r}")
    return math.ceil(wait)
