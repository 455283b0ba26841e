"""Whose outcome counts where hooks stand around a handler: statement 25."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from dispatching import Around, Bench, raising
from working import Lines, until

from jobq.core import ConfigurationError, Job, JobMiddleware, NonRetryableError, RetryAfter
from jobq.worker import Handler
from jobq.worker.engine.events import Postponed, Raised, Refused, Succeeded

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: list[tuple[BaseException, type[Any]]] = [
    (ValueError("early"), Raised),
    (NonRetryableError("early"), Refused),
    (RetryAfter(3), Postponed),
    (SystemExit(0), Raised),
    (KeyboardInterrupt(), Raised),
    (GeneratorExit(), Raised),
    (asyncio.CancelledError(), Raised),
    (StopAsyncIteration(), Raised),
]


class Awaiting(JobMiddleware):
    """An `async def` hook that raises before or after its `call_next`, or doesn't call it."""

    def __init__(self, *, before: Any = None, after: Any = None, calls: bool = True) -> None:
        self.before = before
        self.after = after
        self.calls = calls

    async def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        if self.before is not None:
            raise self.before
        try:
            return await call_next(job) if self.calls else "answered"
        finally:
            if self.after is not None:
                raise self.after


class Plain(Awaiting):
    """The same as a plain hook."""

    def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.before is not None:
            raise self.before
        try:
            return call_next(job) if self.calls else "answered"
        finally:
            if self.after is not None:
                raise self.after


class Swallowing(JobMiddleware):
    """Returns whatever is raised inside it."""

    async def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        try:
            return await call_next(job)
        except BaseException as error:  # noqa: BLE001
            return error


@pytest.fixture(params=["sync", "async"])
def bench(request: pytest.FixtureRequest, lines: Lines) -> Bench:
    return Bench(request.param)


colours = pytest.mark.parametrize("hook", [Awaiting, Plain])


def test_a_hook_that_raises_first_decides_and_the_handler_does_not_run(bench: Bench) -> None:
    ran: list[Any] = []
    for error, kind in [
        (ValueError(), Raised),
        (NonRetryableError(), Refused),
        (RetryAfter(3), Postponed),
    ]:

        def around(job: Job, call_next: Any, error: Exception = error) -> Any:
            raise error

        bench.middleware = [Around(around)]
        assert isinstance(bench.run(ran.append), kind)
    assert ran == []


def test_a_hook_that_raises_last_changes_nothing(bench: Bench, lines: Lines) -> None:
    def around(job: Job, call_next: Any) -> Any:
        with contextlib.suppress(ValueError):
            call_next(job)
        raise RuntimeError("late")

    bench.middleware = [Around(around)]
    assert bench.run(lambda payload: None) == Succeeded()
    assert len(lines.of("consume_hook_failed")) == 1
    assert isinstance(bench.run(raising(ValueError("first"))), Raised)
    assert lines.of("job_failed")[0]["exception"].endswith("ValueError: first")


def test_a_hook_may_answer_for_the_handler(bench: Bench) -> None:
    ran: list[Any] = []
    bench.middleware = [Around(lambda job, call_next: "done")]
    assert bench.run(ran.append) == Succeeded()
    assert ran == []


@colours
@pytest.mark.parametrize(("error", "kind"), KINDS)
def test_whatever_a_hook_raises_before_its_call_next_counts_as_the_handlers(
    bench: Bench, hook: type[Awaiting], error: BaseException, kind: type[Any]
) -> None:
    ran: list[Any] = []
    bench.middleware = [hook(before=error)]
    assert isinstance(bench.run(ran.append), kind)
    assert ran == []


@colours
@pytest.mark.parametrize(("error", "kind"), KINDS)
def test_whatever_a_hook_raises_after_the_handler_returned_is_logged_alone(
    bench: Bench, lines: Lines, hook: type[Awaiting], error: BaseException, kind: type[Any]
) -> None:
    bench.middleware = [hook(after=error)]
    assert bench.run(lambda payload: None) == Succeeded()
    assert len(lines.of("consume_hook_failed")) == 1
    assert lines.of("job_failed") == []


@colours
@pytest.mark.parametrize(("error", "kind"), KINDS)
def test_after_the_handler_raised_its_own_exception_counts_whatever_hooks_raise(
    bench: Bench, lines: Lines, hook: type[Awaiting], error: BaseException, kind: type[Any]
) -> None:
    bench.middleware = [Swallowing(), hook(after=RetryAfter(60)), hook(after=LookupError("late"))]
    assert isinstance(bench.run(raising(error)), kind)
    assert "late" not in repr(lines.of("job_failed"))


@colours
def test_an_outer_hook_that_swallows_what_an_inner_one_raised_makes_no_success_of_it(
    bench: Bench, hook: type[Awaiting]
) -> None:
    ran: list[Any] = []
    bench.middleware = [Swallowing(), Swallowing(), hook(before=ValueError("early"))]
    assert isinstance(bench.run(ran.append), Raised)
    assert ran == []


@colours
def test_an_outer_hook_can_not_turn_what_an_inner_one_raised_into_something_else(
    bench: Bench, hook: type[Awaiting]
) -> None:
    bench.middleware = [hook(after=NonRetryableError("late")), hook(before=RetryAfter(3))]
    assert bench.run(lambda payload: None) == Postponed(3)


@colours
def test_what_an_outer_hook_raises_after_an_inner_one_answered_is_logged_alone(
    bench: Bench, lines: Lines, hook: type[Awaiting]
) -> None:
    ran: list[Any] = []
    bench.middleware = [hook(after=ValueError("late")), hook(calls=False)]
    assert bench.run(ran.append) == Succeeded()
    assert len(lines.of("consume_hook_failed")) == 1
    assert ran == []


def test_a_hook_that_calls_on_twice_runs_the_handler_once_and_changes_nothing(
    bench: Bench, lines: Lines
) -> None:
    ran: list[Any] = []
    bench.middleware = [Around(lambda job, call_next: (call_next(job), call_next(job)))]
    assert bench.run(ran.append) == Succeeded()
    assert len(ran) == 1
    assert "second time" in lines.of("consume_hook_failed")[0]["exception"]


# Any chain

WAYS = ("passes", "raises before", "answers", "raises after", "swallows", "raises another")


class Behaving(JobMiddleware):
    """A hook that behaves in one of these ways; `way` and `name` are on what it raises."""

    def __init__(self, way: str, name: str) -> None:
        self.way = way
        self.name = name

    def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        if self.way == "raises before":
            raise ValueError(self.name)
        if self.way == "answers":
            return "answered"
        try:
            answer = call_next(job)
        except ValueError:
            if self.way == "swallows":
                return "swallowed"
            if self.way == "raises another":
                raise NonRetryableError(self.name) from None
            raise
        if self.way == "raises after":
            raise NonRetryableError(self.name)
        return answer


class BehavingAsync(Behaving):
    async def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        if self.way == "raises before":
            raise ValueError(self.name)
        if self.way == "answers":
            return "answered"
        try:
            answer = await call_next(job)
        except ValueError:
            if self.way == "swallows":
                return "swallowed"
            if self.way == "raises another":
                raise NonRetryableError(self.name) from None
            raise
        if self.way == "raises after":
            raise NonRetryableError(self.name)
        return answer


def expected(ways: tuple[str, ...], handler: str) -> str | None:
    """Who counts as having raised, None where nobody does: the innermost that was reached."""
    for name, way in zip(("outer", "inner"), ways, strict=True):
        if way == "raises before":
            return name
        if way == "answers":
            return None
    return "handler" if handler == "raises" else None


@pytest.mark.parametrize("handler", ["returns", "raises"])
@pytest.mark.parametrize("kinds", list(itertools.product([Behaving, BehavingAsync], repeat=2)))
def test_in_any_chain_the_innermost_that_was_reached_decides(
    bench: Bench, lines: Lines, kinds: tuple[type[Behaving], ...], handler: str
) -> None:
    def run(payload: Any) -> None:
        if handler == "raises":
            raise ValueError("handler")

    for ways in itertools.product(WAYS, repeat=2):
        lines.clear()
        bench.middleware = [
            kind(way, name) for kind, way, name in zip(kinds, ways, ("outer", "inner"), strict=True)
        ]
        result = bench.run(run)
        who = expected(ways, handler)
        assert isinstance(result, Succeeded if who is None else Raised), ways
        failed = [line["exception"].splitlines()[-1] for line in lines.of("job_failed")]
        assert failed == ([] if who is None else [f"ValueError: {who}"]), ways


# A hook that ends before the handler does


def left_to_a_thread(job: Job, call_next: Any) -> str:
    threading.Thread(target=lambda: call_next(job), daemon=True).start()
    return "not waited for"


def test_a_job_has_not_succeeded_while_its_handler_still_runs_in_a_hooks_thread(
    lines: Lines,
) -> None:
    bench, ended = Bench("sync"), threading.Event()
    started = threading.Event()

    def around(job: Job, call_next: Any) -> str:
        answer = left_to_a_thread(job, call_next)
        assert started.wait(5)
        return answer

    def handler(payload: Any) -> None:
        started.set()
        time.sleep(0.05)
        ended.set()

    bench.middleware = [Around(around)]
    assert bench.run(handler) == Succeeded()
    assert ended.is_set()


@pytest.mark.parametrize(("error", "result"), [(ValueError("its own"), Raised), (None, Succeeded)])
def test_a_hook_that_gives_up_on_a_handler_leaves_the_verdict_to_it(
    lines: Lines, error: Exception | None, result: type[Any]
) -> None:
    bench, given_up = Bench("sync"), threading.Event()

    def impatient(job: Job, call_next: Any) -> Any:
        def call() -> None:
            with contextlib.suppress(ValueError):
                call_next(job)

        threading.Thread(target=call, daemon=True).start()
        assert started.wait(5)
        given_up.set()
        raise TimeoutError("too slow")

    started = threading.Event()

    def handler(payload: Any) -> None:
        started.set()
        given_up.wait(5)
        time.sleep(0.05)
        if error is not None:
            raise error

    bench.middleware = [Awaiting(), Around(impatient)]
    assert isinstance(bench.run(handler), result)
    assert lines.of("consume_hook_failed")[0]["exception"].endswith("TimeoutError: too slow")
    assert "too slow" not in repr(lines.of("job_failed"))


def test_a_handler_does_not_start_once_the_hooks_around_it_have_ended(lines: Lines) -> None:
    bench, over, raised = Bench("sync"), threading.Event(), list[BaseException]()

    def late(job: Job, call_next: Any) -> Any:
        over.wait(5)
        return call_next(job)

    def outer(job: Job, call_next: Any) -> str:
        def call() -> None:
            try:
                call_next(job)
            except ConfigurationError as error:
                raised.append(error)

        threading.Thread(target=call, daemon=True).start()
        return "answered"

    ran: list[Any] = []
    bench.middleware = [Around(outer), Around(late)]
    assert bench.run(ran.append) == Succeeded()
    over.set()
    until(lambda: raised)
    assert ran == []


class Leaving(JobMiddleware):
    """Has the rest of the chain go on in a task of its own, and ends once that has begun."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[Any]] = []

    async def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        self.tasks.append(asyncio.ensure_future(call_next(job)))
        await asyncio.sleep(0)
        return "not waited for"


def test_a_job_has_not_succeeded_while_its_handler_still_runs_in_a_hooks_task(lines: Lines) -> None:
    bench, ended = Bench("async"), list[Any]()

    async def handler(payload: Any) -> None:
        await asyncio.sleep(0.05)
        ended.append(payload)
        raise NonRetryableError

    bench.middleware = [Leaving()]
    assert bench.run(Handler(handler)) == Refused()
    assert ended


class Shielding(Leaving):
    """Waits for its task, but isn't cancelled with it."""

    async def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        self.tasks.append(asyncio.ensure_future(call_next(job)))
        return await asyncio.shield(self.tasks[-1])


@pytest.mark.parametrize("hook", [Leaving, Shielding])
def test_a_handler_in_a_hooks_task_is_cancelled_when_its_lease_is_lost(
    lines: Lines, hook: type[Leaving]
) -> None:
    bench, cancelled = Bench("async"), list[str]()

    async def handler(payload: Any) -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            cancelled.append("handler")
            raise

    bench.middleware = [hook()]
    bench.lost_after = 0.05
    assert isinstance(bench.run(Handler(handler)), Raised)
    assert cancelled == ["handler"]
