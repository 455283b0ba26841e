"""All rules, and one seed held against them."""

from __future__ import annotations

from simulation.delivery_rules import (
    ClosedQueue,
    DeletedForAReason,
    EntryByEntry,
    ExhaustedByItsPolicy,
    HiddenByTheFormula,
    NothingOnALostLease,
    UnknownStays,
)
from simulation.lease_rules import Heartbeats, NoSecondRun, StopsForGood
from simulation.order_rules import ClaimsOfOne, NotPastAFailure, OneAtATime
from simulation.plans import Plan, plan_of
from simulation.playing import Breach, Play
from simulation.polling_rules import (
    BacksOff,
    IdleLongPoll,
    NothingSpins,
    RoomAndHolding,
    Turns,
)
from simulation.rules import Rule
from simulation.stopping_rules import AddsUp, Stops

RULES: tuple[type[Rule], ...] = (
    DeletedForAReason,
    NothingOnALostLease,
    EntryByEntry,
    HiddenByTheFormula,
    ExhaustedByItsPolicy,
    UnknownStays,
    ClosedQueue,
    OneAtATime,
    NotPastAFailure,
    ClaimsOfOne,
    Heartbeats,
    StopsForGood,
    NoSecondRun,
    IdleLongPoll,
    RoomAndHolding,
    Turns,
    NothingSpins,
    BacksOff,
    Stops,
    AddsUp,
)


def breaches_of(seed: int) -> list[Breach]:
    return breaches_in(plan_of(seed))


def breaches_in(plan: Plan) -> list[Breach]:
    return Play(plan, RULES).run()
