"""Plain hooks in async chains: they run in threads, and a cancellation reaches all of it."""

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest
from hooks import (
    JOB,
    SEEN,
    Awaiting,
    Function,
    Plain,
    note,
    of,
)

from jobq.core import Job
from jobq.core.middleware import call_async


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
