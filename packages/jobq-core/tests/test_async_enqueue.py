"""Enqueuing on a loop: concurrent sends, hooks of both colours, and cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from async_trays import AsyncTray, async_group
from structlog.testing import capture_logs
from trays import WHO, AsyncTrace, PlainTrace, both_colours

from jobq.core import (
    BackendError,
    ConfigurationError,
    InvalidMessageError,
    Job,
    JobMiddleware,
    MessageTooLargeError,
)


def enqueue(tray: AsyncTray, hook: JobMiddleware, payload: dict[str, Any]) -> str:
    async def main() -> str:
        async with async_group(tray, hook) as queues:
            return await queues.enqueue("default", "t", payload)

    return asyncio.run(main())


async def ends(count: int, events: list[Any]) -> None:
    """Wait until hooks have told that often what they saw."""
    for _ in range(1000):
        if len(events) >= count:
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"{len(events)} of {count} events: {events}")


def test_fifty_sends_on_one_loop_are_under_way_at_once() -> None:
    tray = AsyncTray(takes=0.05)

    async def main() -> set[str]:
        async with async_group(tray, AsyncTrace()) as queues:
            sends = (queues.enqueue("default", "t", {"n": n}) for n in range(50))
            return set(await asyncio.gather(*sends))

    started = time.monotonic()
    assert asyncio.run(main()) == {f"id-{n}" for n in range(50)}
    assert tray.most == 50
    assert time.monotonic() - started < 1


def test_plain_hooks_that_block_hold_up_neither_the_loop_nor_one_another() -> None:
    class Slow(JobMiddleware):
        def produce(self, job: Job, call_next: Any) -> Any:
            time.sleep(0.1)
            return call_next(job)

    async def main() -> int:
        async with async_group(AsyncTray(), Slow()) as queues:
            sends = asyncio.gather(*(queues.enqueue("default", "t") for _ in range(10)))
            turns = 0
            while not sends.done():
                await asyncio.sleep(0.005)
                turns += 1
            await sends
            return turns

    started = time.monotonic()
    assert asyncio.run(main()) >= 5
    assert time.monotonic() - started < 0.9


def test_an_async_hook_may_wait_for_what_it_likes() -> None:
    class Asking(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            job.correlation_fields["asked"] = await asyncio.sleep(0.001, "there")
            return await call_next(job)

    tray = AsyncTray()
    assert enqueue(tray, Asking(), {}) == "id-0"
    assert tray.sent[0].attributes == {"correlation_fields": '{"asked":"there"}'}


@both_colours
def test_a_produce_hook_adds_headers_and_sees_the_message_id(trace: type[PlainTrace]) -> None:
    tray, hook = AsyncTray(), trace()

    assert enqueue(tray, hook, {"n": 7}) == "id-0"
    assert tray.sent[0].attributes == {"traceparent": "trace-7"}
    assert hook.events[-1] == ("out", 7, "id-0", "job 7")


@both_colours
def test_what_a_produce_hook_raises_reaches_the_caller_and_nothing_is_sent(
    trace: type[PlainTrace],
) -> None:
    tray = AsyncTray()
    with pytest.raises(PermissionError, match="job 7"):
        enqueue(tray, trace(), {"n": 7, "refuse": True})
    assert tray.calls == []


@both_colours
def test_what_the_queue_raises_passes_through_the_hooks(trace: type[PlainTrace]) -> None:
    tray, hook = AsyncTray(), trace()
    tray.failing["7"] = error = BackendError("away", retryable=True)

    with pytest.raises(BackendError) as caught:
        enqueue(tray, hook, {"n": 7})
    assert caught.value is error
    assert hook.events[-1][:3] == ("failed", 7, "BackendError")


def test_a_hook_that_forgets_to_return_the_id_loses_none() -> None:
    class Forgetful(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            await call_next(job)

    assert enqueue(AsyncTray(), Forgetful(), {}) == "id-0"


def test_a_hook_that_neither_sends_nor_answers_is_refused() -> None:
    class Silent(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            return None

    with pytest.raises(ConfigurationError, match=r"Silent\.produce.* returned None"):
        enqueue(AsyncTray(), Silent(), {})


@pytest.mark.parametrize(
    ("options", "error", "what"),
    [
        ({"max_attempts": 0}, InvalidMessageError, "not 0"),
        ({"payload": {"a": "x" * 3000}}, MessageTooLargeError, "the queue takes 2000"),
    ],
)
def test_a_wrong_argument_is_refused_before_any_call(
    options: dict[str, Any], error: type[Exception], what: str
) -> None:
    tray = AsyncTray(largest=2000)

    async def main() -> None:
        async with async_group(tray) as queues:
            await queues.enqueue("default", "t", **options)

    with pytest.raises(error, match=what):
        asyncio.run(main())
    assert tray.calls == []


def test_a_send_is_logged_with_ids_and_without_the_payload() -> None:
    with capture_logs() as logs:
        enqueue(AsyncTray(), PlainTrace(), {"secret": "s3cret"})

    assert logs == [
        {
            "event": "job_enqueued",
            "log_level": "info",
            "queue": "default",
            "job_type": "t",
            "message_id": "id-0",
            "group_id": None,
        }
    ]


@both_colours
def test_the_hooks_of_a_send_that_is_cancelled_see_it_and_end_before_the_caller(
    trace: type[PlainTrace],
) -> None:
    hook = trace()

    async def main() -> None:
        threads = threading.active_count()
        async with async_group(AsyncTray(takes=30), hook) as queues:
            send = asyncio.ensure_future(queues.enqueue("default", "t", {"n": 1}))
            await ends(1, hook.events)
            await asyncio.sleep(0.02)
            send.cancel()
            with pytest.raises(asyncio.CancelledError):
                await send
        assert hook.events[-1][:3] == ("failed", 1, "CancelledError")
        assert len(asyncio.all_tasks()) == 1
        assert threading.active_count() <= threads + 1

    asyncio.run(main())


@both_colours
def test_a_timeout_around_a_send_is_one(trace: type[PlainTrace]) -> None:
    async def main() -> None:
        async with async_group(AsyncTray(takes=30), trace()) as queues:
            await asyncio.wait_for(queues.enqueue("default", "t", {"n": 1}), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_each_task_s_context_stays_its_own() -> None:
    hook = AsyncTrace()

    async def main() -> None:
        async with async_group(AsyncTray(takes=0.01), hook) as queues:

            async def send(n: int) -> None:
                WHO.set(f"caller {n}")
                await queues.enqueue("default", "t", {"n": n})

            await asyncio.gather(*(send(n) for n in range(5)))

    asyncio.run(main())
    assert sorted(event for event in hook.events if event[0] == "in") == [
        ("in", n, f"caller {n}") for n in range(5)
    ]
