"""Heartbeats: what is extended when, and when a lease counts as lost."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from jobq.core import LeaseLostError
from jobq.worker.engine import lanes
from jobq.worker.engine.commands import Abandon, Extend
from jobq.worker.engine.state import Call, Phase

if TYPE_CHECKING:
    from jobq.core import ExtendResult, Lease
    from jobq.worker.engine.state import Held, QueueState, State

# Extending starts at this share of the visibility timeout; what is due within half of that again
# goes along in the same call.
EXTEND_AT = 1 / 3
COMPANY = 1 / 6
# The service counts the 12 hours from a moment before the reply arrived.
LIMIT_MARGIN_SECONDS = 1
# Nothing starts on less than this, or on a tenth of a shorter visibility timeout.
START_MARGIN_SECONDS = 1.0


def date(state: State, held: Held, lease: Lease, *, received_at: float | None = None) -> None:
    """Take over a newer lease; `received_at` where it came with a receive, not an extension."""
    visibility = held.queue.config.visibility
    if received_at is not None:
        held.limit_at = received_at + held.queue.config.longest_visibility
        if received_at + visibility < lease.expires_at:
            # A reply that lay unread while the process stood still is as old as the stall. Whoever
            # makes a call with this lease is to know it too.
            lease = replace(lease, expires_at=received_at + visibility)
    held.lease = lease
    held.visible_at = lease.expires_at
    held.extend_at = lease.expires_at - visibility * (1 - EXTEND_AT)
    state.due(held, held.extend_at)


def start_by(held: Held) -> float:
    """From then on the lease has so little left that the way of its reply may have used it up."""
    return held.visible_at - min(START_MARGIN_SECONDS, held.queue.config.visibility / 10)


def may_run_out(state: State, held: Held) -> bool:
    return state.now >= start_by(held)


def within_limit(state: State, held: Held, delay: float) -> float:
    """Cut a delay to what is left of the 12 hours from the receive."""
    return max(0, min(delay, math.floor(held.limit_at - state.now) - LIMIT_MARGIN_SECONDS))


def check(state: State, queue: QueueState) -> None:
    """Extend, give up or give back whatever is due in one queue."""
    if state.now < queue.due_at:
        return
    for held in list(queue.held.values()):
        if held.phase is not Phase.GONE and not held.lost and not held.in_call:
            _check_one(state, held)
    _extend(state, queue)
    queue.due_at = min((_due(state, held) for held in queue.held.values()), default=math.inf)


def _check_one(state: State, held: Held) -> None:
    if state.now >= held.visible_at:
        expire(state, held)
    elif held.phase is Phase.RUNNING and state.now >= held.runtime_ends:
        lose(state, held)
    elif held.phase is Phase.WAITING and state.now >= held.hold_at:
        held.hold_at = math.inf
        give_back(state, held)


def _due(state: State, held: Held) -> float:
    if held.lost or held.in_call:
        return math.inf
    due = held.visible_at
    beats = max(held.extend_at, state.now) < held.runtime_ends
    if beats and not held.extending and not _goes_now(state, held):
        due = min(due, held.extend_at)
    if held.phase is Phase.RUNNING:
        due = min(due, held.runtime_ends)
    elif held.phase is Phase.WAITING:
        due = min(due, held.hold_at)
    return due


def _extend(state: State, queue: QueueState) -> None:
    soon = state.now + queue.config.visibility * COMPANY
    company = [held for held in queue.held.values() if _may_extend(state, held, soon)]
    if not any(held.extend_at <= state.now for held in company):
        return
    company.sort(key=lambda held: held.extend_at)
    by_visibility: dict[float, list[Held]] = {}
    for held in company:
        left = math.floor(held.limit_at - state.now) - LIMIT_MARGIN_SECONDS
        if left < 1:
            held.extend_at = math.inf
        else:
            by_visibility.setdefault(min(queue.config.visibility, left), []).append(held)
    for visibility, some in by_visibility.items():
        for first in range(0, len(some), queue.config.largest_batch):
            _send(state, queue, some[first : first + queue.config.largest_batch], visibility)


def _may_extend(state: State, held: Held, soon: float) -> bool:
    return (
        held.extend_at <= soon
        and not held.lost
        and not held.in_call
        and not held.extending
        and state.now < held.runtime_ends
        and not _goes_now(state, held)
    )


def _goes_now(state: State, held: Held) -> bool:
    """Its delete or hide is sent in this step, or once it had a moment for company."""
    if state.now < held.settle_at:
        return False
    if held.phase is Phase.RETREATING:
        return not (state.stopping and held.queue.polls)
    return held.phase is Phase.SETTLING and held.settlement.copy_failures is None


def _send(state: State, queue: QueueState, some: list[Held], visibility: float) -> None:
    number = state.number()
    state.calls[number] = Call(
        "extend", queue, [(held, held.lease) for held in some], visibility=visibility
    )
    for held in some:
        held.extending = True
    leases = tuple(held.lease for held in some)
    state.out.append(Extend(number, queue.config.name, leases, visibility))


def extended(state: State, call: Call, results: tuple[ExtendResult, ...]) -> None:
    """Read the answer to an extension, lease by lease."""
    for (held, sent), result in zip(call.items, results, strict=True):
        held.extending = False
        if held.phase is Phase.GONE or held.lost or held.lease.receipt != sent.receipt:
            state.due(held, held.extend_at)
        elif result.lease is not None:
            date(state, held, result.lease)
            if call.visibility < held.queue.config.visibility:
                held.extend_at = math.inf
                state.due(held, held.visible_at)
        elif not isinstance(result.error, LeaseLostError):
            left = held.visible_at - state.now
            held.extend_at = state.now + min(1.0, max(0.2, left / 4))
            state.due(held, min(held.extend_at, held.visible_at))
        elif not held.in_call:
            expire(state, held)


def expire(state: State, held: Held) -> None:
    """The lease ran out, or may have: nothing is started or deleted on it any more."""
    if held.phase is Phase.RUNNING:
        lose(state, held)
        return
    for intended in (held.queue.to_delete, held.queue.to_hide, held.queue.to_copy):
        if held in intended:
            intended.remove(held)
    if held.phase is Phase.SETTLING:
        state.end_undone(held)
    else:
        state.count("left")
        state.end(held, "released" if held.phase is Phase.RETREATING else "heartbeat_failed")
    lanes.leave_lane(state, held, deleted=False)


def lose(state: State, held: Held) -> None:
    """A running job's lease is lost: it keeps its slot until it returns, and is not deleted."""
    held.lost = True
    state.out.append(Abandon(held.key))
    state.warn(
        "lease_lost",
        queue=held.queue.config.name,
        message_id=held.lease.message_id,
        receive_count=held.lease.receive_count,
        ran_too_long=state.now >= held.runtime_ends,
    )
    lanes.retreat_behind(state, held)
    for queue in state.queues:
        give_back_held_up(state, queue)


def give_back_held_up(state: State, queue: QueueState) -> None:
    """Where jobs whose leases are lost hold every slot, nothing waits for their end."""
    if state.running < state.config.concurrency or not all(run.lost for run in state.runs.values()):
        return
    for waiting in list(queue.ready.values()):
        if waiting.phase is Phase.WAITING:
            give_back(state, waiting)


def give_back(state: State, held: Held) -> None:
    """Give a message back for want of room, with those behind it in its group."""
    lanes.retreat(state, lanes.tail_from(held))
