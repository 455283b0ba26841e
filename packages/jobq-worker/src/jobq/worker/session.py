"""One run of a worker, from the first look at its queues to the last log line."""

from __future__ import annotations

import random
import threading
import time
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import partial
from queue import SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jobq.core import ConfigurationError, JobqError
from jobq.core.clock import now
from jobq.worker.dispatch import Dispatcher
from jobq.worker.engine.commands import Accounts, Exit
from jobq.worker.engine.engine import Engine
from jobq.worker.engine.events import StopRequested
from jobq.worker.entered import Loops
from jobq.worker.executors import Executors
from jobq.worker.faults import traceback_of
from jobq.worker.health import HealthFile
from jobq.worker.inbox import Inbox
from jobq.worker.loops import FAREWELL_SECONDS
from jobq.worker.polls import AsyncPolls, Outstanding, Polls, StopFlag
from jobq.worker.pools import spawn
from jobq.worker.queue_calls import QueueTasks, QueueThreads
from jobq.worker.remaining import count_remaining
from jobq.worker.reporting import Reporting
from jobq.worker.runner import Runner
from jobq.worker.settling import AsyncSettling, Settling
from jobq.worker.starting import Prepared, Starting
from jobq.worker.subscriptions import Subscription, groups_of, loggable_payloads

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from contextvars import Context

    from jobq.worker.handlers import Handler
    from jobq.worker.options import Options
    from jobq.worker.polls import AsyncSource
    from jobq.worker.subscriptions import AnySubscription

# How long the last lines may take where the output is blocked.
LAST_LINES_SECONDS = 2.0
# A poll is overdue this long after its timeout.
POLL_GRACE_SECONDS = 5.0
# A runner that hasn't turned for so long is stuck.
STILL_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended: the process's exit code, and what was raised where something was."""

    code: int
    error: BaseException | None = None


class Session:
    """Runs in daemon threads of its own, from `start` until it calls `ended`, once.

    `loop` is the caller's, for async handlers; None: one in a thread, on which the async `groups`
    are entered, each with the names of its queues. Async queues are served on another one, in a
    thread that there is for them alone. `context` is what every job's own is a copy of.
    """

    def __init__(
        self,
        subscriptions: Sequence[AnySubscription],
        handlers: Mapping[str, Handler],
        options: Options,
        *,
        groups: Mapping[AbstractAsyncContextManager[object], str],
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
        self._context = context
        self._stop = stop
        self._ended = ended
        self._inbox = Inbox()
        self._prepared: SimpleQueue[Prepared | BaseException | None] = SimpleQueue()
        self._reporting = Reporting(context=context, sensitive=loggable_payloads(subscriptions))
        self._loops = Loops(loop, served=groups_of(subscriptions), given=groups, context=context)

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
        self._loops.close()
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
            groups=self._loops.groups,
            loop=self._loops.queues,
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
        outstanding = Outstanding(examine=dispatcher.examine, clock=now, stop=self._stop)
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
            threads=self._threads(prepared, outstanding, runner),
            tasks=self._tasks(prepared, outstanding, runner),
            awaited=prepared.async_sources,
            loop=self._loops.handlers,
            stopping=stopping,
            stop_waiting=outstanding.stop_waiting,
            concurrency=self._slots(prepared),
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
        with ExitStack() as stack, self._health(runner, outstanding, executors), closing(executors):
            stack.callback(self._close_dead_letters, prepared)
            try:
                end = runner.run(executors)
                return self._end(end, outstanding.last_failure, prepared.async_sources)
            finally:
                self._stop.requested = True
                stopping.set()

    def _threads(
        self, prepared: Prepared, outstanding: Outstanding, runner: Runner
    ) -> QueueThreads:
        queues = {name: source.queue for name, source in prepared.sources.items()}
        return QueueThreads(
            polls=Polls(prepared.sources, outstanding),
            settling=Settling(queues, dead_letters=prepared.dead_letters, clock=now),
            context=self._context,
            concurrency=self._slots(prepared),
            bring=runner.bring,
            put=self._inbox.put,
            crashed=runner.crash,
        )

    def _tasks(self, prepared: Prepared, outstanding: Outstanding, runner: Runner) -> QueueTasks:
        queues = {name: source.queue for name, source in prepared.async_sources.items()}
        return QueueTasks(
            polls=AsyncPolls(prepared.async_sources, outstanding, handlers=self._loops.handlers),
            settling=AsyncSettling(queues, dead_letters=prepared.async_dead_letters, clock=now),
            loop=self._loops.queues,
            context=self._context,
            concurrency=self._slots(prepared),
            put=self._inbox.put,
            crashed=runner.crash,
        )

    def _close_dead_letters(self, prepared: Prepared) -> None:
        for queue in prepared.dead_letters.values():
            with suppress(Exception):  # the worker has ended as it has
                queue.close()
        for queue in prepared.async_dead_letters.values():
            with suppress(Exception):
                self._loops.queues.wait(queue.close, seconds=FAREWELL_SECONDS)

    def _health(
        self, runner: Runner, outstanding: Outstanding, executors: Executors
    ) -> AbstractContextManager[object]:
        if self._options.health_file is None:
            return nullcontext()
        return closing(
            HealthFile(
                self._options.health_file,
                healthy=lambda: (
                    now() - runner.turned_at < STILL_SECONDS
                    and not outstanding.overdue(grace=POLL_GRACE_SECONDS)
                    and not executors.stuck()
                ),
                failed=lambda error: self._reporting.say(
                    "warning", "health_file_failed", error=str(error)
                ),
                context=self._context,
            )
        )

    def _end(
        self,
        end: Exit,
        failure: JobqError | None = None,
        sources: Mapping[str, AsyncSource] = MappingProxyType({}),
    ) -> Ending:
        """Write the last line, which accounts for every receive."""
        fields: dict[str, Any] = asdict(end.accounts)
        if end.still_running:
            fields["still_running"] = end.still_running
        if self._burst:
            fields["remaining"] = self._remaining(sources)
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

    def _remaining(self, sources: Mapping[str, AsyncSource]) -> dict[str, dict[str, int]]:
        return count_remaining(
            {one.name: one.queue for one in self._subscriptions if isinstance(one, Subscription)},
            {name: source.queue for name, source in sources.items()},
            loop=self._loops.queues,
            context=self._context,
        )

    def _slots(self, prepared: Prepared) -> int:
        """How many jobs can run at once, where the caps of all queues together are less."""
        concurrency = self._options.concurrency
        return min(concurrency, sum(one.cap or concurrency for one in prepared.configs))
