"""Receives that wait on a clock which only moves when nothing else happens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from jobq.worker.engine.events import Received
from jobq.worker.engine.polling import BURST_WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.worker.engine.commands import Receive
    from jobq.worker.engine.events import Event
    from jobq.worker.polls import Answer, Polls


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A receive that is out: `short` is the same without a wait, over and over until `until`."""

    short: Receive
    began: float
    until: float
    tells: bool


class Receives:
    """Long polls without a thread: each is a short one, repeated until its time is up.

    `idle` is whether the engine goes on asking though every queue it asks again is known to be
    empty: then a retry is all that it waits for.
    """

    def __init__(self, polls: Polls, *, clock: Callable[[], float]) -> None:
        self._polls = polls
        self._clock = clock
        self._waiting: dict[int, Waiting] = {}
        self._empty: set[str] = set()
        self._busy_at = clock()
        self.idle = False

    def begin(self, command: Receive) -> None:
        now = self._clock()
        self._waiting[command.poll] = Waiting(
            short=replace(command, wait=0),
            began=now,
            until=now + command.wait,
            tells=command.wait >= BURST_WAIT_SECONDS,
        )
        self.idle = self.idle or command.queue in self._empty

    def busy(self) -> None:
        """Something other than an empty receive happened."""
        self._busy_at = self._clock()
        self._empty.clear()
        self.idle = False

    def answers(self) -> list[Event]:
        """What has an answer by now: messages, an error, or nothing for as long as was asked."""
        events: list[Event] = []
        for number, waiting in list(self._waiting.items()):
            answered: list[Answer] = []
            self._polls.receive(waiting.short, answered.append)
            event = answered[0]
            nothing = isinstance(event, Received) and not event.deliveries
            if nothing and self._clock() < waiting.until:
                continue
            del self._waiting[number]
            events.append(event)
            if not nothing:
                self.busy()
            elif waiting.tells and waiting.began >= self._busy_at:
                self._empty.add(waiting.short.queue)
        return events

    def give_up(self) -> list[Event]:
        """Let all that wait come back with nothing."""
        events: list[Event] = [Received(number) for number in self._waiting]
        self._waiting.clear()
        return events

    def next_until(self) -> float:
        """When the first of them ends; inf: none is out."""
        return min((waiting.until for waiting in self._waiting.values()), default=inf)
