"""What an operator does with a queue, over awaited calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.sqs.common import diagnosis, moving
from jobq.sqs.common.operations import purge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from jobq.core.interfaces import Finding, MoveProgress
    from jobq.sqs.common.addresses import Address
    from jobq.sqs.common.calls import Flow


class AsyncSqsOperations:
    """`AsyncQueueOperations` of one queue; `run` carries out a flow."""

    def __init__(self, address: Address, *, run: Callable[[Flow[Any]], Awaitable[Any]]) -> None:
        self._address = address
        self._run = run

    async def move_messages(
        self, *, destination: str | None = None, per_second: int | None = None
    ) -> str:
        """Start StartMessageMoveTask on this dead-letter queue; `per_second` is 1 to 500."""
        return await self._run(
            moving.start(self._address, destination=destination, per_second=per_second)
        )

    async def move_progress(self, task: str) -> MoveProgress:
        return await self._run(moving.progress(self._address, task))

    async def cancel_move(self, task: str) -> MoveProgress:
        return await self._run(moving.cancel(self._address, task))

    async def purge(self) -> None:
        """Delete all messages, in flight ones included; SQS takes up to 60 s, once in 60 s."""
        await self._run(purge(self._address))

    async def diagnose(self) -> list[Finding]:
        return await self._run(diagnosis.diagnose(self._address))
