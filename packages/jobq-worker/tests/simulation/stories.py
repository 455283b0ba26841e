"""A play told line by line, for somebody who wants to know why a rule didn't hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.playing import Play

from jobq.worker.engine.commands import (
    Abandon,
    Ack,
    DeadLetter,
    Exit,
    Extend,
    JobEnded,
    Nack,
    Notice,
    Receive,
    Run,
)
from jobq.worker.engine.events import (
    DeadLettered,
    Extended,
    Finished,
    Received,
    ReceiveFailed,
    ReceiveSkipped,
    Settled,
    StopRequested,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulation.plans import Move, Plan
    from simulation.playing import Worker
    from simulation.rules import Rule

    from jobq.core import Lease


def story_of(plan: Plan, rules: Sequence[type[Rule]]) -> str:
    """What was planned and what each worker was told and said, and what broke, in time's order."""
    play = Told(plan, rules)
    breaches = play.run()
    shape = f"queues {', '.join(plan.queues)}; visibility timeout {plan.visibility:g} s"
    if plan.redrive:
        shape += f"; maxReceiveCount {plan.redrive}"
    return "\n".join([f"seed {plan.seed}: {shape}", *play.lines, *map(str, breaches)])


class Told(Play):
    def __init__(self, plan: Plan, rules: Sequence[type[Rule]]) -> None:
        self.lines: list[str] = []
        super().__init__(plan, rules)

    def tell(self, line: str) -> None:
        self.lines.append(f"{self.world.now - 1000:10.3f} s  {line}")

    def make(self, move: Move) -> None:
        self.tell(f"-- {_words(move)}")
        super().make(move)

    def told(self, worker: Any, events: Sequence[Any], commands: list[Any]) -> None:
        before = len(self.breaches)
        told = [line for event in events if (line := self.words_of(worker, event))]
        said = [line for command in commands if (line := _command(command))]
        for line in told:
            self.tell(f"worker {worker.number} <- {line}")
        for line in said:
            self.tell(f"worker {worker.number}    {line}")
        super().told(worker, events, commands)
        for breach in self.breaches[before:]:
            self.tell(f"!! {breach}")

    def words_of(self, worker: Worker, event: Any) -> str:
        record = worker.record
        match event:
            case Received(poll=poll, deliveries=deliveries):
                bodies = ", ".join(
                    f"{one.lease.body} (receive {one.lease.receive_count})" for one in deliveries
                )
                return f"{record.polls[poll].queue} brings {bodies or 'nothing'}"
            case ReceiveSkipped(poll=poll):
                return f"no receive of {record.polls[poll].queue}"
            case ReceiveFailed(poll=poll, error=error):
                return f"receive of {record.polls[poll].queue} failed: {error}"
            case Finished(key=key, result=result):
                return f"run {key} ended: {result}"
            case Settled(call=call, errors=errors) | DeadLettered(call=call, errors=errors):
                command, _ = record.calls[call]
                return f"{_call(command)}: {_errors(errors)}"
            case Extended(call=call, results=results):
                return f"{_call(record.calls[call][0])}: {_errors([one.error for one in results])}"
            case StopRequested():
                return "stop"
            case _:
                return ""


def _command(command: Any) -> str:
    match command:
        case Receive(queue=queue, max_messages=most, wait=wait):
            return f"receive up to {most} of {queue}, waiting {wait:g} s"
        case Run(key=key, lease=lease):
            return f"run {lease.body} as run {key}"
        case Abandon(key=key):
            return f"lease of run {key} lost"
        case Ack() | Nack() | Extend() | DeadLetter():
            return _call(command)
        case JobEnded(lease=lease, outcome=outcome):
            return f"{lease.body}: {outcome}"
        case Notice(event=event, fields=fields):
            return f"{event} {fields}"
        case Exit(code=code, accounts=accounts):
            return f"exit {code}, {accounts}"
        case _:
            return type(command).__name__


def _call(command: Ack | Nack | Extend | DeadLetter) -> str:
    bodies = _bodies(command.leases)
    match command:
        case Ack():
            return f"delete {bodies}"
        case Nack(delay=delay):
            return f"hide {bodies} for {delay:g} s"
        case Extend(visibility=visibility):
            return f"extend {bodies} to {visibility:g} s"
        case DeadLetter():
            return f"copy {bodies}"


def _bodies(leases: Sequence[Lease]) -> str:
    return ", ".join(lease.body for lease in leases)


def _errors(errors: Sequence[Any]) -> str:
    return "done" if not any(errors) else ", ".join(str(one) if one else "done" for one in errors)


def _words(move: Move) -> str:
    values = [getattr(move, name) for name in type(move).__slots__]
    return f"{type(move).__name__} {' '.join(str(value) for value in values)}"
