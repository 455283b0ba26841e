"""One receive of an in-memory queue, however its caller waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobq.core.limits import LARGEST_BATCH

if TYPE_CHECKING:
    from jobq.core.memory.clock import Clock
    from jobq.core.memory.server import Place
    from jobq.core.message import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Up to `limit` messages for `visibility` seconds, awaited until `until` on `clock`."""

    place: Place
    clock: Clock
    limit: int
    visibility: int | None
    until: float

    def look(self) -> tuple[list[Lease], float | None]:
        """What there is, ten at a time, and when to look again unless the queue changes earlier.

        None where the poll is over: it brought something, or its time is up.
        """
        leases: list[Lease] = []
        with self.place.changed:
            now = self.clock.now()
            while (room := min(LARGEST_BATCH, self.limit - len(leases))) > 0:
                got = self.place.store.receive(room, visibility=self.visibility, now=now)
                leases += got
                if len(got) < room:
                    break
            if self.place.dead_letter:
                self.place.dead_letter.changed.announce()
            if leases or now >= self.until:
                return leases, None
            due = self.place.store.next_due()
            return [], self.until if due is None else min(self.until, due)
