"""What an operator does with a queue in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from jobq.core.errors import BackendError, ConfigurationError
from jobq.core.interfaces.operations import Finding, MoveProgress

if TYPE_CHECKING:
    from jobq.core.memory.server import MemoryServer, Place


class MemoryOperations:
    """`QueueOperations` of one queue. A move is over when `move_messages` returns."""

    def __init__(self, server: MemoryServer, place: Place) -> None:
        self._server = server
        self._place = place

    def move_messages(
        self, *, destination: str | None = None, per_second: int | None = None
    ) -> str:
        """Move what is visible, all at once: `per_second` has nothing to slow down here.

        Raises `ConfigurationError` unless this is a dead-letter queue and `destination` is of its
        kind, `QueueNotFoundError` where there is none of that name.
        """
        name, clock = self._place.store.name, self._server.clock
        if not self._place.sources:
            raise ConfigurationError(
                f"queue {name!r} is no queue's dead-letter queue: SQS moves messages of those only"
            )
        target = self._server.find(destination) if destination else None
        if target and target.store.fifo != self._place.store.fifo:
            raise ConfigurationError(
                f"messages of {name!r} can't move to {destination!r}, a queue of the other kind"
            )
        with self._server.lock:
            moved = self._place.store.move(
                target=target.store if target else None,
                now=clock.now(),
                unix_time=clock.unix_time(),
            )
            for place in [target] if target else self._place.sources:
                place.changed.announce()
        task = str(uuid4())
        self._place.moves[task] = MoveProgress(
            task=task, status="completed", moved=moved, total=moved
        )
        return task

    def move_progress(self, task: str) -> MoveProgress:
        if task not in self._place.moves:
            raise BackendError(
                f"queue {self._place.store.name!r} knows no move {task!r}",
                code="ResourceNotFoundException",
            )
        return self._place.moves[task]

    def cancel_move(self, task: str) -> MoveProgress:
        """How the move ended: there is nothing left to cancel."""
        return self.move_progress(task)

    def purge(self) -> None:
        with self._server.lock:
            self._place.store.purge()

    def diagnose(self) -> list[Finding]:
        name = self._place.store.name
        if self._place.store.redrive or self._place.sources:
            return [Finding(severity="ok", subject=name, problem="a redrive policy is in place")]
        return [
            Finding(
                severity="warning",
                subject=name,
                problem="no redrive policy: a message that always fails comes back for ever",
                remedy="give it a dead_letter_queue and a max_receive_count",
            )
        ]
