"""Whom to ask for messages, for how many, and for how long."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

from jobq.core import BackendError, QueueNotFoundError
from jobq.worker.engine import starting, stopping
from jobq.worker.engine.commands import Receive
from jobq.worker.engine.state import REMEMBERED_JOBS, Poll

if TYPE_CHECKING:
    from jobq.core import JobqError
    from jobq.worker.engine.state import QueueState, State

# A long poll that found nothing for so long holds no room any more: its queue is idle.
RESERVATION_SECONDS = 1.0
# A poll that a hook kept from receiving is tried again after this.
SKIPPED_SECONDS = 1.0
# In a burst, a receive this long that brings nothing tells that a queue is empty.
BURST_WAIT_SECONDS = 2.0
# While a queue fails it is warned of at once, then after so long, then ever more rarely.
WARN_SECONDS = 60.0
# A long poll that ends empty within this share of its wait was not waited for: some servers do so
# where too much is in flight. The second in a row is followed by a pause.
EARLY = 1 / 4
LONGEST_VAIN = 3
ROUNDING = 1e-9


def plan(state: State) -> None:
    """Send the receives that there is reason and room for."""
    if state.stopping:
        return
    busy: list[QueueState] = []
    idle: list[QueueState] = []
    for queue in state.queues:
        if queue.had_work:
            _lapse(state, queue)
        if queue.had_work:
            busy.append(queue)
        elif not queue.polls and _may_ask(state, queue):
            idle.append(queue)
    if idle:
        _ask_idle(state, idle, busy)
    while _ask_in_turn(state, busy):
        pass


def _ask_idle(state: State, idle: list[QueueState], busy: list[QueueState]) -> None:
    """Keep a long poll out for one message, while a slot is free or soon falls free for it."""
    if state.running == state.config.concurrency:
        idle = [queue for queue in idle if _may_have_its_turn(state, queue, busy)]
        if not idle or not _starts_soon(state, busy):
            return
    asleep = stopping.quiet_queues(state)
    wait = min(state.config.idle_wait, BURST_WAIT_SECONDS if state.config.burst else math.inf)
    for queue in idle:
        if queue not in asleep:
            asked = claim(queue) if queue.config.claim_size else 1
            _receive(state, queue, asked, wait, reserved=0)


def _may_have_its_turn(state: State, queue: QueueState, busy: list[QueueState]) -> bool:
    """A queue that was empty a moment ago is not worth asking, nor one behind others in strict."""
    if state.now < queue.asked_at + RESERVATION_SECONDS:
        return False
    return (
        state.config.polling != "strict"
        or not busy
        or state.queues.index(queue) < state.queues.index(busy[0])
    )


def _ask_in_turn(state: State, busy: list[QueueState]) -> bool:
    """Ask each busy queue once, in the order of their turns; whether any was."""
    askable = [queue for queue in busy if _wants_more(state, queue)]
    if state.config.polling == "weighted" and len(askable) > 1:
        askable.sort(key=lambda one: starting.turn(one, state, one.startable + one.reserved))
    if not askable:
        return False
    # The same for all of them: asking changes neither slots nor what is known of the jobs.
    starts = _starts_soon(state, busy)
    asked = [queue for queue in askable if _ask_busy(state, queue, busy, starts)]
    return bool(asked)


def _may_ask(state: State, queue: QueueState) -> bool:
    return state.now >= queue.poll_at and not queue.closed and not queue.full


def _wants_more(state: State, queue: QueueState) -> bool:
    """Cheap first: most steps of a busy worker end here, before anything is weighed."""
    polls = _most_polls(state, queue)
    if len(queue.polls) >= min(queue.window, polls) or not _may_ask(state, queue):
        return False
    most, startable = claim(queue), queue.startable
    least = most if startable and queue.config.claim_size is None else 1
    # What `_room` can't exceed: every free slot, and all that may be in hand ahead of one.
    free = state.config.concurrency - state.running
    return free + most * polls - startable - queue.reserved >= least


def _most_polls(state: State, queue: QueueState) -> int:
    return queue.config.polls_at_once(state.config.concurrency)


def claim(queue: QueueState) -> int:
    """What one receive asks for at most, as long as the queue's messages found room in time."""
    return 1 if queue.one_by_one else queue.config.claim


def _ask_busy(state: State, queue: QueueState, busy: list[QueueState], starts: int) -> bool:
    most = claim(queue)
    room = _room(state, queue, busy, starts)
    if room < 1 or queue.startable >= most * _most_polls(state, queue):
        return False
    asked = min(most, room)
    if queue.config.claim_size is not None:
        asked = most
    elif asked < most and queue.startable:
        return False
    others_had_work = any(one.had_work for one in state.queues if one is not queue)
    wait = 0 if others_had_work else state.config.idle_wait
    if state.config.burst:
        wait = min(wait, BURST_WAIT_SECONDS)
    _receive(state, queue, asked, wait, reserved=min(asked, room))
    return True


def _room(state: State, queue: QueueState, busy: list[QueueState], starts: int) -> int:
    """Free slots nobody else has a claim on, plus what starts soon, less what is on its way."""
    own = queue.startable + queue.reserved
    free = state.config.concurrency - state.running
    if queue.config.cap is not None:
        free = min(free, queue.config.cap - queue.running)
    unclaimed = max(0, free - _taken(state, queue, own)) if free > 0 else 0
    ahead = _ahead(state, queue, busy, starts) if starts else 0
    return unclaimed + ahead - own


def _taken(state: State, queue: QueueState, own: int) -> int:
    """How many messages of others, in hand or asked for, start before this queue's next."""
    if state.config.polling == "strict":
        earlier = itertools.takewhile(lambda one: one is not queue, state.queues)
        return sum(_claims(one) for one in earlier)
    turn = starting.turn(queue, state, own)
    return sum(
        min(_claims(one), _starts_by(state, one, turn)) for one in state.queues if one is not queue
    )


def _claims(queue: QueueState) -> int:
    """How many free slots a queue's messages could take, in hand or asked for."""
    claims = queue.startable + queue.reserved
    return claims if queue.config.cap is None else min(claims, queue.config.cap - queue.running)


def _starts_by(state: State, queue: QueueState, turn: float) -> int:
    """How many messages a queue that never runs dry starts until a turn comes; it wins a tie."""
    ahead = (turn - starting.turn(queue, state)) * queue.config.weight
    return max(0, math.floor(ahead + ROUNDING) + 1)


def _ahead(state: State, queue: QueueState, busy: list[QueueState], starts: int) -> int:
    """How many of its messages are among the next `starts`, which start within `claim_ahead`."""
    if state.config.polling == "strict":
        rivals: list[QueueState] = []
        starts = starts if busy[0] is queue else 0
    else:
        rivals = [one for one in busy if one is not queue]
    most = claim(queue) * _most_polls(state, queue)
    if queue.one_by_one or not queue.known:
        # Nobody knows how long its jobs take: it only keeps its turn among others.
        most = 1 if rivals else 0
    elif queue.config.cap is not None:
        most = min(most, math.floor(queue.config.cap * state.config.claim_ahead / queue.slowest))
    if not rivals:
        return min(most, starts)
    own = 0
    while own < most:
        turn = starting.turn(queue, state, own)
        if own + sum(_starts_by(state, one, turn) for one in rivals) >= starts:
            break
        own += 1
    return own


def _starts_soon(state: State, busy: list[QueueState]) -> int:
    """How many jobs start within `claim_ahead`, going by the slowest of each queue."""
    ahead = state.config.claim_ahead
    known = [one for one in busy if one.known]
    if not known or not ahead:
        return 0
    weight = sum(one.config.weight for one in busy)
    cycle = sum(one.config.weight * (one.slowest if one.known else ahead) for one in busy)
    return math.floor(_turning_slots(state) * ahead * weight / max(cycle, ROUNDING))


def _turning_slots(state: State) -> int:
    """Slots that are free or soon will be: those of jobs known to be quick, and quick so far."""
    ahead = state.config.claim_ahead
    turning = state.config.concurrency - state.running
    for run in state.runs.values():
        quick = run.queue.known and run.queue.slowest <= ahead
        if quick and state.now - run.started_at < ahead:
            turning += 1
    return turning


def _receive(state: State, queue: QueueState, asked: int, wait: float, *, reserved: int) -> None:
    poll = Poll(state.number(), queue, wait, state.now, reserved)
    queue.polls[poll.number] = poll
    queue.reserved += reserved
    state.polls[poll.number] = poll
    state.out.append(Receive(poll.number, queue.config.name, asked, wait, queue.config.visibility))


def _lapse(state: State, queue: QueueState) -> None:
    """A queue all of whose polls have been out for a while is idle, whatever it had before."""
    if not queue.polls:
        return
    for poll in queue.polls.values():
        if state.now < poll.started_at + RESERVATION_SECONDS:
            return
    queue.rest()


def changes_at(state: State, queue: QueueState) -> float:
    """When, by time alone, a queue may be asked again or its polls stop holding room."""
    at = queue.poll_at if queue.poll_at > state.now else math.inf
    if queue.had_work and queue.polls:
        newest = max(poll.started_at for poll in queue.polls.values())
        at = min(at, newest + RESERVATION_SECONDS)
    return at


def answered(state: State, poll: Poll, count: int) -> None:
    """A receive brought `count` messages."""
    queue = poll.queue
    if queue.failures:
        queue.failures = 0
        queue.warn_at = min(queue.warn_at, state.now + WARN_SECONDS)
    queue.asked_at = max(queue.asked_at, poll.started_at)
    if count:
        queue.vain = 0
        if not queue.closed:
            queue.had_work = True
            queue.window = min(queue.window + 1, _most_polls(state, queue))
        return
    queue.had_work = False
    queue.window = max(1, queue.window // 2)
    if poll.wait >= BURST_WAIT_SECONDS:
        queue.quiet_since = max(queue.quiet_since, poll.started_at)
    _note_vain(state, poll)


def _note_vain(state: State, poll: Poll) -> None:
    """Don't ask at the pace of a server that answers long polls with nothing, and at once."""
    queue = poll.queue
    if state.now - poll.started_at >= poll.wait * EARLY:
        queue.vain = 0
    elif poll.started_at >= queue.vain_at:
        queue.vain_at = state.now
        queue.vain = min(queue.vain + 1, LONGEST_VAIN + 1)
        if queue.vain > 1:
            queue.poll_at = state.now + state.backoff(queue.vain - 1)


def skipped(state: State, poll: Poll) -> None:
    poll.queue.poll_at = state.now + SKIPPED_SECONDS


def failed(state: State, poll: Poll, error: JobqError) -> None:
    """Back off, and say so; see whether any queue is left."""
    queue = poll.queue
    if poll.started_at <= queue.failed_at:
        return  # what broke the one broke all that were out beside it
    queue.failed_at = state.now
    queue.failures += 1
    delay = state.backoff(queue.failures)
    queue.poll_at = state.now + delay
    queue.window = 1
    if queue.failures == 1:
        queue.failing_since = state.now
    if state.now >= queue.warn_at:
        queue.warn_at = state.now + max(WARN_SECONDS, state.now - queue.failing_since)
        state.warn(
            "receive_failed",
            queue=queue.config.name,
            failures=queue.failures,
            again_in_seconds=round(delay, 1),
            error=str(error),
        )
    broken = isinstance(error, QueueNotFoundError) or (
        isinstance(error, BackendError) and error.denied and not error.retryable
    )
    never_served = queue.asked_at == -math.inf
    if broken and (never_served or state.config.on_broken_queue == "exit"):
        stopping.stop(state, code=1, reason=str(error))
    elif all(stopping.given_up(one) for one in state.queues):
        stopping.stop(state, code=1, reason="every queue failed ten times in a row")


def ended(state: State, queue: QueueState, seconds: float) -> None:
    """Remember how long a job held its slot."""
    queue.durations.append(seconds)
    queue.slowest = max(queue.durations)
    if queue.one_by_one:
        queue.fast_in_a_row = queue.fast_in_a_row + 1 if seconds < state.config.claim_ahead else 0
        if queue.fast_in_a_row >= REMEMBERED_JOBS:
            queue.one_by_one = False
