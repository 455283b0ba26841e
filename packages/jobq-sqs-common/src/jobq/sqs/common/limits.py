"""The numbers of SQS, and the checks that refuse what it would refuse, before any call.

Sources: SQS developer guide, "quotas related to messages"; API reference of each operation.
"""

from __future__ import annotations

import re

from jobq.core import Capabilities, ConfigurationError
from jobq.core.attributes import size, spell_out
from jobq.core.errors import LONGEST_VISIBILITY_SECONDS
from jobq.core.limits import (
    LARGEST_BATCH,
    LARGEST_MESSAGE_BYTES,
    check_message,
    check_receive,
    check_retry_delay,
    check_visibility,
)

LARGEST_BATCH_BYTES = 1_048_576
# ReceiveRequestAttemptId can be used again for five minutes.
ATTEMPT_SECONDS = 300
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.fifo)?\Z")
_LONGEST_NAME = 80

STANDARD = Capabilities(
    ordered=False,
    delays=True,
    priorities=False,
    largest_batch=LARGEST_BATCH,
    largest_message=LARGEST_MESSAGE_BYTES,
    longest_visibility=LONGEST_VISIBILITY_SECONDS,
)
FIFO = Capabilities(
    ordered=True,
    delays=False,
    priorities=False,
    largest_batch=LARGEST_BATCH,
    largest_message=LARGEST_MESSAGE_BYTES,
    longest_visibility=LONGEST_VISIBILITY_SECONDS,
)


def check_queue_name(name: str) -> None:
    """Raise `ConfigurationError` for a name that CreateQueue doesn't take."""
    if not _NAME.match(name) or len(name) > _LONGEST_NAME:
        raise ConfigurationError(
            f"queue name {name!r}: SQS takes 1 to {_LONGEST_NAME} of A-Z, a-z, 0-9, '-' and '_', "
            "and '.fifo' at the end of a FIFO queue's"
        )


__all__ = [
    "ATTEMPT_SECONDS",
    "FIFO",
    "LARGEST_BATCH",
    "LARGEST_BATCH_BYTES",
    "LARGEST_MESSAGE_BYTES",
    "STANDARD",
    "check_message",
    "check_queue_name",
    "check_receive",
    "check_retry_delay",
    "check_visibility",
    "size",
    "spell_out",
]
