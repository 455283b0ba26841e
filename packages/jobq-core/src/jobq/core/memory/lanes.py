"""What must be received together, in order, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from jobq.core.message import Attribute, AttributeValue, Lease

if TYPE_CHECKING:
    from jobq.core.memory.store import Store


@dataclass(slots=True, kw_only=True)
class Entry:
    """A message in a store. `visible_at` counts only while it is `hidden`.

    It is hidden by a delay, without a `receipt`, or by a receive, whose receipt is the latest.
    """

    message_id: str
    body: str
    attributes: Mapping[str, Attribute]
    group_id: str | None
    sent_at: float
    sequence: int = 0
    hidden: bool = False
    visible_at: float = 0.0
    receive_count: int = 0
    receipt: str = ""
    received_at: float = 0.0
    source: Store | None = None

    def lease(self, attributes: Mapping[str, AttributeValue]) -> Lease:
        return Lease(
            message_id=self.message_id,
            body=self.body,
            attributes=attributes,
            receipt=self.receipt,
            receive_count=self.receive_count,
            sent_at=self.sent_at,
            group_id=self.group_id,
            expires_at=self.visible_at,
        )


@dataclass(slots=True)
class Lane:
    """Messages in the order they were sent, locked while any of them is hidden.

    On FIFO a group is a lane; on a standard queue each message has one to itself, so that one set
    of rules serves both kinds.
    """

    key: str
    entries: dict[int, Entry] = field(default_factory=dict[int, Entry])
    hidden: int = 0

    @property
    def free(self) -> bool:
        return not self.hidden and bool(self.entries)

    def head(self) -> Entry:
        return next(iter(self.entries.values()))

    def first(self, limit: int) -> list[Entry]:
        return list(islice(self.entries.values(), limit))

    def add(self, entry: Entry) -> None:
        self.entries[entry.sequence] = entry
        self.hidden += entry.hidden

    def remove(self, entry: Entry) -> None:
        del self.entries[entry.sequence]
        self.hidden -= entry.hidden

    def hide(self, entry: Entry, until: float) -> None:
        self.hidden += not entry.hidden
        entry.hidden, entry.visible_at = True, until

    def show(self, entry: Entry) -> None:
        self.hidden -= entry.hidden
        entry.hidden = False
