"""What an operator does with a queue, beyond sending and receiving."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a diagnosis found, with its remedy."""

    severity: Literal["ok", "warning", "error"]
    subject: str
    problem: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveProgress:
    """How far a move of messages has come; `total` is an estimate, None where it isn't known."""

    task: str
    status: Literal["running", "completed", "cancelling", "cancelled", "failed"]
    moved: int
    total: int | None = None
    failure: str | None = None


class QueueOperations(Protocol):
    """Offered as `queue.operations` by backends that have it."""

    def move_messages(
        self, *, destination: str | None = None, per_second: int | None = None
    ) -> str:
        """Start moving this dead-letter queue's messages; returns the task's handle.

        Without a `destination` (name, URL or ARN) each goes back to the queue it came from.
        """
        ...

    def move_progress(self, task: str) -> MoveProgress: ...

    def cancel_move(self, task: str) -> MoveProgress: ...

    def purge(self) -> None:
        """Delete all messages, in flight ones included; SQS takes up to 60 s over it."""
        ...

    def diagnose(self) -> list[Finding]: ...


class AsyncQueueOperations(Protocol):
    """The awaited twin of `QueueOperations`, offered as `queue.operations` by async queues."""

    async def move_messages(
        self, *, destination: str | None = None, per_second: int | None = None
    ) -> str:
        """Start moving this dead-letter queue's messages; returns the task's handle.

        Without a `destination` (name, URL or ARN) each goes back to the queue it came from.
        """
        ...

    async def move_progress(self, task: str) -> MoveProgress: ...

    async def cancel_move(self, task: str) -> MoveProgress: ...

    async def purge(self) -> None:
        """Delete all messages, in flight ones included; SQS takes up to 60 s over it."""
        ...

    async def diagnose(self) -> list[Finding]: ...
