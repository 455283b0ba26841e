"""The one thread that drives the engine: events in, from the inbox; commands out."""

from __future__ import annotations

from queue import Empty
from typing import TYPE_CHECKING, TypeAlias

from jobq.worker.engine.commands import Exit, JobEnded, Notice
from jobq.worker.engine.events import Tick

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from queue import SimpleQueue

    from jobq.worker.engine.commands import Command
    from jobq.worker.engine.engine import Engine
    from jobq.worker.engine.events import Event
    from jobq.worker.executors import Executors
    from jobq.worker.reporting import Reporting

    Inbox: TypeAlias = SimpleQueue[Event]

# The engine takes a longer silence for a stall of the process.
PULSE_SECONDS = 1.0
# Nothing that the engine waits for is finer, and a clock that lags a little must not make it spin.
SHORTEST_WAIT_SECONDS = 0.001


class Runner:
    """Turns until the engine says `Exit`. Does no IO and waits for nothing but the inbox."""

    def __init__(
        self,
        engine: Engine,
        *,
        inbox: Inbox,
        reporting: Reporting,
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._inbox = inbox
        self._reporting = reporting
        self._clock = clock
        self._crash: BaseException | None = None
        self.turned_at = clock()

    def crash(self, error: BaseException) -> None:
        """End with `error`, from any thread: an answer that the engine waits for won't come."""
        self._crash = error
        self._inbox.put(Tick())

    def run(self, executors: Executors) -> Exit:
        """Raises what a bug raises; what is in hand then comes back by its visibility timeout."""
        events: Sequence[Event] = (Tick(),)
        while True:
            if self._crash is not None:
                raise self._crash
            self.turned_at = now = self._clock()
            end = self._hand_out(self._engine.handle(events, now), executors)
            if end is not None:
                return end
            events = self._next_events()

    def _next_events(self) -> Sequence[Event]:
        inbox = self._inbox
        if inbox.empty():
            wait = min(self._engine.wake_at() - self._clock(), PULSE_SECONDS)
            try:
                events = [inbox.get(timeout=max(wait, SHORTEST_WAIT_SECONDS))]
            except Empty:
                return (Tick(),)
        else:
            events = [inbox.get()]
        while not inbox.empty():
            events.append(inbox.get())
        return events

    def _hand_out(self, commands: Sequence[Command], executors: Executors) -> Exit | None:
        lines: list[JobEnded | Notice] = []
        end: Exit | None = None
        for command in commands:
            if isinstance(command, JobEnded | Notice):
                lines.append(command)
            elif isinstance(command, Exit):
                end = command
            else:
                executors.begin(command)
        executors.flush()
        if lines:
            self._reporting.write(lines)
        return end
