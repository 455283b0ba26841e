"""Hooks of both colours in both chains, and what becomes of what they raise."""

import asyncio
import functools
import traceback
from collections.abc import Callable
from typing import Any, cast

import pytest
from hooks import (
    JOB,
    SEEN,
    Awaiting,
    Function,
    Plain,
    both_chains,
    every_order,
    note,
    of,
    run_sync,
)

from jobq.core import ConfigurationError, Job, JobMiddleware
from jobq.core.middleware import call_async, call_sync, hooks_of


@both_chains
@pytest.mark.parametrize("middleware", every_order())
def test_hooks_of_both_colours_nest_with_the_first_outermost(
    run: Any, middleware: tuple[JobMiddleware, ...]
) -> None:
    def handler(job: Job) -> Any:
        note("handler")
        return job, SEEN.get()

    def outermost(job: Job, call_next: Any) -> Any:
        job, inside = call_next(job)
        return job, inside, SEEN.get()

    kinds = ["plain" if isinstance(one, Plain) else "async" for one in middleware]
    before = tuple(f"{kind} in" for kind in kinds)

    job, inside, after = run(of(Function(outermost), *middleware), handler)

    assert job is JOB
    assert inside == (*before, "handler")
    assert after == (*inside, *(f"{kind} out" for kind in reversed(kinds)))


def test_only_overridden_hooks_are_in_a_chain() -> None:
    assert [hook.name for hook in of(JobMiddleware(), Plain(), Awaiting())] == [
        "Plain.consume",
        "Awaiting.consume",
    ]
    assert hooks_of([Plain(), Awaiting()], "produce") == ()


def test_the_base_class_passes_on() -> None:
    middleware = JobMiddleware()

    def call_next(job: Job) -> Job:
        return job

    assert middleware.produce(JOB, call_next) is JOB
    assert middleware.consume(JOB, call_next) is JOB
    assert middleware.poll(cast("Any", int)) == 0


@both_chains
def test_an_override_may_hand_over_to_the_base_class(run: Any) -> None:
    class Counting(JobMiddleware):
        async def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
            return await super().consume(job, call_next)

    def handler(job: Job) -> str:
        return "done"

    assert run(of(Counting()), handler) == "done"


@pytest.mark.parametrize("colour", ["plain", "async"])
@pytest.mark.parametrize("chain", ["sync", "async"])
def test_a_poll_hook_knows_the_queue_and_how_many_came(colour: str, chain: str) -> None:
    asked: list[str] = []

    class PlainPoll(JobMiddleware):
        def poll(self, call_next: Any) -> Any:
            asked.append(call_next.queue)
            return call_next() + 1

    class AsyncPoll(JobMiddleware):
        async def poll(self, call_next: Any) -> Any:
            asked.append(call_next.queue)
            return await call_next() + 1

    async def receive() -> int:
        return 3

    hooks = hooks_of([PlainPoll() if colour == "plain" else AsyncPoll()], "poll")
    if chain == "sync":
        came = call_sync(hooks, lambda: 3, queue="reports")
    else:
        came = asyncio.run(call_async(hooks, receive, queue="reports"))

    assert (came, asked) == (4, ["reports"])


@both_chains
@pytest.mark.parametrize("middleware", every_order())
@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), StopAsyncIteration()]
)
def test_what_the_handler_raises_passes_through_unchanged(
    run: Any, middleware: tuple[JobMiddleware, ...], error: BaseException
) -> None:
    def handler(job: Job) -> Any:
        raise error

    with pytest.raises(type(error)) as caught:
        run(of(*middleware), handler)

    assert caught.value is error
    assert caught.value.__cause__ is None
    assert "handler" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize("middleware", every_order())
def test_a_stop_iteration_of_a_sync_handler_is_not_taken_for_the_end_of_a_hook(
    middleware: tuple[JobMiddleware, ...],
) -> None:
    error = StopIteration(7)

    def handler(job: Job) -> Any:
        raise error

    with pytest.raises(StopIteration) as caught:
        run_sync(of(*middleware), handler)
    assert caught.value is error


@both_chains
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_hook_may_turn_an_exception_into_an_answer_or_another_exception(
    run: Any, colour: str
) -> None:
    def swallow(job: Job, call_next: Any) -> Any:
        try:
            return call_next(job)
        except ValueError:
            return "swallowed"

    async def aswallow(job: Job, call_next: Any) -> Any:
        try:
            return await call_next(job)
        except ValueError:
            return "swallowed"

    def handler(job: Job) -> Any:
        raise ValueError

    assert run(of(Function(swallow if colour == "plain" else aswallow)), handler) == "swallowed"


@both_chains
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_hook_that_does_not_call_on_answers_for_the_handler(run: Any, colour: str) -> None:
    def answer(job: Job, call_next: Any) -> Any:
        return "answer"

    async def aanswer(job: Job, call_next: Any) -> Any:
        return "answer"

    def handler(job: Job) -> Any:
        pytest.fail("ran")

    assert (
        run(of(Awaiting(), Function(answer if colour == "plain" else aanswer)), handler) == "answer"
    )


@both_chains
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_hook_that_calls_on_twice_is_refused_and_the_handler_runs_once(
    run: Any, colour: str
) -> None:
    runs: list[Job] = []

    def twice(job: Job, call_next: Any) -> Any:
        return call_next(job), call_next(job)

    async def atwice(job: Job, call_next: Any) -> Any:
        return await call_next(job), await call_next(job)

    with pytest.raises(ConfigurationError, match=r"Function\.consume called call_next a second"):
        run(of(Function(twice if colour == "plain" else atwice)), runs.append)
    assert len(runs) == 1


async def _drops_its_call(job: Job, call_next: Callable[[Job], Any]) -> None:
    call_next(job)


async def _returns_its_call(job: Job, call_next: Callable[[Job], Any]) -> Any:
    return call_next(job)


@both_chains
@pytest.mark.parametrize("hook", [_drops_its_call, _returns_its_call])
def test_a_hook_that_forgets_its_await_has_not_answered(run: Any, hook: Any) -> None:
    seen: list[Job] = []
    with pytest.raises(ConfigurationError, match=r"Function\.consume .* without awaiting it"):
        run(of(Function(hook)), seen.append)
    assert seen == []


@both_chains
@pytest.mark.parametrize("colour", ["plain", "async"])
def test_a_hook_that_kept_its_call_next_cannot_use_it_later(run: Any, colour: str) -> None:
    kept: list[Any] = []

    def keep(job: Job, call_next: Any) -> Any:
        kept.append(call_next)

    async def akeep(job: Job, call_next: Any) -> Any:
        kept.append(call_next)

    runs: list[Job] = []
    run(of(Function(keep if colour == "plain" else akeep)), runs.append)

    def use_it() -> None:
        late = kept[0](JOB)
        late.send(None)

    with pytest.raises(ConfigurationError, match="after it had returned"):
        use_it()
    assert runs == []


@both_chains
def test_a_plain_hook_that_only_returns_a_coroutine_is_refused_before_the_handler_runs(
    run: Any,
) -> None:
    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any) -> Any:
            return function(*args)

        return wrapper

    @decorated
    async def hook(job: Job, call_next: Any) -> Any:
        return await call_next(job)

    runs: list[Job] = []
    with pytest.raises(ConfigurationError, match="returned a coroutine: make it `async def`"):
        run(of(Function(hook)), runs.append)
    assert runs == []


def test_hooks_that_yield_and_middleware_that_is_none_are_refused() -> None:
    def generator(job: Job, call_next: Any) -> Any:
        yield call_next(job)

    with pytest.raises(ConfigurationError, match=r"Function\.consume must return, not yield"):
        of(Function(generator))
    with pytest.raises(ConfigurationError, match="instances of JobMiddleware"):
        of(cast("Any", Plain))


async def sleep_on() -> None:
    await asyncio.sleep(0)


async def sleep_longer() -> None:
    await asyncio.sleep(1)


async def swallow_the_end() -> None:
    try:
        await asyncio.sleep(0)
    finally:
        raise ValueError("while closing")


@pytest.mark.parametrize("other", [sleep_on, sleep_longer, swallow_the_end])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("in_a_loop", [False, True])
def test_a_hook_that_awaits_anything_else_in_a_sync_chain_is_refused_by_name(
    other: Any, after: Any, in_a_loop: Any
) -> None:
    closed: list[str] = []
    runs: list[Job] = []

    async def hook(job: Job, call_next: Any) -> Any:
        try:
            if after:
                await call_next(job)
            await other()
        finally:
            closed.append("closed")

    def check() -> None:
        with pytest.raises(ConfigurationError, match=r"Function\.consume awaited something other"):
            run_sync(of(Plain(), Function(hook)), runs.append)

    async def check_in_a_loop() -> None:
        check()

    if in_a_loop:
        asyncio.run(check_in_a_loop())
    else:
        check()
    assert closed == ["closed"]
    assert len(runs) == after


@both_chains
def test_a_handler_that_misses_a_loop_is_not_taken_for_a_hook_that_does(run: Any) -> None:
    error = RuntimeError("no running event loop")

    def handler(job: Job) -> Any:
        raise error

    with pytest.raises(RuntimeError) as caught:
        run(of(Awaiting()), handler)
    assert caught.value is error


def test_an_async_hook_may_await_what_never_waits() -> None:
    async def hook(job: Job, call_next: Any) -> Any:
        async with asyncio.Lock():
            return await call_next(job)

    assert run_sync(of(Function(hook)), lambda job: "done") == "done"
