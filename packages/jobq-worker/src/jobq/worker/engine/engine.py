"""The worker's decisions: events in, commands out, with the time handed in.

Nothing here does IO, starts a thread, reads a clock or draws a random number of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.worker.engine import (
    dead_letters,
    lanes,
    leases,
    outcomes,
    polling,
    receiving,
    settling,
    starting,
    stopping,
)
from jobq.worker.engine.events import (
    DeadLettered,
    Extended,
    Finished,
    LoopClosed,
    Received,
    ReceiveFailed,
    ReceiveSkipped,
    Settled,
    StopRequested,
    Tick,
)
from jobq.worker.engine.state import Phase, State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobq.worker.engine.commands import Command
    from jobq.worker.engine.config import EngineConfig
    from jobq.worker.engine.events import Event
    from jobq.worker.engine.state import Poll

# The engine is to be called at least once a second; a longer silence means the process stood still.
PULSE_SECONDS = 1.0
STALL_SECONDS = 1.25


class Engine:
    """One worker's state machine.

    `now` is the time in seconds on the clock that leases are dated on, `random` returns numbers
    from 0 to 1.
    """

    def __init__(self, config: EngineConfig, *, now: float, random: Callable[[], float]) -> None:
        self.state = State(config, now, random)

    def handle(self, events: Sequence[Event], now: float) -> list[Command]:
        """Take in what happened up to `now`; returns what to do, in order."""
        state = self.state
        if state.ended:
            return []
        state.out = []
        stood_still = now - state.awake_at
        if stood_still > STALL_SECONDS:
            # A handler that holds the GIL does this, a suspended process, or a machine that slept.
            state.warn("worker_stood_still", seconds=round(stood_still, 1))
            # A short breath between two ends neither: what lay unread may do so still.
            if state.awake_at > state.stall_ended + receiving.STALL_GRACE_SECONDS:
                state.stall_began = state.awake_at
            state.stall_ended = now
        state.awake_at = state.now = now
        for event in events:
            self._take(event)
        self._decide()
        return state.out

    def wake_at(self) -> float:
        """When to call `handle` again if nothing happens, on the same clock; inf: never."""
        state = self.state
        wake = stopping.wakes_at(state)
        for queue in state.queues:
            if queue.held:
                wake = min(wake, queue.due_at)
            if queue.to_delete or queue.to_hide or queue.to_copy:
                wake = min(wake, settling.flushes_at(state, queue))
            if queue.shut:
                wake = min(wake, lanes.reopens_at(queue))
            if not state.stopping:
                wake = min(wake, polling.changes_at(state, queue))
        return wake

    def _take(self, event: Event) -> None:
        state = self.state
        match event:
            case Finished(key=key):
                outcomes.finished(state, state.runs.pop(key), event)
            case Received(poll=number, deliveries=deliveries):
                receiving.received(state, self._poll(number), deliveries)
            case Settled(call=number, errors=errors):
                settling.settled(state, state.calls.pop(number), errors)
            case Extended(call=number, results=results):
                leases.extended(state, state.calls.pop(number), results)
            case _:
                self._take_rare(event)

    def _take_rare(
        self,
        event: DeadLettered | ReceiveSkipped | ReceiveFailed | StopRequested | LoopClosed | Tick,
    ) -> None:
        state = self.state
        match event:
            case DeadLettered(call=number, errors=errors):
                dead_letters.answered(state, state.calls.pop(number), errors)
            case ReceiveSkipped(poll=number):
                polling.skipped(state, self._poll(number))
            case ReceiveFailed(poll=number, error=error):
                polling.failed(state, self._poll(number), error)
            case StopRequested():
                stopping.stop(state)
            case LoopClosed():
                stopping.stop(state, code=1, reason="the loop of the async handlers is closed")
            case Tick():
                pass

    def _poll(self, number: int) -> Poll:
        poll = self.state.polls.pop(number)
        del poll.queue.polls[number]
        poll.queue.reserved -= poll.reserved
        return poll

    def _decide(self) -> None:
        state = self.state
        for queue in state.queues:
            if queue.shut:
                lanes.reopen(state, queue)
            while queue.refusals:
                held = queue.refusals.pop(0)
                if held.phase is Phase.WAITING:
                    outcomes.refuse(state, held)
        # What may start does, before anything is given back for having waited too long.
        starting.start_jobs(state)
        for queue in state.queues:
            leases.check(state, queue)
        polling.plan(state)
        for queue in state.queues:
            if queue.to_copy:
                dead_letters.flush(state, queue)
            settling.flush(state, queue)
        stopping.end_if_done(state)
