"""SQS's rules for one queue, standard or FIFO, as a state machine.

It does no IO, takes no lock and reads no clock: time is an argument, in seconds on one clock that
never goes back. What it draws on for ids is handed in. A shell around it locks and waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

from jobq.core.attributes import natural
from jobq.core.errors import BackendError, LeaseLostError
from jobq.core.limits import LONGEST_VISIBILITY_SECONDS, check_message
from jobq.core.memory.lanes import Entry, Lane
from jobq.core.message import QueueStats

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jobq.core.message import Lease, Message

# SQS developer guide, "exactly-once processing": a deduplication id is remembered for five minutes.
DEDUPLICATION_SECONDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """Where a message goes on the receive that would exceed `max_receive_count`."""

    target: Store
    max_receive_count: int


class Store:
    """The messages of one queue. `visibility_timeout` is in whole seconds."""

    def __init__(
        self,
        name: str,
        *,
        fifo: bool,
        visibility_timeout: int,
        max_message_bytes: int,
        new_id: Callable[[], str],
        redrive: Redrive | None = None,
    ) -> None:
        self.name = name
        self.fifo = fifo
        self.visibility_timeout = visibility_timeout
        self.max_message_bytes = max_message_bytes
        self.redrive = redrive
        self._new_id = new_id
        self._numbers = count(1)
        self._sent: dict[str, tuple[str, float]] = {}
        self.purge()

    def send(self, message: Message, *, now: float, unix_time: float) -> str:
        """Take the message and return its id; that of an earlier one where FIFO deduplicates.

        Raises what `check_message` raises, and then nothing has changed.
        """
        checked = check_message(message, fifo=self.fifo, max_bytes=self.max_message_bytes)
        self._forget_sent(now)
        earlier = self._sent.get(message.deduplication_id or "")
        if earlier:
            return earlier[0]
        entry = Entry(
            message_id=self._new_id(),
            body=message.body,
            attributes=checked.attributes,
            group_id=message.group_id,
            sent_at=unix_time,
        )
        if message.deduplication_id is not None:
            self._sent[message.deduplication_id] = (entry.message_id, now + DEDUPLICATION_SECONDS)
        self.admit(entry)
        if checked.delay:
            self._hide(entry, now + checked.delay)
        return entry.message_id

    def receive(self, limit: int, *, visibility: int | None, now: float) -> list[Lease]:
        """Up to `limit` messages, each hidden for `visibility` seconds and with a new receipt.

        A FIFO group gives as many as it can, in order, before the next one is asked.
        """
        self._show_due(now)
        seconds = self.visibility_timeout if visibility is None else visibility
        leases: list[Lease] = []
        while len(leases) < limit and (lane := self._next_free()):
            room = limit - len(leases)
            self._dead_letter_spent(lane, room)
            leases += [self._lease(entry, now=now, seconds=seconds) for entry in lane.first(room)]
        return leases

    def delete(self, receipt: str, *, now: float) -> None:
        """Delete the message, or do nothing where it is gone already.

        A receipt that isn't the latest deletes nothing on a standard queue and raises
        `LeaseLostError` on FIFO, where one whose visibility timeout is over does, too.
        """
        self._show_due(now)
        entry = self._find(receipt)
        if entry is None:
            return
        current = entry.receipt == receipt
        if self.fifo and not (current and entry.hidden):
            raise self._lost(receipt, "has expired", "ReceiptHandleIsInvalid")
        if current:
            self._remove(entry)

    def change_visibility(self, receipt: str, seconds: int, *, now: float) -> float:
        """Hide the message until `seconds` from now, which is returned.

        Raises `LeaseLostError` where it isn't in flight under this receipt, and `BackendError`
        where it would be hidden for over 12 hours since its receive (SQS: never clamped).
        """
        self._show_due(now)
        entry = self._find(receipt)
        if entry is None:
            raise self._lost(receipt, "is of a message that was deleted", "MessageNotInflight")
        if entry.receipt != receipt:
            raise self._lost(receipt, "is older than the latest receive", "ReceiptHandleIsInvalid")
        if not entry.hidden:
            raise self._lost(receipt, "is of a message not in flight", "MessageNotInflight")
        if now + seconds > entry.received_at + LONGEST_VISIBILITY_SECONDS:
            left = entry.received_at + LONGEST_VISIBILITY_SECONDS - now
            raise BackendError(
                f"queue {self.name!r}: a visibility timeout of {seconds} s goes beyond 12 hours "
                f"since the receive, of which {left:.0f} s are left: ask for no more than that",
                code="InvalidParameterValue",
            )
        self._hide(entry, now + seconds)
        return entry.visible_at

    def admit(self, entry: Entry) -> None:
        """Put the entry behind all others; visible, unless it is hidden afterwards."""
        entry.sequence = next(self._numbers)
        self._entries[entry.message_id] = entry
        key = self._key(entry)
        lane = self._lanes.setdefault(key, Lane(key))
        lane.add(entry)
        self._offer(lane)

    def entries(self) -> Mapping[str, Entry]:
        """All messages by id, to look at."""
        return self._entries

    def next_due(self) -> float | None:
        """When the next hidden message becomes visible by itself, or None."""
        while self._due and not self._is_due(*self._due[0]):
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def due_after(self, now: float) -> float | None:
        """The same, once what is due by `now` has become visible."""
        self._show_due(now)
        return self.next_due()

    def stats(self, *, now: float) -> QueueStats:
        self._show_due(now)
        hidden = [entry for entry in self._entries.values() if entry.hidden]
        delayed = sum(not entry.receipt for entry in hidden)
        return QueueStats(
            waiting=len(self._entries) - len(hidden),
            in_flight=len(hidden) - delayed,
            delayed=delayed,
        )

    def purge(self) -> None:
        """Forget every message, in flight or not. Deduplication ids stay remembered."""
        self._entries: dict[str, Entry] = {}
        self._lanes: dict[str, Lane] = {}
        # Heaps with stale items in them: what no longer holds is skipped when it comes up.
        self._free: list[tuple[int, str]] = []
        self._due: list[tuple[float, int, str]] = []

    def move(self, *, target: Store | None, now: float, unix_time: float) -> int:
        """Send what is visible on to `target`, or each message to the store it came from.

        As on SQS a moved message counts as new: another id, sent now, never received. Returns how
        many went; a message that came from no store stays.
        """
        self._show_due(now)
        moved = 0
        for entry in list(self._entries.values()):
            store = target or entry.source
            if store is None or entry.hidden:
                continue
            self._remove(entry)
            store.admit(
                Entry(
                    message_id=self._new_id(),
                    body=entry.body,
                    attributes=entry.attributes,
                    group_id=entry.group_id,
                    sent_at=unix_time,
                )
            )
            moved += 1
        return moved

    def _remove(self, entry: Entry) -> None:
        del self._entries[entry.message_id]
        lane = self._lanes[self._key(entry)]
        lane.remove(entry)
        self._offer(lane)

    def _dead_letter_spent(self, lane: Lane, room: int) -> None:
        """Move away what may not be received again, until the first `room` messages may."""
        redrive = self.redrive
        while redrive:
            first = lane.first(room)
            spent = [entry for entry in first if entry.receive_count >= redrive.max_receive_count]
            if not spent:
                return
            for entry in spent:
                self._remove(entry)
                entry.receipt, entry.source = "", self
                redrive.target.admit(entry)

    def _lease(self, entry: Entry, *, now: float, seconds: int) -> Lease:
        entry.receive_count += 1
        entry.receipt = f"{self.name}#{entry.message_id}#{next(self._numbers)}"
        entry.received_at = now
        self._hide(entry, now + seconds)
        return entry.lease({key: natural(value) for key, value in entry.attributes.items()})

    def _hide(self, entry: Entry, until: float) -> None:
        self._lanes[self._key(entry)].hide(entry, until)
        heappush(self._due, (until, entry.sequence, entry.message_id))

    def _show_due(self, now: float) -> None:
        while (due := self.next_due()) is not None and due <= now:
            entry = self._entries[heappop(self._due)[2]]
            lane = self._lanes[self._key(entry)]
            lane.show(entry)
            self._offer(lane)

    def _is_due(self, visible_at: float, sequence: int, message_id: str) -> bool:
        entry = self._entries.get(message_id)
        return (
            entry is not None
            and entry.hidden
            and (entry.visible_at, entry.sequence) == (visible_at, sequence)
        )

    def _offer(self, lane: Lane) -> None:
        if lane.free:
            heappush(self._free, (lane.head().sequence, lane.key))
        elif not lane.entries:
            del self._lanes[lane.key]

    def _next_free(self) -> Lane | None:
        """The free lane whose first message is the oldest."""
        while self._free:
            sequence, key = heappop(self._free)
            lane = self._lanes.get(key)
            if lane and lane.free and lane.head().sequence == sequence:
                return lane
        return None

    def _key(self, entry: Entry) -> str:
        return (entry.group_id or "") if self.fifo else entry.message_id

    def _find(self, receipt: str) -> Entry | None:
        name, _, rest = receipt.rpartition("#")[0].rpartition("#")
        if name != self.name:
            raise self._lost(receipt, "is none of this queue's", "ReceiptHandleIsInvalid")
        return self._entries.get(rest)

    def _lost(self, receipt: str, why: str, code: str) -> LeaseLostError:
        return LeaseLostError(f"queue {self.name!r}: receipt {receipt!r} {why}", code=code)

    def _forget_sent(self, now: float) -> None:
        # A dict keeps the order of insertion and every id lives equally long: oldest first.
        while self._sent:
            oldest = next(iter(self._sent))
            if self._sent[oldest][1] > now:
                return
            del self._sent[oldest]
