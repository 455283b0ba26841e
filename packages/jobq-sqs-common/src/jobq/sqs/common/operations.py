"""What an operator does with a queue, over blocking calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.sqs.common import diagnosis, moving, requests

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from jobq.core.interfaces import Finding, MoveProgress
    from jobq.sqs.common.addresses import Address
    from jobq.sqs.common.calls import Flow


def purge(address: Address) -> Flow[None]:
    yield requests.purge((yield from address.url()))


class SqsOperations:
    """`QueueOperations` of one queue; `run` carries out a flow."""

    def __init__(self, address: Address, *, run: Callable[[Flow[Any]], Any]) -> None:
        self._address = address
        self._run = run

    def move_messages(
        self, *, destination: str | None = None, per_second: int | None = None
    ) -> str:
        """Start StartMessageMoveTask on this dead-letter queue; `per_second` is 1 to 500."""
        return self._run(
            moving.start(self._address, destination=destination, per_second=per_second)
        )

    def move_progress(self, task: str) -> MoveProgress:
        return self._run(moving.progress(self._address, task))

    def cancel_move(self, task: str) -> MoveProgress:
        return self._run(moving.cancel(self._address, task))

    def purge(self) -> None:
        """Delete all messages, in flight ones included; SQS takes up to 60 s, once in 60 s."""
        self._run(purge(self._address))

    def diagnose(self) -> list[Finding]:
        return self._run(diagnosis.diagnose(self._address))
