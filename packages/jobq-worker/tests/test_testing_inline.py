"""The group that runs each job inside `enqueue`."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest

from jobq.core import (
    ConfigurationError,
    InvalidMessageError,
    JobMiddleware,
    JobRequest,
    Message,
    NonRetryableError,
    RetryAfter,
    UnknownQueueError,
    current_job,
)
from jobq.worker.testing import InlineQueueGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.core import Job

pytestmark = pytest.mark.usefixtures("lines")


def test_the_job_has_run_when_enqueue_returns_its_message_id() -> None:
    jobs: list[Job] = []

    def greet(payload: dict[str, Any]) -> None:
        running = current_job()
        assert running
        assert payload == {"who": "you"}
        jobs.append(running.job)

    queues = InlineQueueGroup({"greet": greet})
    message_id = queues.enqueue(
        "ledger", "greet", {"who": "you"}, message_group_id="g", correlation_fields={"a": 1}
    )
    [job] = jobs
    assert (job.message_id, job.queue, job.group_id) == (message_id, "ledger", "g")
    assert (job.receive_count, job.correlation_fields) == (1, {"a": 1})
    assert queues.stats()["ledger"].waiting + queues.stats()["ledger"].in_flight == 0


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), NonRetryableError("no"), RetryAfter(5), SystemExit(1), KeyboardInterrupt()],
)
def test_what_the_handler_raises_is_raised_and_the_job_is_gone(error: BaseException) -> None:
    calls: list[object] = []

    def greet(payload: object) -> None:
        calls.append(payload)
        raise error

    queues = InlineQueueGroup({"greet": greet, "other": lambda _: None})
    with pytest.raises(type(error)) as raised:
        queues.enqueue("default", "greet")
    assert raised.value is error
    queues.enqueue("default", "other")
    assert len(calls) == 1


def test_async_handlers_run_too() -> None:
    seen: list[object] = []

    async def greet(payload: object) -> None:
        await asyncio.sleep(0)
        seen.append(payload)

    def returns_one(payload: object) -> Any:
        return greet(payload)

    queues = InlineQueueGroup({"greet": greet, "returns_one": returns_one})
    queues.enqueue("default", "greet", {"n": 1})
    queues.enqueue("default", "returns_one", {"n": 2})
    assert seen == [{"n": 1}, {"n": 2}]


def test_async_handlers_run_where_a_loop_runs_already() -> None:
    seen: list[object] = []

    async def greet(payload: object) -> None:
        await asyncio.sleep(0)
        seen.append(payload)

    async def fails(payload: object) -> None:
        raise ValueError("no")

    queues = InlineQueueGroup({"greet": greet, "fails": fails})

    async def test() -> None:
        queues.enqueue("default", "greet", {"n": 1})
        with pytest.raises(ValueError, match="no"):
            queues.enqueue("default", "fails")

    asyncio.run(test())
    assert seen == [{"n": 1}]


def test_a_job_may_enqueue_to_the_group_it_runs_in() -> None:
    order: list[str] = []

    def first(payload: object) -> None:
        order.append("first begins")
        queues.enqueue("ledger", "second", message_group_id="g")
        order.append("first ends")

    queues = InlineQueueGroup({"first": first, "second": lambda _: order.append("second")})
    queues.enqueue("ledger", "first", message_group_id="g")
    assert order == ["first begins", "second", "first ends"]


def test_a_batch_runs_in_order_up_to_the_first_that_raises() -> None:
    seen: list[int] = []

    def add(payload: dict[str, int]) -> None:
        seen.append(payload["n"])
        if payload["n"] == 13:
            raise ValueError("unlucky")

    queues = InlineQueueGroup({"add": add})
    ids = queues.enqueue_batch("default", [JobRequest("add", {"n": n}) for n in range(12)])
    assert len(set(ids)) == 12
    with pytest.raises(ValueError, match="unlucky"):
        queues.enqueue_batch("default", [JobRequest("add", {"n": n}) for n in (12, 13, 14)])
    queues.enqueue("default", "add", {"n": 20})
    assert seen == [*range(14), 20]
    assert queues.enqueue_batch("default", []) == []


def test_a_delay_passes_at_once() -> None:
    seen: list[float] = []
    queues = InlineQueueGroup({"greet": lambda _: seen.append(queues.clock.now())})
    queues.enqueue("default", "greet", delay_seconds=59.5)
    queues.enqueue_batch("default", [JobRequest("greet", delay_seconds=10)])
    assert seen == [60, 70]


def test_a_duplicate_does_not_run_twice() -> None:
    seen: list[object] = []
    queues = InlineQueueGroup({"greet": seen.append})
    ids = {
        queues.enqueue("ledger", "greet", message_group_id="g", message_deduplication_id="once")
        for _ in range(2)
    }
    assert len(ids) == len(seen) == 1


class Recorder(JobMiddleware):
    def __init__(self) -> None:
        self.seen: list[str] = []

    async def produce(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        self.seen.append("produce")
        job.correlation_fields["from"] = "hook"
        return await call_next(job)

    async def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        self.seen.append(f"consume {job.correlation_fields['from']}")
        if job.payload.get("refuse"):
            raise NonRetryableError("refused")
        return await call_next(job)


def test_hooks_run_on_both_sides() -> None:
    middleware = Recorder()
    queues = InlineQueueGroup(
        {"greet": lambda _: middleware.seen.append("handler")}, middleware=[middleware]
    )
    queues.enqueue("default", "greet")
    assert middleware.seen == ["produce", "consume hook", "handler"]
    with pytest.raises(NonRetryableError, match="refused"):
        queues.enqueue("default", "greet", {"refuse": True})


def test_the_context_of_a_job_is_its_own() -> None:
    word: ContextVar[str] = ContextVar("word", default="none")
    seen: list[str] = []

    def greet(payload: object) -> None:
        seen.append(word.get())
        word.set("of a job")

    queues = InlineQueueGroup({"greet": greet})
    for _ in range(2):
        queues.enqueue("default", "greet")
    assert seen == ["none", "none"]
    assert current_job() is None


def test_it_refuses_what_no_worker_could_run() -> None:
    queues = InlineQueueGroup({"greet": lambda _: None})
    with pytest.raises(ConfigurationError, match="'unknown'"):
        queues.enqueue("default", "unknown")
    with pytest.raises(InvalidMessageError):
        queues.enqueue("default", "greet", {"when": object()})
    with pytest.raises(InvalidMessageError, match="message_group_id"):
        queues.enqueue("ledger", "greet")
    with pytest.raises(UnknownQueueError):
        queues.enqueue("other", "greet")
    with pytest.raises(ConfigurationError):
        InlineQueueGroup({})


def test_a_message_that_is_no_job_is_refused_by_its_reason() -> None:
    queues = InlineQueueGroup({"greet": lambda _: None})
    queues.queue("default").publish(Message("no JSON"))
    with pytest.raises(InvalidMessageError, match="JSON"):
        queues.enqueue("default", "greet")
