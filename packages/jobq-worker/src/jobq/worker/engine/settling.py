"""Deletes, hides and give-backs: when they are sent, and what their answers mean."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Literal

from jobq.core import BackendError, LeaseLostError, QueueNotFoundError
from jobq.worker.engine import closing, lanes, leases
from jobq.worker.engine.commands import Ack, Nack
from jobq.worker.engine.state import Call, Phase, Settlement

if TYPE_CHECKING:
    from jobq.core import JobqError
    from jobq.worker.engine.commands import Outcome
    from jobq.worker.engine.state import Held, QueueState, State

# How long a delete waits for company, where there is any to wait for.
COMPANY_SECONDS = 0.05


def delete(state: State, held: Held, outcome: Outcome) -> None:
    """The message is done with: delete it."""
    held.phase = Phase.SETTLING
    held.settlement = Settlement(outcome)
    held.settle_at = state.now
    held.queue.to_delete.append(held)


def hide(state: State, held: Held, outcome: Outcome, delay: float) -> None:
    """The message is to come back in `delay` seconds, or what is left of the 12 hours if that is
    less; those behind it go back first.
    """
    held.phase = Phase.SETTLING
    held.settlement = Settlement(outcome, leases.within_limit(state, held, delay))
    held.settle_at = state.now
    lanes.retreat_behind(state, held)
    held.queue.to_hide.append(held)


def leave(state: State, held: Held, outcome: Outcome) -> None:
    """The message is to come back when its visibility timeout is over, without a call."""
    state.end(held, outcome)
    lanes.leave_lane(state, held, deleted=False, back_at=held.visible_at)


def flush(state: State, queue: QueueState) -> None:
    """Send what is due of one queue."""
    if queue.to_delete:
        _flush_deletes(state, queue)
    if queue.to_hide:
        _flush_hides(state, queue)


def flushes_at(state: State, queue: QueueState) -> float:
    """When something of one queue can be sent that can't be now; inf: not by time alone."""
    at, now = math.inf, state.now
    for held in queue.to_delete:
        at = min(at, held.settle_at if held.settle_at > now else held.settle_at + COMPANY_SECONDS)
    for held in itertools.chain(queue.to_hide, queue.to_copy):
        if held.settle_at > now:
            at = min(at, held.settle_at)
    return at


def deletes_due_at(queue: QueueState) -> float:
    return min(held.settle_at for held in queue.to_delete) + COMPANY_SECONDS


def _flush_deletes(state: State, queue: QueueState) -> None:
    size = queue.config.largest_batch
    hurry = _may_not_wait(state, queue)
    if not hurry and len(queue.to_delete) < size:
        return
    due = [held for held in queue.to_delete if state.now >= held.settle_at]
    sent = due if hurry else due[: len(due) - len(due) % size]
    if not sent:
        return
    leaving = set(map(id, sent))
    queue.to_delete = [held for held in queue.to_delete if id(held) not in leaving]
    for first in range(0, len(sent), size):
        some = sent[first : first + size]
        number = _call(state, queue, "delete", some)
        sent_leases = tuple(held.lease for held in some)
        state.out.append(Ack(number, queue.config.name, sent_leases))


def _may_not_wait(state: State, queue: QueueState) -> bool:
    """A delete waits for company only where some may come, and while its lease lasts."""
    if (
        queue.config.ordered
        or state.stopping
        or state.now >= deletes_due_at(queue)
        or not (state.running or any(one.startable for one in state.queues))
    ):
        return True
    soon = state.now + 2 * COMPANY_SECONDS
    # Nothing that isn't in a call runs out before its queue is due.
    return queue.due_at < soon and any(
        held.visible_at < soon and held.settle_at <= state.now for held in queue.to_delete
    )


def _flush_hides(state: State, queue: QueueState) -> None:
    by_delay: dict[float, list[Held]] = {}
    for held in queue.to_hide:
        if _may_hide(state, held):
            # Less may be left of the 12 hours than when the delay was chosen.
            delay = leases.within_limit(state, held, held.settlement.delay or 0)
            by_delay.setdefault(delay, []).append(held)
    if not by_delay:
        return
    leaving = {id(held) for some in by_delay.values() for held in some}
    queue.to_hide = [held for held in queue.to_hide if id(held) not in leaving]
    size = queue.config.largest_batch
    for delay, due in by_delay.items():
        for first in range(0, len(due), size):
            some = due[first : first + size]
            number = _call(state, queue, "hide", some)
            sent_leases = tuple(held.lease for held in some)
            state.out.append(Nack(number, queue.config.name, sent_leases, delay))


def _may_hide(state: State, held: Held) -> bool:
    """An extension that is out must not overtake; at a stop no own poll may take it up again."""
    if state.now < held.settle_at or held.extending:
        return False
    return not (state.stopping and held.phase is Phase.RETREATING and held.queue.polls)


def _call(
    state: State, queue: QueueState, kind: Literal["delete", "hide"], some: list[Held]
) -> int:
    number = state.number()
    items = [(held, held.lease) for held in some]
    state.calls[number] = Call(kind, queue, items, sent_at=state.now)
    for held in some:
        held.in_call = True
    return number


def settled(state: State, call: Call, errors: tuple[JobqError | None, ...]) -> None:
    """Read the answer to a delete or a hide, lease by lease."""
    again: list[Held] = []
    refusals: list[JobqError] = []
    for (held, sent), error in zip(call.items, errors, strict=True):
        held.in_call = False
        if error is None:
            refusals.clear()
            _accepted(state, call)
        if held.phase is Phase.GONE:
            continue
        if held.lease.receipt != sent.receipt:
            # Received anew while the call was out: the older receipt may not count any more.
            _requeue(state, call, held, at=state.now)
        elif error is None:
            _done(state, held)
        elif isinstance(error, LeaseLostError | QueueNotFoundError):
            # A queue's messages are gone with it, and its receives say when it is there again.
            _give_up(state, held, error)
        else:
            refusals.append(error)
            if _is_worth_another(error):
                again.append(held)
            else:
                _give_up(state, held, error)
    if again or refusals:
        _refused(state, call, again, refusals)


def _refused(state: State, call: Call, again: list[Held], refusals: list[JobqError]) -> None:
    queue = call.queue
    if call.kind == "delete":
        failures = closing.refused(state, call, refusals)
    else:
        failures = queue.hide_failures = queue.hide_failures + 1
    at = state.now + state.backoff(failures)
    for held in again:
        _requeue(state, call, held, at=at)


def _is_worth_another(error: JobqError) -> bool:
    return isinstance(error, BackendError) and (error.retryable or error.denied)


def _requeue(state: State, call: Call, held: Held, *, at: float) -> None:
    held.settle_at = at
    (held.queue.to_delete if call.kind == "delete" else held.queue.to_hide).append(held)
    state.due(held, min(held.extend_at, held.visible_at))


def _accepted(state: State, call: Call) -> None:
    if call.kind == "delete":
        closing.succeeded(state, call.queue)
    else:
        call.queue.hide_failures = 0


def _done(state: State, held: Held) -> None:
    if held.settlement.delay is not None:
        hidden(state, held, back_at=state.now + held.settlement.delay)
        return
    state.end(held, held.settlement.outcome)
    lanes.leave_lane(state, held, deleted=True)


def hidden(state: State, held: Held, *, back_at: float | None = None) -> None:
    """The message was given back, or hidden for a retry until `back_at`."""
    if held in held.queue.to_hide:
        held.queue.to_hide.remove(held)
    if held.settlement.outcome == "released":
        state.count("given_back")
        back_at = None
    state.end(held, held.settlement.outcome)
    lanes.leave_lane(state, held, deleted=False, back_at=back_at)


def _give_up(state: State, held: Held, error: JobqError) -> None:
    if not isinstance(error, LeaseLostError):
        state.warn(
            "settle_failed",
            queue=held.queue.config.name,
            message_id=held.lease.message_id,
            error=str(error),
        )
    if held.settlement.outcome == "released":
        state.count("left")
    state.end_undone(held)
    lanes.leave_lane(state, held, deleted=False)
