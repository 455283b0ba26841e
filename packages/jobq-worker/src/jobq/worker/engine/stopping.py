"""How a worker ends: on a stop, in time or past it, and at the end of a burst."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jobq.worker.engine import lanes
from jobq.worker.engine.commands import Abandon, AnnounceStop, Exit
from jobq.worker.engine.state import Phase

if TYPE_CHECKING:
    from jobq.worker.engine.state import QueueState, State

FAILURES_THAT_END = 10


def stop(state: State, *, code: int = 0, reason: str | None = None) -> None:
    """Receive no more; all that had not started goes back, what runs has `shutdown_timeout`."""
    worse, state.exit_code = code > state.exit_code, max(state.exit_code, code)
    if state.stopping:
        if worse:
            state.error("worker_stopping", running=state.running, reason=reason)
        return
    state.stopping = True
    state.stop_by = state.now + state.config.shutdown_timeout
    state.out.append(AnnounceStop())
    if reason is None:
        state.info("worker_stopping", running=state.running)
    else:
        state.error("worker_stopping", running=state.running, reason=reason)
    for queue in state.queues:
        queue.refusals.clear()
        give_back_waiting(state, queue)


def give_back_waiting(state: State, queue: QueueState) -> None:
    """Give back what waits; the call goes out once no poll of the queue is."""
    waiting = [held for held in queue.held.values() if held.phase is Phase.WAITING]
    lanes.retreat(state, waiting)


def end_if_done(state: State) -> None:
    """Say `Exit` once nothing is in hand and no call is out, or the time for it is over."""
    if state.ended:
        return
    busy = state.polls or state.calls or any(queue.held for queue in state.queues)
    if state.stopping:
        if not busy:
            _exit(state)
        elif state.now >= state.stop_by:
            _cut_short(state)
    elif not busy:
        _end_if_nothing_comes(state)


def _end_if_nothing_comes(state: State) -> None:
    """Nothing is in hand: see whether anything will be."""
    closed = [queue for queue in state.queues if queue.closed]
    quiet = quiet_queues(state)
    if closed and all(given_up(queue) for queue in state.queues):
        stop(state, code=1, reason="no queue is left from which messages may be deleted")
        _exit(state)
    elif state.config.burst and all(queue in quiet or queue.closed for queue in state.queues):
        if closed:
            names = ", ".join(repr(queue.config.name) for queue in closed)
            stop(state, code=1, reason=f"messages of {names} may not be deleted")
        _exit(state)


def given_up(queue: QueueState) -> bool:
    """Nothing comes from this queue any more, as far as anybody can tell."""
    return queue.failures >= FAILURES_THAT_END or (queue.closed and not queue.held)


def quiet_queues(state: State) -> list[QueueState]:
    """In a burst: the queues known to be empty since anything last happened; not asked again."""
    if not state.config.burst or any(queue.held for queue in state.queues):
        return []
    since = max(state.last_settled, state.retry_due)
    return [queue for queue in state.queues if queue.quiet_since >= since]


def _cut_short(state: State) -> None:
    state.exit_code = 1
    for queue in state.queues:
        for held in list(queue.held.values()):
            _leave(state, queue, held.key)
    _exit(state)


def _leave(state: State, queue: QueueState, key: int) -> None:
    held = queue.held[key]
    if held.phase is Phase.RUNNING:
        if not held.lost:
            held.lost = True
            state.out.append(Abandon(held.key))
        held.seconds = state.now - held.started_at
        state.end(held, "heartbeat_failed")
    elif held.phase is Phase.SETTLING:
        state.end_undone(held)
    else:
        state.count("left")
        state.end(held, "released")


def _exit(state: State) -> None:
    state.ended = True
    state.out.append(Exit(state.exit_code, state.accounts(), still_running=len(state.runs)))


def wakes_at(state: State) -> float:
    return state.stop_by if state.stopping and not state.ended else math.inf
