"""What a rule is: one statement of docs/guarantees.md, held against what a play shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulation.playing import Play, Worker
    from simulation.taken import Taken

    from jobq.core import Lease

# Two moments that are the same but for rounding.
EPSILON = 1e-6


class Rule:
    """Overrides what it looks at, and calls `broke` with what it saw."""

    statement: ClassVar[int]
    # Which commands it wants to be shown by `commanded`.
    concerns: ClassVar[tuple[type[Any], ...]] = ()

    def __init__(self, play: Play) -> None:
        self.play = play

    @property
    def now(self) -> float:
        return self.play.world.now

    def broke(self, worker: Worker, sentence: str) -> None:
        self.play.broke(self.statement, f"worker {worker.number} {sentence}")

    def turned(self, worker: Worker, events: Sequence[Any], commands: list[Any]) -> None:
        """Its engine took these in and answered with these, all of which is on record."""

    def commanded(self, worker: Worker, command: Any) -> None:
        """Its engine said this, one of those it concerns, and it is on record."""

    def started(self, worker: Worker, taken: Taken) -> None:
        """A handler is about to start; the worker's running ones are those before it."""

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        """A settling call goes out with these."""

    def done(self, worker: Worker, command: Any, lease: Lease) -> None:
        """The server did what was asked for one lease."""

    def rested(self) -> None:
        """Nothing went wrong for a long time, and nobody was stopped yet."""

    def exited(self, worker: Worker) -> None:
        """The worker was stopped, or stopped itself, and has had the time for it."""
