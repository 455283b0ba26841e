"""A payload as a log line may hold it: masked, and no longer than 4 KiB."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from jobq.core.attributes import message_size

if TYPE_CHECKING:
    from jobq.core import Lease

LONGEST_BYTES = 4096
MASK = "***"


def size_of(lease: Lease) -> int:
    """Body and attributes in bytes, as SQS counts them."""
    return message_size(lease.body, lease.attributes)


def payload_text(body: str, sensitive: frozenset[str]) -> str:
    """The payload that `body` holds, with the values of `sensitive` keys masked at every depth.

    JSON, cut at 4 KiB. It is read anew: a handler may have changed the one that it was given.
    """
    masked = _masked(json.loads(body)["payload"], sensitive)
    text = json.dumps(masked, ensure_ascii=False)
    cut = text.encode(errors="backslashreplace")[:LONGEST_BYTES]
    return cut.decode(errors="ignore")


def _masked(value: object, sensitive: frozenset[str]) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        return {
            key: MASK if key in sensitive else _masked(one, sensitive)
            for key, one in fields.items()
        }
    if isinstance(value, list):
        return [_masked(one, sensitive) for one in cast("list[object]", value)]
    return value
