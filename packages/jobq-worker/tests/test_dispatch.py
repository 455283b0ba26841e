"""One lease into an outcome, with no engine and no worker around it."""

import asyncio
import gc
import json
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
import structlog
from dispatching import BODY, Around, Bench, raising
from working import Lines, lease

from jobq.core import (
    Job,
    JobMiddleware,
    NonRetryableError,
    RetryAfter,
    RetryPolicy,
    current_job,
)
from jobq.worker.dispatch import Record
from jobq.worker.engine.events import (
    NotStarted,
    Postponed,
    Raised,
    Refused,
    Succeeded,
)

LEAK: ContextVar[str] = ContextVar("leak", default="clean")


@pytest.fixture(params=["sync", "async"])
def bench(request: pytest.FixtureRequest, lines: Lines) -> Bench:
    return Bench(request.param)


def test_a_handler_gets_the_payload_and_its_return_is_success(bench: Bench) -> None:
    got: list[Any] = []
    assert bench.run(got.append) == Succeeded()
    assert got == [{"n": 1}]


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        SystemExit(1),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        GeneratorExit(),
        BaseException("bare"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_l14_whatever_a_handler_raises_is_a_raise_of_its_job_and_nothing_else(
    bench: Bench, error: BaseException, lines: Lines
) -> None:
    assert isinstance(bench.run(raising(error)), Raised)
    (line,) = lines.of("job_failed")
    assert type(error).__name__ in line["exception"].splitlines()[-1]
    assert "in handler" in line["exception"]
    assert "n" not in json.dumps({k: v for k, v in line.items() if k != "exception"}).split()


def test_instructions_of_a_handler_are_followed(bench: Bench, lines: Lines) -> None:
    assert bench.run(raising(NonRetryableError("never"))) == Refused()
    assert bench.run(raising(RetryAfter(7))) == Postponed(7)
    assert len(lines.of("job_failed")) == 1


def test_m7_a_postponement_that_is_too_long_counts_as_a_raise(bench: Bench, lines: Lines) -> None:
    assert isinstance(bench.run(lambda payload: RetryAfter(50_000)), Raised)
    assert "DelayTooLongError: " in lines.of("job_failed")[0]["exception"]


def test_l14_what_a_handler_returns_is_awaited_before_it_counts(bench: Bench) -> None:
    ran: list[str] = []

    async def later() -> None:
        await asyncio.sleep(0.01)
        ran.append("to its end")

    async def fails() -> None:
        raise NonRetryableError

    assert bench.run(lambda payload: later()) == Succeeded()
    assert ran == ["to its end"]
    assert bench.run(lambda payload: fails()) == Refused()


def test_nothing_starts_once_its_lease_may_have_run_out(bench: Bench, lines: Lines) -> None:
    ran: list[Any] = []
    bench.now = 30
    assert bench.run(ran.append, not_after=30) == NotStarted()
    assert (ran, lines.of("job_started")) == ([], [])


def test_the_nearest_policy_counts_field_by_field(bench: Bench) -> None:
    bench.environment_retry = RetryPolicy(max_attempts=10, max_delay=10, jitter=False)
    bench.worker_retry = RetryPolicy(max_attempts=9, base_delay=9, max_delay=99)
    bench.queue_retry = RetryPolicy(max_attempts=8, base_delay=8)
    handler = bench.handler(raising(ValueError()), retry=RetryPolicy(max_attempts=7))
    assert bench.run(handler).policy == RetryPolicy(
        max_attempts=7, base_delay=8, max_delay=99, jitter=False, when_exhausted="redrive"
    )
    assert bench.run(handler, attributes={"max_attempts": 2}).policy.max_attempts == 2


def test_a_job_sees_itself_its_time_and_the_stop(bench: Bench) -> None:
    seen: list[Any] = []

    def handler(payload: Any) -> None:
        context = current_job()
        assert context is not None
        seen.append((context.job.job_type, context.seconds_left()))
        seen.append((context.stopping.is_set(), context.lease_lost.is_set()))

    bench.now = 600
    bench.stopping.set()
    bench.run(handler, not_after=601)
    assert seen == [("a", 3000.0), (True, False)]
    assert current_job() is None


def test_jobs_leave_nothing_to_the_next_and_keep_what_the_application_bound(
    bench: Bench,
) -> None:
    seen: list[Any] = []

    def handler(payload: Any) -> None:
        seen.append((LEAK.get(), structlog.contextvars.get_contextvars()))
        LEAK.set("dirty")
        structlog.contextvars.bind_contextvars(user="u-1")

    with structlog.contextvars.bound_contextvars(release="r1"):
        dispatcher = bench.dispatcher({"a": bench.handler(handler)})
    for number in range(2):
        bench.finish(dispatcher, dispatcher.examine("jobs", lease(BODY, message_id=str(number))))
    ours = {"queue": "jobs", "receive_count": 1, "job_type": "a", "release": "r1"}
    assert seen == [("clean", {**ours, "message_id": number}) for number in ("0", "1")]
    assert LEAK.get() == "clean"


def test_every_line_of_a_job_says_whose_it_is(bench: Bench, lines: Lines) -> None:
    def handler(payload: Any) -> None:
        structlog.get_logger().info("working")

    bench.run(
        handler,
        group_id="g",
        receive_count=3,
        sent_at=998.5,
        attributes={"correlation_fields": '{"request": "r", "message_id": "forged", "event": 1}'},
    )
    started, working = lines.of("job_started")[0], lines.of("working")[0]
    for line in (started, working):
        assert line["message_id"] == "m-1"
        assert line["correlation_message_id"] == "forged"
        assert line["correlation_event"] == 1
        assert (line["queue"], line["job_type"], line["request"]) == ("jobs", "a", "r")
        assert line["receive_count"] == 3
    assert (started["group_id"], started["queue_wait_ms"]) == ("g", 1500)


@pytest.mark.parametrize("error", [ValueError(), RetryAfter(5)])
def test_so_does_every_line_after_a_handler_that_cleared_the_log_fields(
    bench: Bench, lines: Lines, error: Exception
) -> None:
    def handler(payload: Any) -> None:
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(message_id="forged", user="u-1")
        raise error

    def around(job: Job, call_next: Any) -> Any:
        try:
            return call_next(job)
        finally:
            raise OSError

    bench.middleware = [Around(around)]
    dispatcher = bench.dispatcher({"a": bench.handler(handler)})
    delivery = dispatcher.examine("jobs", lease(BODY))
    bench.finish(dispatcher, delivery)
    names = ["job_started", "consume_hook_failed"]
    names.append("job_postponed" if isinstance(error, RetryAfter) else "job_failed")
    assert [line["event"] for line in lines] == names
    for line in lines:
        assert (line["message_id"], line["queue"], line["job_type"]) == ("m-1", "jobs", "a")
    assert delivery.job.context.run(structlog.contextvars.get_contextvars) == {
        **delivery.job.fields,
        "user": "u-1",
    }


def test_a_message_from_the_future_has_not_waited(bench: Bench, lines: Lines) -> None:
    bench.run(lambda payload: None, sent_at=2000.0)
    assert lines.of("job_started")[0]["queue_wait_ms"] == 0


def test_what_hooks_bound_is_on_the_line_of_a_failure_and_kept_for_the_last(
    bench: Bench, lines: Lines
) -> None:
    def around(job: Job, call_next: Any) -> Any:
        with structlog.contextvars.bound_contextvars(trace_id="t"):
            return call_next(job)

    bench.middleware = [Around(around)]
    dispatcher = bench.dispatcher({"a": bench.handler(raising(ValueError()))})
    delivery = dispatcher.examine("jobs", lease(BODY))
    bench.finish(dispatcher, delivery)
    assert lines.of("job_failed")[0]["trace_id"] == "t"
    record: Record = delivery.job
    assert record.context is not None
    assert record.context.run(structlog.contextvars.get_contextvars)["trace_id"] == "t"


def test_an_async_hook_runs_around_handlers_of_both_colours(bench: Bench) -> None:
    class Awaiting(JobMiddleware):
        async def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
            LEAK.set("from the hook")
            return await call_next(job)

    seen: list[str] = []
    bench.middleware = [Awaiting()]
    assert bench.run(lambda payload: seen.append(LEAK.get())) == Succeeded()
    assert seen == ["from the hook"]


def test_a_log_that_cannot_be_written_costs_no_job(bench: Bench) -> None:
    def broken(*_: Any) -> Any:
        raise OSError("no space left on device")

    structlog.configure(processors=[broken])
    assert bench.run(lambda payload: None) == Succeeded()
    assert isinstance(bench.run(raising(ValueError())), Raised)


def test_a_failed_job_is_not_kept_alive_by_its_traceback(bench: Bench, lines: Lines) -> None:
    class Big:
        pass

    kept: list[Any] = []

    def handler(payload: Any) -> None:
        big = Big()
        kept.append(weakref.ref(big))
        raise ValueError

    gc.collect()
    gc.disable()
    try:
        bench.run(handler)
        lines.clear()
        assert kept[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("body", "verdict"),
    [
        ("hi", "malformed"),
        ("[]", "malformed"),
        ("[" * 10_000, "malformed"),
        ('{"job_type": "a"}', "malformed"),
        ('{"job_type": "b", "payload": {}}', "unknown_job_type"),
        (BODY, "runnable"),
    ],
)
def test_a_body_is_told_apart_before_anything_runs(bench: Bench, body: str, verdict: str) -> None:
    delivery = bench.dispatcher({"a": print}).examine("jobs", lease(body))
    assert delivery.verdict == verdict
    assert delivery.job.fields["message_id"] == "m-1"


def test_a_message_that_we_fail_to_read_is_not_called_malformed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    def broken(queue: str, lease: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr("jobq.worker.dispatch.read_job", broken)
    bench.worker_retry = RetryPolicy(max_attempts=1, when_exhausted="discard")
    result = bench.run(lambda payload: None)
    assert isinstance(result, Raised)
    assert result.policy.max_attempts is None, "what no handler ran is never exhausted"
    assert lines.of("job_failed")[0]["message_id"] == "m-1"


def test_a_handlers_own_time_limit_travels_with_the_delivery(bench: Bench) -> None:
    handler = bench.handler(lambda payload: None, max_runtime_seconds=5)
    delivery = bench.dispatcher({"a": handler}).examine("jobs", lease(BODY))
    assert delivery.max_runtime == 5
