"""Queues whose messages may not be deleted: what is claimed of one would run again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.core import BackendError
from jobq.worker.engine import stopping

if TYPE_CHECKING:
    from jobq.core import JobqError
    from jobq.worker.engine.state import Call, QueueState, State

REFUSALS_THAT_CLOSE = 10


def refused(state: State, call: Call, refusals: list[JobqError]) -> int:
    """Count deletes that were refused: `refusals` are those after the last success of the call.

    Ten in a row, or one for want of permission, close the queue. Returns how often deletes have
    failed in a row by now.
    """
    queue = call.queue
    queue.refused_deletes += len(refusals)
    if call.sent_at >= queue.delete_failed_at:
        # Calls that were out beside each other break of one hiccup, as all entries of one call do.
        queue.delete_failures += 1
        queue.delete_failed_at = state.now
    too_many = queue.refused_deletes >= REFUSALS_THAT_CLOSE and queue.delete_failures > 1
    denied = [one for one in refusals if isinstance(one, BackendError) and _is_final(one)]
    if not queue.closed and (too_many or denied):
        _close(state, queue, denied[0] if denied else refusals[0])
    return queue.delete_failures


def succeeded(state: State, queue: QueueState) -> None:
    """The first delete that succeeds opens the queue."""
    queue.refused_deletes = queue.delete_failures = 0
    if queue.closed:
        queue.closed = False
        state.info("queue_reopened", queue=queue.config.name)


def _is_final(error: BackendError) -> bool:
    return error.denied and not error.retryable


def _close(state: State, queue: QueueState, error: JobqError) -> None:
    queue.closed = True
    # Nobody asks it, and it keeps no room from its neighbours.
    queue.rest()
    state.error("queue_closed", queue=queue.config.name, error=str(error))
    if state.config.on_broken_queue == "exit":
        stopping.stop(state, code=1, reason=f"messages may not be deleted: {error}")
