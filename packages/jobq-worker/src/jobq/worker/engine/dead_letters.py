"""Copies to the dead-letter queue: a message is deleted only once its copy was accepted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobq.core import BackendError, LeaseLostError
from jobq.worker.engine import settling
from jobq.worker.engine.commands import DeadLetter
from jobq.worker.engine.state import Call, Phase, Settlement

if TYPE_CHECKING:
    from jobq.core import JobqError
    from jobq.worker.engine.commands import Outcome
    from jobq.worker.engine.state import Held, QueueState, State

# Some 15 s of backoff; after that what can't be sent is left, or an outage would fill the memory.
MOST_TRIES = 5


def send(state: State, held: Held, outcome: Outcome) -> None:
    """The message is to go to the dead-letter queue; those behind it wait until it is gone."""
    held.phase = Phase.SETTLING
    held.settlement = Settlement(outcome, copy_failures=0)
    held.settle_at = state.now
    held.queue.to_copy.append(held)


def flush(state: State, queue: QueueState) -> None:
    """Send what is due of one queue. Heartbeats go on meanwhile: a send may take its time."""
    due = [held for held in queue.to_copy if state.now >= held.settle_at]
    if not due:
        return
    queue.to_copy = [held for held in queue.to_copy if state.now < held.settle_at]
    size = queue.config.largest_batch
    for first in range(0, len(due), size):
        items = [(held, held.lease) for held in due[first : first + size]]
        number = state.number()
        state.calls[number] = Call("copy", queue, items)
        leases = tuple(lease for _, lease in items)
        state.out.append(DeadLetter(number, queue.config.name, leases))


def answered(state: State, call: Call, errors: tuple[JobqError | None, ...]) -> None:
    """Delete what was accepted, whichever receipt it has by now; try again or leave the rest."""
    for (held, sent), error in zip(call.items, errors, strict=True):
        if error is None:
            # Said even where the lease ran out meanwhile: the copy is there all the same.
            state.info(
                "message_dead_lettered",
                queue=held.queue.config.name,
                message_id=sent.message_id,
                receive_count=sent.receive_count,
            )
        if held.phase is Phase.GONE:
            continue
        if error is None:
            settling.delete(state, held, held.settlement.outcome)
        else:
            _failed(state, held, error)


def _failed(state: State, held: Held, error: JobqError) -> None:
    failures = (held.settlement.copy_failures or 0) + 1
    if _may_succeed(error) and failures < MOST_TRIES:
        held.settlement = replace(held.settlement, copy_failures=failures)
        held.settle_at = state.now + state.backoff(failures)
        held.queue.to_copy.append(held)
        return
    state.error(
        "dead_letter_failed",
        queue=held.queue.config.name,
        message_id=held.lease.message_id,
        error=str(error),
    )
    settling.leave(state, held, held.settlement.outcome)


def _may_succeed(error: JobqError) -> bool:
    # The lease may have been extended since a busy thread found it run out.
    ran_out = isinstance(error, LeaseLostError)
    return ran_out or (isinstance(error, BackendError) and error.retryable)
