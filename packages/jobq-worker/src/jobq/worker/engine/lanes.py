"""FIFO groups: one message at a time, in order, and none past one that wasn't deleted."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jobq.worker.engine.state import GIVE_BACK, Lane, Phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobq.worker.engine.state import Held, QueueState, State


def admit(state: State, held: Held) -> None:
    """Take a newly received message in: startable at once, or behind others of its group."""
    queue = held.queue
    queue.held[held.key] = held
    before = queue.by_message.get(held.lease.message_id)
    if before is None:
        queue.by_message[held.lease.message_id] = held
    else:
        # A run whose lease was lost is still going on; this delivery waits for its end.
        before.successor = held
    if not queue.config.ordered:
        if before is None:
            make_ready(state, held)
        return
    group = held.lease.group_id or ""
    lane = queue.lanes.get(group)
    if lane is None:
        lane = queue.lanes[group] = Lane(group)
    held.lane = lane
    if lane.awaits == held.lease.message_id:
        lane.waiting.appendleft(held)
        _open(queue, lane)
    else:
        lane.waiting.append(held)
    advance(state, queue, lane)


def make_ready(state: State, held: Held) -> None:
    """The message may start, or be refused where no handler can run it."""
    if state.stopping:
        return
    if held.verdict != "runnable":
        held.queue.refusals.append(held)
    elif held.last_receive:
        held.queue.urgent[held.key] = held
    else:
        held.queue.ready[held.key] = held


def advance(state: State, queue: QueueState, lane: Lane) -> None:
    """Let the next message of a group become startable, or forget a group that is empty."""
    if lane.current is not None or lane.retreating or state.now < lane.shut_until:
        return
    if lane.waiting:
        lane.current = lane.waiting.popleft()
        make_ready(state, lane.current)
    elif queue.lanes.get(lane.group) is lane:
        del queue.lanes[lane.group]


def leave_lane(state: State, held: Held, *, deleted: bool, back_at: float | None = None) -> None:
    """A message is out of hand: the next of its group may start only if it was deleted.

    `back_at` is when a message that wasn't deleted becomes visible again, None if nobody knows.
    """
    lane = held.lane
    if lane is None:
        return
    held.lane = None
    if lane.current is held:
        lane.current = None
        if not deleted and not held.lost:
            # What came while a lost run went on was delivered past it, in order.
            retreat(state, list(lane.waiting))
            if back_at is not None and not state.stopping:
                lane.shut_until, lane.awaits = back_at, held.lease.message_id
                held.queue.shut[lane.group] = lane
    elif held.key in lane.retreating:
        lane.retreating.discard(held.key)
    else:
        lane.waiting.remove(held)
        retreat(state, list(lane.waiting))
    advance(state, held.queue, lane)


def retreat(state: State, leaving: Iterable[Held]) -> None:
    """Give messages back unrun; their lane stays shut until they are.

    Each costs a receive, so the queue is claimed one by one for a while.
    """
    for held in leaving:
        queue, lane = held.queue, held.lane
        if lane is not None:
            if lane.current is held:
                lane.current = None
            else:
                lane.waiting.remove(held)
            lane.retreating.add(held.key)
        queue.ready.pop(held.key, None)
        queue.urgent.pop(held.key, None)
        if held.last_receive:
            state.warn(
                "last_receive_given_back",
                queue=queue.config.name,
                message_id=held.lease.message_id,
                receive_count=held.lease.receive_count,
            )
        queue.one_by_one = True
        queue.fast_in_a_row = 0
        held.phase = Phase.RETREATING
        held.settlement = GIVE_BACK
        held.settle_at = state.now
        queue.to_hide.append(held)


def retreat_behind(state: State, held: Held) -> None:
    """The message won't be deleted in time for those behind it in its group."""
    if held.lane is not None and held.lane.current is held:
        retreat(state, list(held.lane.waiting))


def tail_from(held: Held) -> list[Held]:
    """A waiting message and all of its group behind it: what must be given back together.

    Neither a message that waits for room on its last receive is in it, nor what stands ahead.
    """
    lane = held.lane
    if lane is None:
        return [] if _must_stay(held) else [held]
    first = lane.current
    group = list(lane.waiting)
    if first is not None and first.phase is Phase.WAITING:
        group.insert(0, first)
    kept = max((n for n, one in enumerate(group) if _must_stay(one)), default=-1)
    return group[max(group.index(held), kept + 1) :]


def _must_stay(held: Held) -> bool:
    """It waits for room, not for the end of a lost run, its own or its group's, which may hang."""
    if not held.last_receive or held.queue.by_message.get(held.lease.message_id) is not held:
        return False
    return held.lane is None or held.lane.current is None or not held.lane.current.lost


def reopen(state: State, queue: QueueState) -> None:
    """Let groups go on whose wait for a message that was left is over."""
    for lane in [lane for lane in queue.shut.values() if state.now >= lane.shut_until]:
        _open(queue, lane)
        advance(state, queue, lane)


def reopens_at(queue: QueueState) -> float:
    return min((lane.shut_until for lane in queue.shut.values()), default=math.inf)


def _open(queue: QueueState, lane: Lane) -> None:
    lane.awaits, lane.shut_until = None, -math.inf
    queue.shut.pop(lane.group, None)
