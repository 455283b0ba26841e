"""Statements 22 and 23: the end, and the last line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.lease_rules import LIMIT_SLACK_SECONDS
from simulation.rules import EPSILON, Rule

from jobq.worker.engine.commands import Exit, Nack, Receive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulation.playing import Worker
    from simulation.taken import Taken


class Stops(Rule):
    """22: no new receive, what waits goes back at once, what runs ends, all in time."""

    statement = 22
    concerns = (Receive, Exit)

    def commanded(self, worker: Worker, command: Any) -> None:
        if isinstance(command, Receive) and self.now >= worker.record.stop_told_at:
            self.broke(worker, f"asked {command.queue} after it was stopped")
        elif isinstance(command, Exit):
            self._check_exit(worker, command)

    def sending(self, worker: Worker, command: Any, live: list[Taken]) -> None:
        if not isinstance(command, Nack) or self.now < worker.record.stop_told_at:
            return
        polled = any(poll.queue == command.queue for poll in worker.record.polls.values())
        limit = self.now - worker.by_name[command.queue].longest_visibility + LIMIT_SLACK_SECONDS
        # Where nothing is left of the 12 hours, what was to be hidden for long is hidden for 0 s.
        gives_back = any(taken.retreats and taken.received_at > limit for taken in live)
        if polled and gives_back and not self.play.lagging:
            self.broke(worker, f"gave back to {command.queue} while its own poll was out")

    def turned(self, worker: Worker, events: Sequence[Any], commands: list[Any]) -> None:
        record = worker.record
        if self.now < record.stop_told_at or worker.exit is not None:
            return
        polled = {poll.queue for poll in record.polls.values()}
        for taken in record.open:
            if taken.waiting and taken.queue not in polled and self._may_go(worker, taken):
                self.broke(worker, f"kept {taken.body}, which had not started, after its stop")

    def _may_go(self, worker: Worker, taken: Taken) -> bool:
        # A lane shut by a delivery that is lost lets go of what is behind it first.
        return not taken.extending and taken.settle_error is None and not self.play.lagging

    def _check_exit(self, worker: Worker, command: Exit) -> None:
        record = worker.record
        late = self.now - record.stop_told_at - worker.config.shutdown_timeout
        if late > EPSILON and record.stall_ends < self.now - 1 and not self._stalled(worker):
            self.broke(worker, f"ended {late:.3f} s past its shutdown_timeout")
        if command.code == 0:
            if record.running:
                bodies = [taken.body for taken in record.running.values()]
                self.broke(worker, f"exited 0 while {bodies} ran")
            if record.polls:
                asked = sorted({poll.queue for poll in record.polls.values()})
                self.broke(worker, f"exited 0 without the answers of its polls of {asked}")
            if record.open:
                bodies = [taken.body for taken in record.open]
                self.broke(worker, f"exited 0 with {bodies} in hand")
            self._check_visible(worker)
        elif late < -EPSILON and self._was_asked(worker) and not worker.reasons():
            self.broke(worker, f"exited {command.code} in time, without a reason")

    def _stalled(self, worker: Worker) -> bool:
        return worker.record.stall_ends > worker.record.stop_told_at

    def _was_asked(self, worker: Worker) -> bool:
        return worker.asked_to_stop

    def _check_visible(self, worker: Worker) -> None:
        """What never started is there for everybody, unless its receipt had been lost."""
        for taken in worker.record.latest.values():
            entry = self.play.world.stores[taken.queue].entries().get(taken.message)
            if entry is None or entry.receipt != taken.lease.receipt or taken.started:
                continue
            hidden = entry.hidden and self.now < entry.visible_at - EPSILON
            if hidden and taken.verdict == "runnable" and taken.retreats and not taken.hidden:
                error = taken.settle_error
                if error is None:
                    self.broke(worker, f"exited 0 and left {taken.body} invisible")

    def exited(self, worker: Worker) -> None:
        if worker.exit is None:
            self.broke(worker, "did not end")


class AddsUp(Rule):
    """23: each receive of a message in exactly one class."""

    statement = 23

    def exited(self, worker: Worker) -> None:
        if worker.exit is None:
            return
        counts, record = worker.exit.accounts, worker.record
        classes = counts.started + counts.refused + counts.taken_over
        classes += counts.given_back + counts.left
        if counts.received != classes:
            self.broke(worker, f"ended with {counts}, which doesn't add up")
        seen = (record.read, record.started, record.taken_over)
        said = (counts.received, counts.started, counts.taken_over)
        refused = sum(_is_refused(taken) for taken in set(record.taken.values()))
        if refused != counts.refused:
            self.broke(worker, f"said {counts.refused} were refused; it was {refused}")
        back = sum(_went_back(taken) for taken in set(record.taken.values()))
        if back > counts.given_back:
            self.broke(worker, f"said {counts.given_back} were given back; it was {back}")
        # A thread that never took a run up counts as one that started it.
        if seen != said and not self.play.lagging:
            self.broke(worker, f"said {said} were received, started, taken over; it was {seen}")


def _is_refused(taken: Taken) -> bool:
    ended = taken.ended
    return ended is not None and bool(
        {ended.outcome, ended.processing_outcome} & {"malformed", "unknown_job_type"}
    )


def _went_back(taken: Taken) -> bool:
    released = taken.ended is not None and taken.ended.outcome == "released"
    return released and taken.hidden and taken.retreats
