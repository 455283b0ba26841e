"""Flows of a dead-letter queue's redrive: start a move, follow it, cancel it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, cast

from jobq.core import BackendError, ConfigurationError
from jobq.core.interfaces import MoveProgress
from jobq.sqs.common import inspecting, replies, requests
from jobq.sqs.common.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobq.sqs.common.calls import Flow

_MOST_PER_SECOND = 500  # StartMessageMoveTask
_STATUSES = {"running", "completed", "cancelling", "cancelled", "failed"}


def start(address: Address, *, destination: str | None, per_second: int | None) -> Flow[str]:
    if per_second is not None and not 1 <= per_second <= _MOST_PER_SECOND:
        raise ConfigurationError(
            f"per_second must be 1 to {_MOST_PER_SECOND} messages, not {per_second!r}"
        )
    source_arn = yield from inspecting.arn_of(address)
    arn = (yield from inspecting.arn_of(Address(destination))) if destination else None
    call = requests.start_move(source_arn, arn, per_second)
    return replies.field_of((yield call), "TaskHandle", call)


def progress(address: Address, task: str) -> Flow[MoveProgress]:
    """How far the move has come.

    ListMessageMoveTasks gives handles of running moves only: without a match, the newest move that
    has none is meant, since a queue has one active move at a time.
    """
    call = requests.list_moves((yield from inspecting.arn_of(address)))
    found = replies.moves((yield call))
    named = [move for move in found if move.get("TaskHandle") == task]
    ended = sorted(
        (move for move in found if not move.get("TaskHandle")),
        key=lambda move: move.get("StartedTimestamp", 0),
        reverse=True,
    )
    if not named and not ended:
        raise BackendError(
            f"queue {address.name!r} knows no move {task!r}: SQS lists the last ten",
            code="ResourceNotFoundException",
        )
    return _progress(task, (named or ended)[0])


def cancel(address: Address, task: str) -> Flow[MoveProgress]:
    yield requests.cancel_move(task)
    return (yield from progress(address, task))


def _progress(task: str, move: Mapping[str, Any]) -> MoveProgress:
    status = str(move.get("Status", "")).lower()
    return MoveProgress(
        task=task,
        status=cast(
            "Literal['running', 'completed', 'cancelling', 'cancelled', 'failed']",
            status if status in _STATUSES else "failed",
        ),
        moved=int(move.get("ApproximateNumberOfMessagesMoved") or 0),
        total=move.get("ApproximateNumberOfMessagesToMove"),
        failure=move.get("FailureReason"),
    )
