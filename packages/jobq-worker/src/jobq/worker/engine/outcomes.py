"""What the end of a run means for its message."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jobq.core.retries import retry_delay
from jobq.worker.engine import dead_letters, lanes, leases, polling, settling
from jobq.worker.engine.commands import JobDiscarded
from jobq.worker.engine.events import NotStarted, Postponed, Raised, Refused, Succeeded
from jobq.worker.engine.state import Phase

if TYPE_CHECKING:
    from jobq.core import RetryPolicy
    from jobq.worker.engine.commands import Outcome
    from jobq.worker.engine.events import Finished
    from jobq.worker.engine.state import Held, State

# A job type without a handler: hidden at least for so long, so that a deploy may bring one.
UNKNOWN_JOB_TYPE_SECONDS = 300


def finished(state: State, held: Held, event: Finished) -> None:
    """A run gave its slot back."""
    queue = held.queue
    queue.running -= 1
    state.running -= 1
    state.free_since.append(state.now)
    if isinstance(event.result, NotStarted):
        state.count("started", -1)
        if _may_still_start(state, held, event.at):
            _start_anew(state, held)
            return
        state.count("left")
    else:
        held.seconds = max(0.0, event.at - held.started_at)
        polling.ended(state, queue, held.seconds)
    if held.lost or state.now >= held.visible_at or isinstance(event.result, NotStarted):
        state.end(held, "heartbeat_failed")
        lanes.leave_lane(state, held, deleted=False)
    else:
        _settle(state, held, event)
    if held.successor is not None:
        _succeed(state, held.successor)


def _may_still_start(state: State, held: Held, at: float) -> bool:
    """Its thread or loop was busy past the lease it was to start on, which was extended since.

    After a stop whatever did not start may: it is given back.
    """
    late = state.stopping or at >= held.start_by
    return late and not held.lost and not leases.may_run_out(state, held)


def _start_anew(state: State, held: Held) -> None:
    held.phase = Phase.WAITING
    held.runtime_ends = math.inf
    held.hold_at = state.now + state.config.hold_limit
    state.due(held, min(held.hold_at, held.extend_at))
    if state.stopping:
        lanes.retreat(state, [held])
    else:
        lanes.make_ready(state, held)


def _succeed(state: State, held: Held) -> None:
    """A delivery that waited for the end of a lost run of its own message may start now."""
    if held.key in held.queue.held:
        held.queue.by_message.setdefault(held.lease.message_id, held)
        if held.lane is None and held.phase is Phase.WAITING:
            lanes.make_ready(state, held)


def _settle(state: State, held: Held, event: Finished) -> None:
    match event.result:
        case Succeeded():
            settling.delete(state, held, "success")
        case Refused():
            settling.delete(state, held, "delete")
        case Postponed(seconds):
            settling.hide(state, held, "retry", math.ceil(seconds))
        case Raised(policy):
            _settle_failure(state, held, policy)
        case NotStarted():
            pass
    if held.phase is Phase.SETTLING and held.settlement.delay is not None:
        state.retry_due = max(state.retry_due, state.now + held.settlement.delay)


def _settle_failure(state: State, held: Held, policy: RetryPolicy) -> None:
    attempts = policy.max_attempts
    if attempts is None or held.lease.receive_count < attempts:
        _retry(state, held, policy, "retry")
    elif policy.when_exhausted == "dead_letter":
        dead_letters.send(state, held, "exhausted")
    elif policy.when_exhausted == "discard":
        state.out.append(JobDiscarded(held.queue.config.name, held.lease, held.job))
        settling.delete(state, held, "exhausted")
    else:
        _retry(state, held, policy, "exhausted")


def _retry(state: State, held: Held, policy: RetryPolicy, outcome: Outcome) -> None:
    delay = retry_delay(policy, receive_count=held.lease.receive_count, random=state.random())
    if delay is None:
        settling.leave(state, held, outcome)
        state.retry_due = max(state.retry_due, held.visible_at)
    else:
        settling.hide(state, held, outcome, delay)


def refuse(state: State, held: Held) -> None:
    """No handler can run this message."""
    if state.now >= held.visible_at:
        return
    state.count("refused")
    if held.verdict == "unknown_job_type":
        settling.hide(state, held, "unknown_job_type", UNKNOWN_JOB_TYPE_SECONDS)
    elif state.config.on_malformed == "delete":
        settling.delete(state, held, "malformed")
    elif state.config.on_malformed == "dead_letter":
        dead_letters.send(state, held, "malformed")
    else:
        settling.leave(state, held, "malformed")
