"""Hooks of both colours in both chains, and what becomes of what they raise."""

import asyncio
import contextvars
import functools
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from jobq.core import ConfigurationError, Job, JobMiddleware
from jobq.core.middleware import HandlerRun, call_async, call_sync, hooks_of

JOB = Job("send", {}, "default")
SEEN: contextvars.ContextVar[tuple[str, ...]] = contextvars.ContextVar("seen", default=())


def note(what: str) -> None:
    SEEN.set((*SEEN.get(), what))


class Plain(JobMiddleware):
    def consume(self, job: Job, call_next: Callable[[Job], Any]) -> Any:
        note("plain in")
        result = call_next(job)
        note("plain out")
        return result


class Awaiting(JobMiddleware):
    async def consume(self, job: Job, call_next: Callable[[Job], Awaitable[Any]]) -> Any:
        note("async in")
        result = await call_next(job)
        note("async out")
        return result


def of(*middleware: JobMiddleware) -> Any:
    return hooks_of(middleware, "consume")


class Function(JobMiddleware):
    """A middleware whose consume hook is the function it is made of."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.consume = function  # pyright: ignore[reportAttributeAccessIssue]


def run_sync(hooks: Any, handler: Callable[[Job], Any]) -> Any:
    return contextvars.copy_context().run(call_sync, hooks, handler, JOB)


def run_async(hooks: Any, handler: Callable[[Job], Any]) -> Any:
    async def innermost(job: Job) -> Any:
        await asyncio.sleep(0)
        return handler(job)

    return asyncio.run(call_async(hooks, innermost, JOB))


# The same handler under both chains: nothing that a hook sees may differ between them.
both_chains = pytest.mark.parametrize("run", [run_sync, run_async])


def every_order() -> list[tuple[JobMiddleware, ...]]:
    plain, awaiting = Plain(), Awaiting()
    return [
        (plain,),
        (awaiting,),
        (plain, awaiting),
        (awaiting, plain),
        (plain, awaiting, plain),
        (awaiting, plain, awaiting),
        (plain, plain),
    ]


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


# Async chains: plain hooks in threads


def test_a_plain_hook_in_an_async_chain_never_blocks_the_loop() -> None:
    def slow(job: Job, call_next: Any) -> Any:
        time.sleep(0.1)
        result = call_next(job)
        time.sleep(0.1)
        thread = threading.current_thread()
        return result, thread.name, thread.daemon

    async def handler(job: Job) -> int:
        await asyncio.sleep(0.1)
        return threading.get_ident()

    async def main() -> int:
        ticks = 0
        chain = asyncio.ensure_future(call_async(of(Function(slow)), handler, JOB))
        while not chain.done():
            await asyncio.sleep(0.005)
            ticks += 1
        assert await chain == (threading.get_ident(), "jobq Function.consume", True)
        return ticks

    assert asyncio.run(main()) >= 10


def test_the_handler_runs_in_the_task_that_runs_the_chain() -> None:
    async def handler(job: Job) -> Any:
        return asyncio.current_task()

    async def main() -> None:
        assert (
            await call_async(of(Plain(), Awaiting(), Plain()), handler, JOB)
            is asyncio.current_task()
        )

    asyncio.run(main())


def test_what_a_plain_hook_sets_is_seen_by_the_handler_and_what_that_sets_by_the_hook() -> None:
    seen: list[Any] = []

    def hook(job: Job, call_next: Any) -> Any:
        seen.append(SEEN.get())
        note("hook")
        call_next(job)
        seen.append(SEEN.get())

    async def handler(job: Job) -> None:
        note("handler")

    async def main() -> None:
        note("caller")
        await call_async(of(Function(hook)), handler, JOB)
        seen.append(SEEN.get())

    asyncio.run(main())

    assert seen == [("caller",), ("caller", "hook", "handler"), ("caller", "hook", "handler")]


def test_what_a_plain_hook_takes_back_does_not_stay_in_the_jobs_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    inside: list[str] = []

    def hook(job: Job, call_next: Any) -> Any:
        token = variable.set("mine")
        call_next(job)
        variable.reset(token)

    async def handler(job: Job) -> None:
        inside.append(variable.get())

    async def main() -> None:
        await call_async(of(Function(hook)), handler, JOB)
        assert variable not in contextvars.copy_context()

    asyncio.run(main())
    assert inside == ["mine"]


def test_two_jobs_at_once_never_see_each_others_context() -> None:
    async def handler(job: Job) -> Any:
        await asyncio.sleep(0.02)
        return SEEN.get()

    def hook(job: Job, call_next: Any) -> Any:
        note(job.job_type)
        return call_next(job)

    async def main() -> Any:
        jobs = [Job(f"t{i}", {}, "q") for i in range(8)]
        return await asyncio.gather(*(call_async(of(Function(hook)), handler, job) for job in jobs))

    assert asyncio.run(main()) == [(f"t{i}",) for i in range(8)]


def test_cancelling_the_chain_cancels_the_handler_and_unblocks_the_hook() -> None:
    events: list[str] = []

    def hook(job: Job, call_next: Any) -> Any:
        try:
            return call_next(job)
        finally:
            events.append("hook cleaned up")

    async def handler(job: Job) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            events.append("handler cancelled")
            raise

    async def main() -> None:
        chain = asyncio.ensure_future(call_async(of(Awaiting(), Function(hook)), handler, JOB))
        await asyncio.sleep(0.05)
        chain.cancel()
        with pytest.raises(asyncio.CancelledError):
            await chain
        events.append("chain ended")

    asyncio.run(main())
    assert events == ["handler cancelled", "hook cleaned up", "chain ended"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cancellation_while_the_hook_works_waits_for_it_and_is_not_lost(when: str) -> None:
    events: list[str] = []
    at_work = threading.Event()
    go_on = threading.Event()

    def hook(job: Job, call_next: Any) -> Any:
        if when == "after":
            call_next(job)
        at_work.set()
        go_on.wait(5)
        if when == "before":
            call_next(job)
        events.append("hook went on")

    async def handler(job: Job) -> None:
        events.append("handler")

    async def main() -> None:
        chain = asyncio.ensure_future(call_async(of(Function(hook)), handler, JOB))
        await asyncio.to_thread(at_work.wait, 5)
        chain.cancel()
        await asyncio.sleep(0.02)
        assert not chain.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await chain

    asyncio.run(main())
    assert events == (["handler", "hook went on"] if when == "after" else [])


def test_a_second_cancellation_leaves_a_hook_that_hangs_and_its_call_next_then_raises() -> None:
    raised: list[BaseException] = []
    release, ended = threading.Event(), threading.Event()

    def hook(job: Job, call_next: Any) -> Any:
        release.wait(10)
        try:
            call_next(job)
        except asyncio.CancelledError as error:
            raised.append(error)
        ended.set()

    async def handler(job: Job) -> None:
        pytest.fail("ran")

    async def main() -> None:
        chain = asyncio.ensure_future(call_async(of(Function(hook)), handler, JOB))
        for _ in range(2):
            await asyncio.sleep(0.02)
            chain.cancel()
        await asyncio.wait([chain], timeout=2)
        assert chain.cancelled()
        release.set()
        await asyncio.to_thread(ended.wait, 5)

    asyncio.run(main())
    assert [type(error) for error in raised] == [asyncio.CancelledError]


def test_a_chain_that_is_thrown_away_lets_its_thread_go() -> None:
    ended = threading.Event()

    def hook(job: Job, call_next: Any) -> Any:
        try:
            call_next(job)
        finally:
            ended.set()

    async def handler(job: Job) -> None:
        await asyncio.Event().wait()

    chain: Any = call_async(of(Function(hook)), handler, JOB)

    async def begin() -> None:
        chain.send(None)
        await asyncio.sleep(0.05)
        chain.send(None)

    asyncio.run(begin())
    chain.close()

    assert ended.wait(5)


# Statement 25


@pytest.mark.parametrize(
    ("run", "raised", "counts", "logged"),
    [
        (HandlerRun(), "hook", "hook", None),
        (HandlerRun(), None, None, None),
        (HandlerRun(started=True, returned=True), None, None, None),
        (HandlerRun(started=True, returned=True), "hook", None, "hook"),
        (HandlerRun(started=True, error=cast("Any", "own")), "own", "own", None),
        (HandlerRun(started=True, error=cast("Any", "own")), "hook", "own", "hook"),
        (HandlerRun(started=True, error=cast("Any", "own")), None, "own", None),
    ],
)
def test_the_handlers_own_outcome_counts_once_it_has_started(
    run: HandlerRun, raised: Any, counts: Any, logged: Any
) -> None:
    assert run.judge(raised) == (counts, logged)


@pytest.mark.parametrize(
    ("ends", "counts"),
    [
        ([ValueError("inner")], ValueError("inner")),
        ([ValueError("inner"), None], ValueError("inner")),
        ([ValueError("inner"), RuntimeError("outer")], ValueError("inner")),
        ([None, RuntimeError("outer")], None),
    ],
)
def test_before_the_handler_started_the_innermost_hook_that_ended_counts(
    ends: list[BaseException | None], counts: BaseException | None
) -> None:
    run = HandlerRun()
    for end in ends:
        run.note(end)
    late = LookupError("outermost")

    failure, aside = run.judge(late)
    assert repr(failure) == repr(counts)
    assert aside is late


def test_no_hook_answers_for_a_handler_that_has_started() -> None:
    run = HandlerRun(started=True)
    run.note(ValueError("the hook's"))
    run.returned = True

    assert run.judge(None) == (None, None)
