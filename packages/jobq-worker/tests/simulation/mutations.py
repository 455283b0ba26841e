"""Engines that are broken on purpose, one or more for each statement: each must be caught."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from simulated import SimulatedWorker

from jobq.core import LeaseLostError, RetryPolicy
from jobq.worker.engine import (
    closing,
    lanes,
    leases,
    outcomes,
    polling,
    receiving,
    settling,
    starting,
    stopping,
)
from jobq.worker.engine.commands import JobDiscarded
from jobq.worker.engine.config import QueueConfig
from jobq.worker.engine.events import Postponed
from jobq.worker.engine.state import Held, Phase, QueueState, State

Mutation: TypeAlias = Callable[[pytest.MonkeyPatch], None]


def _retries_are_deletes(patch: pytest.MonkeyPatch) -> None:
    def retry(state: State, held: Held, policy: RetryPolicy, outcome: Any) -> None:
        settling.delete(state, held, outcome)

    patch.setattr(outcomes, "_retry", retry)


def _runs_outlive_their_leases(patch: pytest.MonkeyPatch) -> None:
    expire = leases.expire

    def mutated(state: State, held: Held) -> None:
        if held.phase is Phase.RUNNING:
            held.visible_at = held.extend_at = math.inf
        else:
            expire(state, held)

    patch.setattr(leases, "expire", mutated)


def _the_first_entry_speaks_for_all(patch: pytest.MonkeyPatch) -> None:
    settled = settling.settled

    def mutated(state: State, call: Any, errors: tuple[Any, ...]) -> None:
        settled(state, call, errors[:1] * len(errors))

    patch.setattr(settling, "settled", mutated)


def _every_delay_is_a_second(patch: pytest.MonkeyPatch) -> None:
    def mutated(policy: RetryPolicy, **_: Any) -> int | None:
        return None if policy.base_delay is None else 1

    patch.setattr(outcomes, "retry_delay", mutated)


def _one_attempt_too_few(patch: pytest.MonkeyPatch) -> None:
    settle: Any = getattr(outcomes, "_settle_failure")  # noqa: B009

    def mutated(state: State, held: Held, policy: RetryPolicy) -> None:
        if policy.max_attempts is not None and policy.max_attempts > 1:
            policy = replace(policy, max_attempts=policy.max_attempts - 1)
        settle(state, held, policy)

    patch.setattr(outcomes, "_settle_failure", mutated)


def _unknown_ones_come_back_soon(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outcomes, "UNKNOWN_JOB_TYPE_SECONDS", 30)


def _refused_deletes_close_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(closing, "_close", _nothing)


def _groups_are_ignored(patch: pytest.MonkeyPatch) -> None:
    config_of = SimulatedWorker.config_of

    def mutated(name: str, **more: Any) -> QueueConfig:
        return config_of(name, **{**more, "ordered": False})

    patch.setattr(SimulatedWorker, "config_of", staticmethod(mutated))


def _what_was_left_counts_as_gone(patch: pytest.MonkeyPatch) -> None:
    leave = lanes.leave_lane

    def mutated(state: State, held: Held, **_: Any) -> None:
        leave(state, held, deleted=True)

    patch.setattr(lanes, "leave_lane", mutated)
    patch.setattr(lanes, "retreat_behind", _nothing)


def _fifo_is_claimed_in_tens(patch: pytest.MonkeyPatch) -> None:
    def claim(config: QueueConfig) -> int:
        return config.largest_batch

    patch.setattr(QueueConfig, "claim", property(claim))


def _heartbeats_come_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leases, "EXTEND_AT", 0.9)


def _jobs_may_run_for_ever(patch: pytest.MonkeyPatch) -> None:
    start: Any = getattr(starting, "_start")  # noqa: B009

    def mutated(state: State, held: Held) -> None:
        start(state, held)
        held.runtime_ends = math.inf

    patch.setattr(starting, "_start", mutated)


def _second_deliveries_are_new(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(receiving, "_in_hand", _nothing)


def _idle_queues_wait_for_running_jobs(patch: pytest.MonkeyPatch) -> None:
    may_ask: Any = getattr(polling, "_may_ask")  # noqa: B009

    def mutated(state: State, queue: QueueState) -> bool:
        return may_ask(state, queue) and (queue.had_work or not state.running)

    patch.setattr(polling, "_may_ask", mutated)


def _nothing_is_given_back_for_room(patch: pytest.MonkeyPatch) -> None:
    admit = lanes.admit

    def mutated(state: State, held: Held) -> None:
        held.hold_at = math.inf
        admit(state, held)

    patch.setattr(lanes, "admit", mutated)


def _the_last_queue_comes_first(patch: pytest.MonkeyPatch) -> None:
    def mutated(state: State) -> Held | None:
        for queue in reversed(state.queues):
            ready = [*queue.urgent.values(), *queue.ready.values()]
            if ready and not queue.full:
                return ready[0]
        return None

    patch.setattr(starting, "_next", mutated)


def _there_is_always_room(patch: pytest.MonkeyPatch) -> None:
    room: Any = getattr(polling, "_room")  # noqa: B009

    def mutated(*arguments: Any) -> int:
        return max(1, room(*arguments))

    patch.setattr(polling, "_room", mutated)


def _failures_are_asked_again_at_once(patch: pytest.MonkeyPatch) -> None:
    def backoff(state: State, failures: int) -> float:
        return 0.05

    patch.setattr(State, "backoff", backoff)


def _a_stop_keeps_what_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stopping, "give_back_waiting", _nothing)


def _what_goes_back_is_not_counted(patch: pytest.MonkeyPatch) -> None:
    count = State.count

    def mutated(state: State, kind: str, by: int = 1) -> None:
        if kind != "given_back":
            count(state, kind, by)

    patch.setattr(State, "count", mutated)


def _refused_receipts_are_kept(patch: pytest.MonkeyPatch) -> None:
    extended = leases.extended

    def mutated(state: State, call: Any, results: tuple[Any, ...]) -> None:
        refused = [isinstance(result.error, LeaseLostError) for result in results]
        for (held, _), lost in zip(call.items, refused, strict=True):
            if lost:
                held.extending, held.extend_at = False, math.inf
                state.due(held, held.visible_at)
        kept = [result for result, lost in zip(results, refused, strict=True) if not lost]
        call.items = [item for item, lost in zip(call.items, refused, strict=True) if not lost]
        extended(state, call, tuple(kept))

    patch.setattr(leases, "extended", mutated)


def _nobody_hears_of_a_discard(patch: pytest.MonkeyPatch) -> None:
    settle: Any = getattr(outcomes, "_settle_failure")  # noqa: B009

    def mutated(state: State, held: Held, policy: RetryPolicy) -> None:
        settle(state, held, policy)
        state.out = [one for one in state.out if not isinstance(one, JobDiscarded)]

    patch.setattr(outcomes, "_settle_failure", mutated)


def _a_failed_extension_is_the_last(patch: pytest.MonkeyPatch) -> None:
    extended = leases.extended

    def mutated(state: State, call: Any, results: tuple[Any, ...]) -> None:
        extended(state, call, results)
        for (held, _), result in zip(call.items, results, strict=True):
            if result.lease is None:
                held.extend_at = math.inf

    patch.setattr(leases, "extended", mutated)


def _claims_are_always_of_ten(patch: pytest.MonkeyPatch) -> None:
    def mutated(state: State, *_: Any) -> int:
        return 10 if state.running < state.config.concurrency else 0

    patch.setattr(polling, "_room", mutated)


def _strict_goes_by_what_is_there(patch: pytest.MonkeyPatch) -> None:
    def mutated(state: State) -> Held | None:
        ready = [queue.ready for queue in state.queues if queue.ready and not queue.full]
        return next(iter(ready[0].values())) if ready else None

    patch.setattr(starting, "_next_strict", mutated)


def _polls_are_not_awaited(patch: pytest.MonkeyPatch) -> None:
    end = stopping.end_if_done

    def mutated(state: State) -> None:
        polls = state.polls
        if state.stopping:
            state.polls = {}
        end(state)
        state.polls = polls

    patch.setattr(stopping, "end_if_done", mutated)


def _deletes_are_not_awaited(patch: pytest.MonkeyPatch) -> None:
    end, leave = stopping.end_if_done, getattr(stopping, "_exit")  # noqa: B009

    def mutated(state: State) -> None:
        held = [one for queue in state.queues for one in queue.held.values()]
        settled = all(one.phase is Phase.SETTLING for one in held)
        if state.stopping and settled and not (state.polls or state.ended):
            leave(state)
        end(state)

    patch.setattr(stopping, "end_if_done", mutated)


def _what_is_refused_counts_as_given_back(patch: pytest.MonkeyPatch) -> None:
    count = State.count

    def mutated(state: State, kind: str, by: int = 1) -> None:
        count(state, "given_back" if kind == "refused" else kind, by)

    patch.setattr(State, "count", mutated)


def _what_goes_back_counts_as_left(patch: pytest.MonkeyPatch) -> None:
    count = State.count

    def mutated(state: State, kind: str, by: int = 1) -> None:
        count(state, "left" if kind == "given_back" else kind, by)

    patch.setattr(State, "count", mutated)


def _lost_runs_are_retries(patch: pytest.MonkeyPatch) -> None:
    end = State.end

    def mutated(state: State, held: Held, outcome: Any, **more: Any) -> None:
        end(state, held, "retry" if outcome == "heartbeat_failed" else outcome, **more)

    patch.setattr(State, "end", mutated)


def _delays_have_no_limit(patch: pytest.MonkeyPatch) -> None:
    def mutated(state: State, held: Held, delay: float) -> float:
        return delay

    patch.setattr(leases, "within_limit", mutated)


def _postponed_ones_are_left(patch: pytest.MonkeyPatch) -> None:
    settle: Any = getattr(outcomes, "_settle")  # noqa: B009

    def mutated(state: State, held: Held, event: Any) -> None:
        if isinstance(event.result, Postponed):
            settling.leave(state, held, "retry")
        else:
            settle(state, held, event)

    patch.setattr(outcomes, "_settle", mutated)


def _caps_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueueState, "full", False)


def _nothing(*_: Any) -> None:
    return None


MUTATIONS: dict[int, Mutation] = {
    1: _retries_are_deletes,
    2: _runs_outlive_their_leases,
    3: _the_first_entry_speaks_for_all,
    4: _every_delay_is_a_second,
    5: _one_attempt_too_few,
    7: _unknown_ones_come_back_soon,
    8: _refused_deletes_close_nothing,
    9: _groups_are_ignored,
    10: _what_was_left_counts_as_gone,
    11: _fifo_is_claimed_in_tens,
    13: _heartbeats_come_late,
    14: _jobs_may_run_for_ever,
    16: _second_deliveries_are_new,
    17: _idle_queues_wait_for_running_jobs,
    18: _nothing_is_given_back_for_room,
    19: _the_last_queue_comes_first,
    20: _there_is_always_room,
    21: _failures_are_asked_again_at_once,
    22: _a_stop_keeps_what_waits,
    23: _what_goes_back_is_not_counted,
}


# Further ones, which no rule noticed once.
MORE_MUTATIONS: tuple[tuple[int, Mutation], ...] = (
    (2, _refused_receipts_are_kept),
    (2, _lost_runs_are_retries),
    (4, _delays_have_no_limit),
    (4, _postponed_ones_are_left),
    (5, _nobody_hears_of_a_discard),
    (13, _a_failed_extension_is_the_last),
    (18, _claims_are_always_of_ten),
    (19, _strict_goes_by_what_is_there),
    (19, _caps_are_ignored),
    (22, _polls_are_not_awaited),
    (22, _deletes_are_not_awaited),
    (23, _what_is_refused_counts_as_given_back),
    (23, _what_goes_back_counts_as_left),
)


@contextmanager
def broken_engine(mutation: Mutation) -> Generator[None]:
    """Engines that are broken so, for as long as this lasts."""
    with pytest.MonkeyPatch.context() as patch:
        mutation(patch)
        yield
