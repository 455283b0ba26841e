"""Which message takes a free slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.worker.engine import leases
from jobq.worker.engine.commands import Run
from jobq.worker.engine.state import Phase

if TYPE_CHECKING:
    from jobq.worker.engine.state import Held, QueueState, State

# How many starts a queue may be owed after a time without messages, in its own turns.
OWED_TURNS = 2


def start_jobs(state: State) -> None:
    """Fill the free slots with what may start."""
    while state.running < state.config.concurrency:
        held = _next(state)
        if held is None:
            return
        if leases.may_run_out(state, held):
            leases.expire(state, held)
        else:
            _start(state, held)


def turn(queue: QueueState, state: State, ahead: int = 0) -> float:
    """Where a queue stands in weighted order once `ahead` more of its messages have started."""
    floor = state.virtual - OWED_TURNS / queue.config.weight
    return max(queue.virtual, floor) + ahead / queue.config.weight


def _next(state: State) -> Held | None:
    urgent = [
        next(iter(queue.urgent.values()))
        for queue in state.queues
        if queue.urgent and not queue.full
    ]
    if urgent:
        return min(urgent, key=_number)
    if state.config.polling == "strict":
        return _next_strict(state)
    ready = [queue for queue in state.queues if queue.ready and not queue.full]
    if not ready:
        return None
    queue = ready[0] if len(ready) == 1 else min(ready, key=lambda one: turn(one, state))
    return next(iter(queue.ready.values()))


def _next_strict(state: State) -> Held | None:
    free_since = state.free_since[0]
    for queue in state.queues:
        if queue.full:
            continue
        if queue.ready:
            return next(iter(queue.ready.values()))
        must_ask = queue.had_work and not queue.closed and queue.poll_at <= state.now
        if must_ask and queue.asked_at < free_since:
            return None
    return None


def _number(held: Held) -> int:
    return held.key


def _start(state: State, held: Held) -> None:
    queue = held.queue
    queue.ready.pop(held.key, None)
    queue.urgent.pop(held.key, None)
    held.phase = Phase.RUNNING
    held.started_at = state.now
    held.start_by = leases.start_by(held)
    held.runtime_ends = state.now + held.max_runtime
    state.due(held, held.runtime_ends)
    queue.running += 1
    queue.virtual = turn(queue, state)
    state.virtual = max(state.virtual, queue.virtual)
    queue.virtual += 1 / queue.config.weight
    state.running += 1
    state.free_since.popleft()
    state.runs[held.key] = held
    state.count("started")
    state.out.append(
        Run(
            held.key,
            queue.config.name,
            held.lease,
            held.job,
            held.start_by,
            min(held.runtime_ends, held.limit_at),
        )
    )
