"""The fixture `run_jobs`: a burst on the clock of the test's queues."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from jobq.core import (
    ConfigurationError,
    JobMiddleware,
    JobqError,
    Message,
    NonRetryableError,
    RetryAfter,
    RetryPolicy,
    current_job,
)
from jobq.core.memory import MemoryQueue
from jobq.core.testing.job_queues import JobQueues
from jobq.worker import Handler
from jobq.worker.engine.commands import Accounts
from jobq.worker.testing import AsyncRunJobs, RunJobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from working import Lines

    from jobq.core import Job
    from jobq.core.memory import ManualClock

pytestmark = pytest.mark.usefixtures("lines")

HOUR = 3600


class Flaky:
    """A handler that raises so many times, and keeps when it was called."""

    def __init__(self, clock: ManualClock, *, times: int, error: BaseException | None = None):
        self.calls: list[float] = []
        self._clock = clock
        self._times = times
        self._error = error or ValueError("not yet")

    def __call__(self, payload: dict[str, Any]) -> None:
        self.calls.append(self._clock.now())
        if len(self.calls) <= self._times:
            raise self._error


def nothing(payload: object) -> None: ...


def with_dead_letters(clock: ManualClock, *, most: int) -> tuple[JobQueues, MemoryQueue]:
    dead = MemoryQueue("dead", clock=clock)
    queue = MemoryQueue("jobs", dead_letter_queue=dead, max_receive_count=most)
    return JobQueues({"default": {"queue": queue}}, clock=clock), dead


# --- what it tells ------------------------------------------------------------------------------


def test_it_runs_what_was_enqueued_and_says_what_became_of_it(
    job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    seen: list[dict[str, Any]] = []
    message_id = job_queues.enqueue("default", "greet", {"who": "you"})

    ran = run_jobs({"greet": seen.append})

    assert seen == [{"who": "you"}]
    [run] = ran.runs
    assert (run.queue, run.job_type, run.payload) == ("default", "greet", {"who": "you"})
    assert (run.outcome, run.receive_count, run.message_id) == ("success", 1, message_id)
    assert (run.group_id, run.error) == (None, None)
    assert ran.accounts == Accounts(received=1, started=1)
    assert sum(stats.waiting + stats.in_flight for stats in ran.remaining.values()) == 0


def test_with_nothing_to_do_it_ends_and_tells_so(run_jobs: RunJobs) -> None:
    ran = run_jobs({"greet": nothing})
    assert (ran.runs, ran.outcomes, ran.accounts) == ((), [], Accounts())


def test_jobs_that_jobs_enqueue_run_too(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    def first(payload: object) -> None:
        job_queues.enqueue("ledger", "second", message_group_id="g")

    job_queues.enqueue("default", "first")
    ran = run_jobs({"first": first, "second": nothing})
    assert ran.outcomes == [("first", "success"), ("second", "success")]
    assert [run.group_id for run in ran.of("second")] == ["g"]


def test_a_group_keeps_its_order(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    seen: list[int] = []
    for number in range(25):
        job_queues.enqueue("ledger", "add", {"n": number}, message_group_id="g")
    run_jobs({"add": lambda payload: seen.append(payload["n"])}, concurrency=4)
    assert seen == list(range(25))


def test_it_runs_again_on_what_came_since(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    for _ in range(2):
        job_queues.enqueue("default", "greet")
        assert run_jobs({"greet": nothing}).outcomes == [("greet", "success")]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), asyncio.CancelledError()])
def test_what_a_handler_raised_is_kept(
    job_queues: JobQueues, run_jobs: RunJobs, error: BaseException
) -> None:
    job_queues.enqueue("default", "greet")
    ran = run_jobs({"greet": Flaky(job_queues.clock, times=1, error=error)})
    assert ran.outcomes == [("greet", "retry"), ("greet", "success")]
    assert [run.error for run in ran.runs] == [error, None]


def test_a_job_that_must_not_run_again_is_deleted(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    job_queues.enqueue("default", "greet")
    ran = run_jobs({"greet": Flaky(job_queues.clock, times=9, error=NonRetryableError("no"))})
    assert ran.outcomes == [("greet", "delete")]
    assert isinstance(ran.runs[0].error, NonRetryableError)


def test_what_no_handler_can_run_is_told_too(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    job_queues.queue("default").publish(Message("no JSON"))
    job_queues.enqueue("default", "unknown", {"a": 1})
    ran = run_jobs({"greet": nothing})
    assert [(run.job_type, run.payload, run.outcome) for run in ran.runs] == [
        (None, None, "malformed"),
        ("unknown", {"a": 1}, "unknown_job_type"),
    ]
    assert ran.accounts == Accounts(received=2, refused=2)
    assert ran.remaining["default"].in_flight == 1


def test_the_log_lines_are_the_workers(
    job_queues: JobQueues, run_jobs: RunJobs, lines: Lines
) -> None:
    job_queues.enqueue("default", "greet", correlation_fields={"request": "r-1"})
    run_jobs({"greet": lambda _: structlog.get_logger().info("inside")})
    order = [line["event"] for line in lines]
    assert order == ["job_enqueued", "job_started", "inside", "job_finished"]
    for line in lines[1:]:
        assert (line["queue"], line["job_type"], line["request"]) == ("default", "greet", "r-1")


# --- time ---------------------------------------------------------------------------------------


def test_a_retry_an_hour_away_takes_no_hour(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    greet = Flaky(job_queues.clock, times=3)
    job_queues.enqueue("default", "greet")
    began = time.monotonic()

    ran = run_jobs({"greet": greet}, retry=RetryPolicy(base_delay=HOUR, max_delay=12 * HOUR))

    assert time.monotonic() - began < 5
    assert greet.calls == [0, HOUR, 3 * HOUR, 7 * HOUR]
    assert [run.at for run in ran.runs] == greet.calls
    assert [run.receive_count for run in ran.runs] == [1, 2, 3, 4]
    assert 7 * HOUR <= ran.seconds <= 7 * HOUR + 10


def test_the_longest_delay_that_a_handler_can_ask_for(
    job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    greet = Flaky(job_queues.clock, times=2, error=RetryAfter(12 * HOUR - 60))
    job_queues.enqueue("default", "greet")
    run_jobs({"greet": greet})
    assert greet.calls == [0, 12 * HOUR - 60, 24 * HOUR - 120]


def test_without_a_base_delay_the_visibility_timeout_passes(
    job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    greet = Flaky(job_queues.clock, times=2)
    job_queues.enqueue("default", "greet")
    run_jobs({"greet": greet})
    assert greet.calls == [0, 30, 60]


def test_in_a_group_the_next_waits_for_the_retry(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    seen: list[tuple[str, float]] = []
    flaky = Flaky(job_queues.clock, times=1)

    def add(payload: dict[str, Any]) -> None:
        seen.append((payload["name"], job_queues.clock.now()))
        if payload["name"] == "a":
            flaky(payload)

    for name in ("a", "b"):
        job_queues.enqueue("ledger", "add", {"name": name}, message_group_id="g")
    job_queues.enqueue("ledger", "add", {"name": "c"}, message_group_id="other")

    run_jobs({"add": add}, retry=RetryPolicy(base_delay=600))
    assert seen == [("a", 0), ("c", 0), ("a", 600), ("b", 600)]


def test_what_was_delayed_runs_when_it_is_due_while_a_retry_is_waited_for(
    job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    flaky = Flaky(job_queues.clock, times=1)
    late = Flaky(job_queues.clock, times=0)
    job_queues.enqueue("default", "flaky")
    job_queues.enqueue("default", "late", delay_seconds=77)
    run_jobs({"flaky": flaky, "late": late}, retry=RetryPolicy(base_delay=900))
    assert (flaky.calls, late.calls) == ([0, 900], [77])


def test_what_was_delayed_is_not_waited_for(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    job_queues.enqueue("default", "greet")
    job_queues.enqueue("default", "greet", delay_seconds=60)
    ran = run_jobs({"greet": nothing})
    assert ran.outcomes == [("greet", "success")]
    assert ran.remaining["default"].delayed == 1
    assert ran.seconds < 10
    job_queues.clock.advance(60)
    assert run_jobs({"greet": nothing}).outcomes == [("greet", "success")]


def test_it_stops_in_time_where_it_is_told_to(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    greet = Flaky(job_queues.clock, times=99)
    job_queues.enqueue("default", "greet")
    ran = run_jobs({"greet": greet}, seconds=45)
    assert greet.calls == [0, 30]
    assert ran.seconds == 45
    assert ran.remaining["default"].in_flight == 1


def test_a_handler_that_outlasts_its_lease_has_lost_it(
    job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    def slow(payload: object) -> None:
        job = current_job()
        if job and job.job.receive_count == 1:
            job_queues.clock.advance(31)

    job_queues.enqueue("default", "slow")
    ran = run_jobs({"slow": slow})
    assert ran.outcomes == [("slow", "heartbeat_failed"), ("slow", "success")]


def test_time_that_a_handler_takes_is_told(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    left: list[float] = []

    def slow(payload: object) -> None:
        job_queues.clock.advance(10)
        job = current_job()
        assert job
        left.append(job.seconds_left())

    job_queues.enqueue("default", "slow")
    ran = run_jobs({"slow": Handler(slow, max_runtime_seconds=100)})
    assert ran.outcomes == [("slow", "success")]
    assert left == [90]


def test_what_comes_back_too_often_goes_to_the_dead_letter_queue(job_clock: ManualClock) -> None:
    queues, dead = with_dead_letters(job_clock, most=3)
    queues.enqueue("default", "greet")
    ran = RunJobs(queues)(
        {"greet": Flaky(job_clock, times=99)}, retry=RetryPolicy(max_attempts=3, base_delay=60)
    )
    assert [run.outcome for run in ran.runs] == ["retry", "retry", "exhausted"]
    assert dead.stats().waiting == 1


def test_jobs_that_would_come_back_forever_are_an_error_that_says_so(
    job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    errors = [ValueError(f"failure {number}") for number in range(1, 30)]

    def greet(payload: object) -> None:
        raise errors.pop(0)

    first = errors[0]
    job_queues.enqueue("default", "other")
    job_queues.enqueue("default", "greet")
    with pytest.raises(JobqError, match=r"'greet'.*forever.*max_receive_count") as raised:
        run_jobs({"greet": greet, "other": Flaky(job_queues.clock, times=1)})
    assert "20 times, first with ValueError: failure 1. It" in str(raised.value)
    assert raised.value.__cause__ is first


# --- how handlers run ---------------------------------------------------------------------------


def test_sync_handlers_run_in_the_thread_of_the_test_in_contexts_of_their_own(
    job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    threads: set[int] = set()
    seen: list[str] = []
    word: ContextVar[str] = ContextVar("word", default="none")

    def greet(payload: object) -> None:
        threads.add(threading.get_ident())
        seen.append(word.get())
        word.set("of a job")

    word.set("of the test")
    for _ in range(2):
        job_queues.enqueue("default", "greet")
    run_jobs({"greet": greet}, concurrency=2)
    assert threads == {threading.get_ident()}
    assert seen == ["of the test", "of the test"]
    assert word.get() == "of the test"


def test_async_handlers_share_a_loop_and_leave_the_threads_own_alone(
    job_queues: JobQueues, run_jobs: RunJobs
) -> None:
    loops: list[object] = []

    async def greet(payload: object) -> None:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())

    def returns_one(payload: object) -> Any:
        return greet(payload)

    job_queues.enqueue("default", "greet")
    job_queues.enqueue("default", "returns_one")
    ran = run_jobs({"greet": greet, "returns_one": returns_one})
    assert {run.outcome for run in ran.runs} == {"success"}
    assert len(loops) == 2
    assert len(set(loops)) == 1
    asyncio.run(asyncio.sleep(0))


def test_what_an_async_handler_raises_is_kept(job_queues: JobQueues, run_jobs: RunJobs) -> None:
    async def greet(payload: object) -> None:
        raise NonRetryableError("no")

    def returns_one(payload: object) -> Any:
        return greet(payload)

    for job_type in ("greet", "returns_one"):
        job_queues.enqueue("default", job_type)
    ran = run_jobs({"greet": greet, "returns_one": returns_one})
    assert ran.outcomes == [("greet", "delete"), ("returns_one", "delete")]
    assert all(isinstance(run.error, NonRetryableError) for run in ran.runs)


class Recorder(JobMiddleware):
    """Says when its hooks ran."""

    def __init__(self, *, refuse: bool = False) -> None:
        self.seen: list[str] = []
        self._refuse = refuse

    def poll(self, call_next: Callable[[], Any]) -> Any:
        self.seen.append("poll")
        return call_next()

    def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        self.seen.append("before")
        if self._refuse:
            raise NonRetryableError("refused")
        answer = call_next(job)
        self.seen.append("after")
        return answer


def test_the_hooks_of_the_group_run_around_it(job_clock: ManualClock) -> None:
    middleware = Recorder()
    queues = JobQueues(middleware=[middleware], clock=job_clock)
    queues.enqueue("default", "greet")
    ran = RunJobs(queues)({"greet": lambda _: middleware.seen.append("handler")})
    assert ran.outcomes == [("greet", "success")]
    hooks = [name for name in middleware.seen if name != "poll"]
    assert hooks == ["before", "handler", "after"]
    assert "poll" in middleware.seen


def test_what_a_hook_raised_before_the_handler_is_the_error_of_the_run(
    job_clock: ManualClock,
) -> None:
    queues = JobQueues(middleware=[Recorder(refuse=True)], clock=job_clock)
    queues.enqueue("default", "greet")
    ran = RunJobs(queues)({"greet": nothing})
    assert ran.outcomes == [("greet", "delete")]
    assert str(ran.runs[0].error) == "refused"


def test_what_would_end_the_worker_is_raised(job_clock: ManualClock) -> None:
    class Broken(JobMiddleware):
        def poll(self, call_next: Callable[[], Any]) -> Any:
            raise OSError("no way to the queue")

    queues = JobQueues(middleware=[Broken()], clock=job_clock)
    with pytest.raises(JobqError, match="no way to the queue"):
        RunJobs(queues)({"greet": nothing})


@pytest.mark.parametrize("make", [KeyboardInterrupt, lambda: pytest.fail.Exception("no")])
def test_what_ends_a_test_ends_it_inside_a_handler_too(
    job_queues: JobQueues, run_jobs: RunJobs, make: Callable[[], BaseException]
) -> None:
    error = make()
    job_queues.enqueue("default", "greet")
    with pytest.raises(type(error)) as raised:
        run_jobs({"greet": Flaky(job_queues.clock, times=1, error=error)})
    assert raised.value is error


# --- what it refuses ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("handlers", "options"),
    [({}, {}), ({"greet": nothing}, {"concurrency": 0}), ({"greet": 1}, {})],
)
def test_it_refuses_what_a_worker_refuses(
    run_jobs: RunJobs, handlers: Mapping[str, Any], options: Any
) -> None:
    with pytest.raises(ConfigurationError):
        run_jobs(handlers, **options)


def test_a_queue_on_another_clock_is_refused(job_clock: ManualClock) -> None:
    queues = JobQueues({"default": {"queue": MemoryQueue("jobs")}}, clock=job_clock)
    with pytest.raises(ConfigurationError, match="clock=job_clock"):
        RunJobs(queues)({"greet": nothing})


def test_a_queue_that_is_not_in_memory_is_refused(job_clock: ManualClock) -> None:
    class Elsewhere:
        publish = nothing

    queues = JobQueues({"default": {"queue": Elsewhere()}}, clock=job_clock)
    with pytest.raises(ConfigurationError, match="MemoryQueues alone"):
        RunJobs(queues)({"greet": nothing})


def test_inside_a_running_loop_it_says_what_to_use_instead(run_jobs: RunJobs) -> None:
    async def test() -> None:
        run_jobs({"greet": nothing})

    with pytest.raises(ConfigurationError, match="await run_jobs_async"):
        asyncio.run(test())


# --- its async twin -----------------------------------------------------------------------------


def test_the_twin_runs_async_handlers_on_the_loop_of_the_test(
    job_queues: JobQueues, run_jobs_async: AsyncRunJobs
) -> None:
    flaky = Flaky(job_queues.clock, times=1)
    loops: list[object] = []

    async def greet(payload: dict[str, Any]) -> None:
        loops.append(asyncio.get_running_loop())
        flaky(payload)

    def returns_one(payload: dict[str, Any]) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        return greet(payload)

    async def test() -> None:
        job_queues.enqueue("default", "greet")
        job_queues.enqueue("default", "returns_one")
        ran = await run_jobs_async(
            {"greet": greet, "returns_one": returns_one}, retry=RetryPolicy(base_delay=HOUR)
        )
        assert ran.outcomes == [
            ("greet", "retry"),
            ("returns_one", "success"),
            ("greet", "success"),
        ]
        assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(test())
    assert flaky.calls == [0, 0, 900]


def test_the_twin_keeps_what_an_awaitable_raises(
    job_queues: JobQueues, run_jobs_async: AsyncRunJobs
) -> None:
    async def fails() -> None:
        raise NonRetryableError("no")

    async def test() -> None:
        job_queues.enqueue("default", "greet")
        ran = await run_jobs_async({"greet": lambda _: fails()})
        assert ran.outcomes == [("greet", "delete")]

    asyncio.run(test())
