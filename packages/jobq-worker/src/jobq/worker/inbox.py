"""What the engine is to be told, in the order in which it happened."""

from __future__ import annotations

from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobq.worker.engine.events import Event


class Inbox:
    """Takes events from any thread, and from a signal handler: nothing here takes a lock.

    It is true while it holds some.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()

    def __bool__(self) -> bool:
        return bool(self._events)

    def put(self, event: Event) -> None:
        """Add it and wake who waits."""
        self._events.append(event)
        self._bell.put(None)

    def add(self, event: Event) -> None:
        """Add it and wake nobody: the caller sees that it is taken out."""
        self._events.append(event)

    def take(self) -> list[Event]:
        """All that there is, for one thread at a time."""
        taken: list[Event] = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    def ring(self) -> None:
        """Wake who waits."""
        self._bell.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait until it rings, for one thread alone; False: it didn't within so many seconds."""
        try:
            self._bell.get(timeout=seconds)
        except Empty:
            return False
        while not self._bell.empty():
            self._bell.get()
        return True
