"""What a receive brought: dated, told apart from what is in hand already, and taken in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.worker.engine import lanes, leases, polling, settling, stopping
from jobq.worker.engine.state import Held, Phase

if TYPE_CHECKING:
    from jobq.core import Lease
    from jobq.worker.engine.events import Delivery
    from jobq.worker.engine.state import Poll, QueueState, State

# A reply read this soon after a stall may have come during it.
STALL_GRACE_SECONDS = 2.0


def received(state: State, poll: Poll, deliveries: tuple[Delivery, ...]) -> None:
    polling.answered(state, poll, len(deliveries))
    for delivery in deliveries:
        state.count("received")
        _take_in(state, poll, delivery)
    if state.stopping:
        stopping.give_back_waiting(state, poll.queue)
    elif deliveries:
        leases.give_back_held_up(state, poll.queue)


def _take_in(state: State, poll: Poll, delivery: Delivery) -> None:
    queue, lease = poll.queue, delivery.lease
    received_at = _received_at(state, poll, lease.expires_at - queue.config.visibility)
    known = _in_hand(queue, lease.message_id)
    if known is not None and _went_back(known):
        # That it came again is the proof: whatever was sent to hide it has had its effect.
        settling.hidden(state, known)
    elif known is not None and not known.lost:
        _take_over(state, known, lease, received_at)
        return
    held = Held(
        key=state.number(),
        queue=queue,
        lease=lease,
        verdict=delivery.verdict,
        job=delivery.job,
        visible_at=lease.expires_at,
        extend_at=lease.expires_at,
        limit_at=lease.expires_at,
        hold_at=state.now + state.config.hold_limit,
        last_receive=_is_last(queue, lease.receive_count),
        max_runtime=delivery.max_runtime or queue.config.max_runtime,
    )
    leases.date(state, held, lease, received_at=received_at)
    state.due(held, min(held.hold_at, held.visible_at))
    lanes.admit(state, held)


def _take_over(state: State, known: Held, lease: Lease, received_at: float) -> None:
    state.count("taken_over")
    leases.date(state, known, lease, received_at=received_at)
    if not known.last_receive and _is_last(known.queue, lease.receive_count):
        known.last_receive = True
        if known.queue.ready.pop(known.key, None) is not None:
            lanes.make_ready(state, known)


def _in_hand(queue: QueueState, message_id: str) -> Held | None:
    known = queue.by_message.get(message_id)
    if known is not None and known.lost and known.successor is not None:
        waiting = queue.held.get(known.successor.key)
        return waiting or known
    return known


def _went_back(held: Held) -> bool:
    """It was to be hidden or given back. An unordered queue may also deliver it twice before."""
    hiding = held.phase is Phase.SETTLING and held.settlement.delay is not None
    going = hiding or held.phase is Phase.RETREATING
    return going and (held.in_call or held.queue.config.ordered)


def _received_at(state: State, poll: Poll, dated: float) -> float:
    """No later than the reply arrived, even where the process stood still and read it late."""
    stalled = poll.started_at < state.stall_ended
    if stalled and state.now <= state.stall_ended + STALL_GRACE_SECONDS:
        return min(dated, max(poll.started_at, state.stall_began))
    return dated


def _is_last(queue: QueueState, receive_count: int) -> bool:
    most = queue.config.max_receive_count
    return most is not None and receive_count >= most
