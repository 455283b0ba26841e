"""Where in-memory queues live: what an account and region are to SQS."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from jobq.core.errors import ConfigurationError, QueueNotFoundError
from jobq.core.limits import (
    LARGEST_MESSAGE_BYTES,
    check_queue_name,
    check_redrive,
    check_visibility,
)
from jobq.core.memory.changes import Changes
from jobq.core.memory.clock import Clock, SystemClock
from jobq.core.memory.store import Redrive, Store

if TYPE_CHECKING:
    from jobq.core.interfaces.operations import MoveProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSpec:
    """How a queue is made where there is none of its name. Raises `ConfigurationError`."""

    name: str
    fifo: bool
    visibility_timeout: float = 30
    dead_letter_queue: str | None = None
    max_receive_count: int | None = None
    max_message_bytes: int = LARGEST_MESSAGE_BYTES

    def __post_init__(self) -> None:
        check_queue_name(self.name)
        if self.fifo != self.name.endswith(".fifo"):
            raise ConfigurationError(
                f"queue name {self.name!r} and fifo={self.fifo}: the names of FIFO queues end in "
                "'.fifo', and no others do"
            )
        check_visibility(self.visibility_timeout)
        check_redrive(
            self.name,
            dead_letter_queue=self.dead_letter_queue,
            max_receive_count=self.max_receive_count,
        )


@dataclass(slots=True, kw_only=True, eq=False)
class Place:
    """One queue on a server. `changed` holds the server's one lock."""

    store: Store
    changed: Changes
    dead_letter: Place | None = None
    sources: list[Place] = field(default_factory=list["Place"])
    moves: dict[str, MoveProgress] = field(default_factory=dict[str, "MoveProgress"])


class MemoryServer:
    """Named queues in memory, on one clock; a `MemoryQueue` is a handle on one of them.

    Groups that should see the same queues are built with the same server as their `client`.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        # One lock for all queues, so that a message moves between two of them at once.
        self.lock = threading.RLock()
        self._places: dict[str, Place] = {}

    def place(self, spec: QueueSpec) -> Place:
        """The queue of that name as it is, or a new one as the specification says."""
        with self.lock:
            if spec.name not in self._places:
                self._places[spec.name] = self._make(spec)
            return self._places[spec.name]

    def find(self, name: str) -> Place:
        """The queue of that name (or URL); raises `QueueNotFoundError`."""
        key = name.rstrip("/").rpartition("/")[2].rpartition(":")[2]
        with self.lock:
            if key not in self._places:
                raise QueueNotFoundError(
                    f"no queue {name!r} in memory; there are: {', '.join(sorted(self._places))}",
                    code="QueueDoesNotExist",
                )
            return self._places[key]

    def next_due(self) -> float | None:
        """When, on `clock`, the next hidden message of any queue becomes visible by itself."""
        with self.lock:
            now = self.clock.now()
            moments = [place.store.due_after(now) for place in self._places.values()]
        return min((moment for moment in moments if moment is not None), default=None)

    def _make(self, spec: QueueSpec) -> Place:
        dead_letter = redrive = None
        if spec.dead_letter_queue is not None and spec.max_receive_count is not None:
            dead_letter = self.place(QueueSpec(name=spec.dead_letter_queue, fifo=spec.fifo))
            redrive = Redrive(target=dead_letter.store, max_receive_count=spec.max_receive_count)
        place = Place(
            store=Store(
                spec.name,
                fifo=spec.fifo,
                visibility_timeout=check_visibility(spec.visibility_timeout),
                max_message_bytes=spec.max_message_bytes,
                new_id=lambda: str(uuid4()),
                redrive=redrive,
            ),
            changed=Changes(self.lock),
            dead_letter=dead_letter,
        )
        if dead_letter:
            dead_letter.sources.append(place)
        return place
