"""One run of a worker, from the first look at its queues to the last log line."""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from jobq.core import ConfigurationError, JobqError
from jobq.core.clock import now
from jobq.worker.dispatch import Dispatcher
from jobq.worker.engine.commands import Accounts, Exit
from jobq.worker.engine.engine import Engine
from jobq.worker.engine.events import StopRequested
from jobq.worker.executors import Executors
from jobq.worker.faults import traceback_of
from jobq.worker.health import HealthFile
from jobq.worker.inbox import Inbox
from jobq.worker.loops import HandlersLoop
from jobq.worker.polls import Polls, StopFlag
from jobq.worker.pools import spawn
from jobq.worker.reporting import Reporting
from jobq.worker.runner import Runner
from jobq.worker.settling import Settling
from jobq.worker.starting import Prepared, Starting
from jobq.worker.subscriptions import loggable_payloads

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from contextvars import Context

    from jobq.core import Queue, QueueStats
    from jobq.worker.engine.config import QueueConfig
    from jobq.worker.handlers import Handler
    from jobq.worker.options import Options
    from jobq.worker.subscriptions import Subscription

# How long the last lines may take where the output is blocked, and the last counts of a burst.
LAST_LINES_SECONDS = 2.0
LAST_STATS_SECONDS = 5.0
# A poll is overdue this long after its timeout.
POLL_GRACE_SECONDS = 5.0
# A runner that hasn't turned for so long is stuck.
STILL_SECONDS = 10.0


def _slots(concurrency: int, configs: Sequence[QueueConfig]) -> int:
    """How many jobs can run at once, where the caps of all queues together are less."""
    return min(concurrency, sum(config.cap or concurrency for config in configs))


def _close(queue: Queue) -> None:
    with suppress(Exception):  # the worker has ended as it has
        queue.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended: the process's exit code, and what was raised where something was."""

    code: int
    error: BaseException | None = None


class Session:
    """Runs in daemon threads of its own, from `start` until it calls `ended`, once.

    `loop` is the caller's, for async handlers; None: one in a thread. `context` is what every job's
    own is a copy of.
    """

    def __init__(
        self,
        subscriptions: Sequence[Subscription],
        handlers: Mapping[str, Handler],
        options: Options,
        *,
        burst: bool,
        loop: asyncio.AbstractEventLoop | None,
        context: Context,
        stop: StopFlag,
        ended: Callable[[Ending], None],
    ) -> None:
        self._subscriptions = subscriptions
        self._handlers = handlers
        self._options = options
        self._burst = burst
        self._loop = loop
        self._context = context
        self._stop = stop
        self._ended = ended
        self._inbox = Inbox()
        self._prepared: SimpleQueue[Prepared | BaseException | None] = SimpleQueue()
        self._reporting = Reporting(context=context, sensitive=loggable_payloads(subscriptions))

    def start(self) -> None:
        spawn(self._main, name="jobq-runner", context=self._context)

    def request_stop(self) -> None:
        """From any thread and any number of times; takes no lock, so in a signal handler too."""
        self._stop.requested = True
        self._prepared.put(None)
        self._inbox.put(StopRequested())

    def _main(self) -> None:
        try:
            ending = self._serve()
        except BaseException as error:  # noqa: BLE001 - whoever waits must hear of it
            self._reporting.say("critical", "worker_crashed", exception=traceback_of(error))
            ending = Ending(code=1, error=error)
        self._stop.requested = True
        self._reporting.close(timeout=LAST_LINES_SECONDS)
        self._ended(ending)

    def _serve(self) -> Ending:
        spawn(self._prepare, name="jobq-start", context=self._context)
        prepared = self._prepared.get()
        if prepared is None:
            return self._end(Exit(0, Accounts()))
        if isinstance(prepared, BaseException):
            if not isinstance(prepared, ConfigurationError):
                self._reporting.say("error", "worker_not_started", error=str(prepared))
            return Ending(code=1, error=prepared)
        return self._turn(prepared)

    def _prepare(self) -> None:
        starting = Starting(
            self._options,
            warn=partial(self._reporting.say, "warning"),
            pause=self._pause,
            random=random.random,
        )
        try:
            self._prepared.put(starting.prepare(self._subscriptions, self._handlers))
        except BaseException as error:  # noqa: BLE001 - the run ends with it
            self._prepared.put(error)

    def _pause(self, seconds: float) -> None:
        time.sleep(seconds)
        if self._stop.requested:
            raise JobqError("stopped while the queues were not reached yet")

    def _turn(self, prepared: Prepared) -> Ending:
        options, stopping = self._options, threading.Event()
        dispatcher = Dispatcher(
            self._handlers,
            {one.name: one.route for one in self._subscriptions},
            retry=options.retry,
            context=self._context,
            clock=now,
            unix_time=time.time,
            stopping=stopping,
        )
        polls = Polls(prepared.sources, examine=dispatcher.examine, clock=now, stop=self._stop)
        runner = Runner(
            Engine(
                options.engine_config(prepared.configs, burst=self._burst),
                now=now(),
                random=random.random,
            ),
            inbox=self._inbox,
            reporting=self._reporting,
            clock=now,
        )
        executors = Executors(
            dispatcher=dispatcher,
            polls=polls,
            settling=Settling(
                {one.name: one.queue for one in self._subscriptions},
                dead_letters=prepared.dead_letters,
                clock=now,
            ),
            loop=HandlersLoop(self._loop, context=self._context),
            stopping=stopping,
            concurrency=_slots(options.concurrency, prepared.configs),
            bring=runner.bring,
            put=self._inbox.put,
            crashed=runner.crash,
        )
        self._reporting.say(
            "info",
            "worker_started",
            queues=[config.name for config in prepared.configs],
            concurrency=options.concurrency,
            job_types=sorted(self._handlers),
        )
        with ExitStack() as stack, self._health(runner, polls, executors), closing(executors):
            for queue in prepared.dead_letters.values():
                stack.callback(_close, queue)
            try:
                return self._end(runner.run(executors), polls.last_failure)
            finally:
                self._stop.requested = True
                stopping.set()

    def _health(
        self, runner: Runner, polls: Polls, executors: Executors
    ) -> AbstractContextManager[object]:
        if self._options.health_file is None:
            return nullcontext()
        return closing(
            HealthFile(
                self._options.health_file,
                healthy=lambda: (
                    now() - runner.turned_at < STILL_SECONDS
                    and not polls.overdue(grace=POLL_GRACE_SECONDS)
                    and not executors.stuck()
                ),
                failed=lambda error: self._reporting.say(
                    "warning", "health_file_failed", error=str(error)
                ),
                context=self._context,
            )
        )

    def _end(self, end: Exit, failure: JobqError | None = None) -> Ending:
        """Write the last line, which accounts for every receive."""
        fields: dict[str, Any] = asdict(end.accounts)
        if end.still_running:
            fields["still_running"] = end.still_running
        if self._burst:
            fields["remaining"] = self._remaining()
        level = "error" if end.code else "info"
        self._reporting.say(level, "worker_stopped", **fields, exit_code=end.code)
        if not end.code:
            return Ending(code=0)
        if end.still_running:
            return Ending(
                code=end.code,
                error=JobqError(
                    f"{end.still_running} jobs still ran after shutdown_timeout "
                    f"({self._options.shutdown_timeout:g} s); their messages come back"
                ),
            )
        return Ending(
            code=end.code, error=failure or JobqError("the worker can't go on; see its log")
        )

    def _remaining(self) -> dict[str, dict[str, int]]:
        """What the queues still hold, as far as they say so within a few seconds."""
        counts: SimpleQueue[tuple[str, QueueStats]] = SimpleQueue()

        def ask() -> None:
            for one in self._subscriptions:
                with suppress(Exception):
                    counts.put((one.name, one.queue.stats()))

        spawn(ask, name="jobq-stats", context=self._context)
        until = now() + LAST_STATS_SECONDS
        found: dict[str, dict[str, int]] = {}
        with suppress(Empty):
            while len(found) < len(self._subscriptions):
                name, stats = counts.get(timeout=max(0.0, until - now()))
                found[name] = asdict(stats)
        return found
