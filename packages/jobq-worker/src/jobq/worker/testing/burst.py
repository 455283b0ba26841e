"""A worker's burst in one thread, on a clock that it moves itself.

The engine, the dispatcher, the polls and the settling are the worker's own. Only who calls them is
another: here, one after the other, and once none of them has anything left to do, time goes on to
the moment when one has.
"""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from jobq.core import ConfigurationError, JobqError
from jobq.core.memory import MemoryQueue
from jobq.worker.dispatch import Dispatcher
from jobq.worker.engine.commands import (
    Ack,
    AnnounceStop,
    DeadLetter,
    Exit,
    Extend,
    JobDiscarded,
    JobEnded,
    Nack,
    Notice,
    Receive,
    Run,
)
from jobq.worker.engine.engine import Engine
from jobq.worker.engine.events import StopRequested, Tick
from jobq.worker.polls import Outstanding, Polls, StopFlag
from jobq.worker.reporting import Lines
from jobq.worker.settling import Settling
from jobq.worker.starting import Starting
from jobq.worker.subscriptions import Subscription, loggable_payloads
from jobq.worker.testing.outcomes import Failures, JobRun, JobRuns, job_run
from jobq.worker.testing.receives import Receives
from jobq.worker.testing.travel import Travel

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

    from jobq.core.testing.job_queues import JobQueues
    from jobq.worker.engine.commands import Command
    from jobq.worker.engine.events import Event, Finished
    from jobq.worker.handlers import Handler
    from jobq.worker.options import Options
    from jobq.worker.subscriptions import AnySubscription

# A message that came so often, from a queue without a redrive policy, comes forever.
MOST_RECEIVES = 20


class Burst:
    """One burst over `queues`. `steps` yields each job to run and is sent how that ended.

    After `seconds` on the queues' clock it stops, as on a signal; None: not before the burst ends.
    A job that raises one of `through` ends it with that exception.
    """

    def __init__(
        self,
        queues: JobQueues,
        subscriptions: Sequence[AnySubscription],
        handlers: Mapping[str, Handler],
        options: Options,
        *,
        seconds: float | None,
        through: tuple[type[BaseException], ...],
    ) -> None:
        servers = {_in_memory(one, queues).server for one in subscriptions}
        clock = queues.clock
        # What a worker warns of at its start is for whoever operates the queues.
        starting = Starting(options, warn=_say_nothing, pause=clock.advance, random=_most)
        prepared = starting.prepare(subscriptions, handlers)
        context, self._stopping, self._stop = copy_context(), threading.Event(), StopFlag()
        self._queues = queues
        self._clock = clock
        self._began = clock.now()
        self._seconds = seconds
        self._through = through
        self._failures = Failures()
        self.dispatcher = Dispatcher(
            handlers,
            {one.name: self._failures.watch(one.route) for one in subscriptions},
            retry=options.retry,
            context=context,
            clock=clock.now,
            unix_time=clock.unix_time,
            stopping=self._stopping,
        )
        self._lines = Lines(context=context, sensitive=loggable_payloads(subscriptions))
        config = options.engine_config(prepared.configs, burst=True)
        self._endless = {one.name for one in config.queues if one.max_receive_count is None}
        self._engine = Engine(config, now=self._began, random=_most)
        self._outstanding = Outstanding(
            examine=self.dispatcher.examine, clock=clock.now, stop=self._stop
        )
        polls = Polls(prepared.sources, self._outstanding)
        self._receives = Receives(polls, clock=clock.now)
        self._travel = Travel(clock, servers, self._receives)
        settling = Settling(
            {name: source.queue for name, source in prepared.sources.items()},
            dead_letters=prepared.dead_letters,
            clock=clock.now,
        )
        self._ways: dict[type[Any], Callable[[Any], Event | None]] = {
            Ack: settling.ack,
            DeadLetter: settling.dead_letter,
            Nack: settling.nack,
            Extend: settling.extend,
            Receive: self._receives.begin,
            AnnounceStop: lambda _: self._stopping.set(),
            JobEnded: self._ended,
            JobDiscarded: lambda line: self._lines.write([line]),
            Notice: lambda line: self._lines.write([line]),
            Exit: self._exit,
        }
        self._runs: list[JobRun] = []
        self._end: Exit | None = None

    def steps(self) -> Generator[Run, Finished, JobRuns]:
        """Raises `JobqError` for jobs that come back forever, and what would end the worker."""
        events: Sequence[Event] = [Tick()]
        while self._end is None:
            commands = self._engine.handle(events, self._clock.now())
            events = yield from self._obey(commands)
            if self._end is None and not events:
                events = self._receives.answers() or self._wait()
        if self._end.code:
            raise self._outstanding.last_failure or JobqError(
                f"the worker would have ended with exit code {self._end.code}; see its log lines"
            )
        return JobRuns(
            runs=tuple(self._runs),
            accounts=self._end.accounts,
            remaining=self._queues.stats(),
            seconds=self._clock.now() - self._began,
        )

    def _obey(self, commands: Sequence[Command]) -> Generator[Run, Finished, list[Event]]:
        events: list[Event] = []
        for command in commands:
            if isinstance(command, Run):
                self._check_receives(command)
                events.append((yield command))
                self._let_through(command)
            # There is no job to abandon: none runs while the engine decides.
            elif (way := self._ways.get(type(command))) and (event := way(command)) is not None:
                events.append(event)
        if events:
            self._receives.busy()
        return events

    def _wait(self) -> Sequence[Event]:
        """Let time go by until something happens."""
        end = None if self._seconds is None else self._began + self._seconds
        if end is None or self._stop.requested:
            return self._travel.go(self._engine.wake_at())
        if self._clock.now() < end:
            return self._travel.go(min(self._engine.wake_at(), end))
        self._stop.requested = True
        return [StopRequested(), *self._receives.give_up()]

    def _ended(self, line: JobEnded) -> None:
        self._lines.write([line])
        error = self._failures.of(line.lease)
        self._runs.append(job_run(line, error=error, at=self._clock.now()))

    def _exit(self, command: Exit) -> None:
        self._end = command

    def _let_through(self, run: Run) -> None:
        error = self._failures.of(run.lease)
        if isinstance(error, self._through):
            raise error

    def _check_receives(self, run: Run) -> None:
        if run.queue in self._endless and run.lease.receive_count > MOST_RECEIVES:
            error = self._failures.first_of(run.lease)
            first = f", first with {type(error).__name__}: {error}" if error else ""
            raise JobqError(
                f"job type {run.job.fields.get('job_type')!r} of queue {run.queue!r} failed "
                f"{MOST_RECEIVES} times{first}. It would come back forever: give the queue a "
                "dead-letter queue and max_receive_count, or stop in time with seconds=…"
            ) from error


def _in_memory(subscription: AnySubscription, queues: JobQueues) -> MemoryQueue:
    if not isinstance(subscription, Subscription):
        raise ConfigurationError(
            f"queue {subscription.name!r} is of an async group: run_jobs receives from job_queues, "
            "a sync one, and enters async_job_queues for handlers to send over"
        )
    queue = subscription.queue
    if not isinstance(queue, MemoryQueue) or queue.server.clock is not queues.clock:
        raise ConfigurationError(
            f"queue {subscription.name!r} is {queue!r}: run_jobs moves time, so it takes "
            "MemoryQueues alone, made with clock=job_clock"
        )
    return queue


def _say_nothing(event: str, **fields: Any) -> None: ...


def _most() -> float:
    """In place of chance: delays are at their longest, so that jitter changes none."""
    return 1.0
