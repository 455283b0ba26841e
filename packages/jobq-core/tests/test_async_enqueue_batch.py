"""A batch on a loop: its chains run at once up to the one send, and all of them to their ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from async_trays import AsyncTray, async_group
from structlog.testing import capture_logs
from trays import WHO, AsyncTrace, PlainTrace, both_colours

from jobq.core import (
    BackendError,
    InvalidMessageError,
    Job,
    JobMiddleware,
    JobRequest,
    Message,
    PublishBatchError,
    PublishResult,
)


def send_batch(tray: AsyncTray, hooks: Sequence[JobMiddleware], requests: Any) -> list[str]:
    async def main() -> list[str]:
        async with async_group(tray, *hooks) as queues:
            try:
                return await queues.enqueue_batch("default", requests)
            finally:
                assert len(asyncio.all_tasks()) == 1, "a chain is left over"

    return asyncio.run(main())


def requests_of(count: int, **of_item: int) -> list[JobRequest]:
    """Jobs numbered from 0; a keyword marks the one of that number."""
    return [
        JobRequest("t", {"n": n, **{key: True for key, at in of_item.items() if at == n}})
        for n in range(count)
    ]


@pytest.mark.parametrize(
    "make",
    [
        list[JobMiddleware],
        lambda: [AsyncTrace(), AsyncTrace()],
        lambda: [AsyncTrace(), PlainTrace(), AsyncTrace()],
    ],
)
def test_a_batch_is_one_call_and_returns_the_ids_in_order(make: Any) -> None:
    tray = AsyncTray()

    assert send_batch(tray, make(), iter(requests_of(25))) == [f"id-{n}" for n in range(25)]
    assert [len(call) for call in tray.calls] == [25]
    assert f'"n":{24}' in tray.sent[24].body


@both_colours
def test_an_empty_batch_sends_nothing(trace: type[PlainTrace]) -> None:
    tray = AsyncTray()
    assert send_batch(tray, [trace()], []) == []
    assert tray.calls == []


def test_a_batch_of_anything_but_requests_is_refused_as_a_whole() -> None:
    tray = AsyncTray()
    with pytest.raises(InvalidMessageError, match="item 1 of the batch is of type str"):
        send_batch(tray, [], [JobRequest("t"), "t"])
    assert tray.calls == []


def test_every_item_is_checked_before_the_first_hook_runs() -> None:
    tray, hook = AsyncTray(), AsyncTrace()
    with pytest.raises(InvalidMessageError, match="not 0") as caught:
        send_batch(tray, [hook], [JobRequest("t"), JobRequest("t", max_attempts=0)])

    assert caught.value.__notes__ == ["nothing of the batch was sent: this is its item 1"]
    assert hook.events == tray.calls == []


@both_colours
def test_each_job_of_a_batch_has_its_own_hooks_id_and_context(trace: type[PlainTrace]) -> None:
    tray, hook = AsyncTray(), trace()
    token = WHO.set("caller")

    send_batch(tray, [hook], requests_of(3))

    assert sorted(event for event in hook.events if event[0] == "in") == [
        ("in", n, "caller") for n in range(3)
    ]
    assert sorted(event for event in hook.events if event[0] == "out") == [
        ("out", n, f"id-{n}", f"job {n}") for n in range(3)
    ]
    assert [m.attributes["traceparent"] for m in tray.sent] == ["trace-0", "trace-1", "trace-2"]
    assert WHO.get() == "caller"
    WHO.reset(token)


@both_colours
def test_nothing_is_sent_before_the_last_chain_has_called_on(trace: type[PlainTrace]) -> None:
    class Late(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            await asyncio.sleep(0.05 if job.payload["n"] == 1 else 0)
            assert tray.calls == []
            return await call_next(job)

    tray = AsyncTray()
    assert send_batch(tray, [trace(), Late()], requests_of(3)) == ["id-0", "id-1", "id-2"]


def test_the_hooks_of_a_batch_wait_at_once() -> None:
    class Slow(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            await asyncio.sleep(0.05)
            return await call_next(job)

    started = time.monotonic()
    assert len(send_batch(AsyncTray(), [Slow()], requests_of(100))) == 100
    assert time.monotonic() - started < 2


@both_colours
def test_a_hook_that_raises_in_a_batch_keeps_everything_unsent_and_ends_the_others(
    trace: type[PlainTrace],
) -> None:
    tray, hook = AsyncTray(), trace()
    threads = threading.active_count()

    with pytest.raises(PermissionError, match="job 2") as caught:
        send_batch(tray, [hook], requests_of(4, refuse=2))

    assert tray.calls == []
    assert caught.value.__notes__ == ["nothing of the batch was sent: this is its item 2"]
    failed = {event[1]: event[2] for event in hook.events if event[0] == "failed"}
    assert set(failed) == {0, 1, 3}
    assert set(failed.values()) <= {"JobqError", "CancelledError"}
    assert threading.active_count() <= threads + 1


def test_a_hook_that_waits_while_another_one_raises_is_cancelled() -> None:
    seen: list[str] = []

    class Waiting(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            if job.payload["n"] == 1:
                raise PermissionError("job 1")
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

    with pytest.raises(PermissionError, match="job 1"):
        send_batch(AsyncTray(), [Waiting()], requests_of(3))
    assert seen == ["cancelled", "cancelled"]


@both_colours
def test_an_item_that_is_refused_behind_hooks_keeps_everything_unsent(
    trace: type[PlainTrace],
) -> None:
    tray, hook = AsyncTray(), trace()
    with pytest.raises(InvalidMessageError, match=r"payload\.bad is a set") as caught:
        send_batch(tray, [hook], [JobRequest("t", {"n": 0}), JobRequest("t", {"n": 1, "bad": {1}})])

    assert tray.calls == []
    assert caught.value.__notes__ == ["nothing of the batch was sent: this is its item 1"]
    assert ("failed", 1, "InvalidMessageError", "job 1") in hook.events


@both_colours
def test_a_hook_may_answer_for_some_jobs_of_a_batch(trace: type[PlainTrace]) -> None:
    ids = send_batch(AsyncTray(), [trace()], requests_of(3, answer=1))
    assert ids == ["id-0", "answer-1", "id-1"]


@pytest.mark.parametrize(
    "make", [list[JobMiddleware], lambda: [AsyncTrace()], lambda: [PlainTrace()]]
)
def test_a_batch_that_fails_in_part_raises_with_one_result_for_each_item(make: Any) -> None:
    tray = AsyncTray()
    tray.failing['"n":1'] = error = BackendError("busy", retryable=True, throttled=True)

    with pytest.raises(PublishBatchError, match=r"1 of 3 .* 'default': item 1: busy") as caught:
        send_batch(tray, make(), requests_of(3))

    assert caught.value.results == (
        PublishResult("id-0"),
        PublishResult(error=error),
        PublishResult("id-2"),
    )
    assert caught.value.retryable
    assert caught.value.__cause__ is error


def test_a_hook_may_answer_for_a_send_that_failed() -> None:
    class Spare(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            try:
                return await call_next(job)
            except BackendError:
                return "kept elsewhere"

    tray = AsyncTray()
    tray.failing['"n":1'] = BackendError("busy")
    assert send_batch(tray, [Spare()], requests_of(2)) == ["id-0", "kept elsewhere"]


@both_colours
def test_what_a_hook_raises_after_the_send_is_raised_once_all_have_ended(
    trace: type[PlainTrace],
) -> None:
    hook = trace()
    with pytest.raises(PermissionError, match="late 0") as caught:
        send_batch(AsyncTray(), [hook], requests_of(3, late=0))

    assert caught.value.__notes__ == ["all 3 messages of the batch had been sent by then"]
    assert [event[0] for event in hook.events[3:]] == ["out", "out", "out"]


@both_colours
def test_a_batch_call_that_raises_ends_every_chain(trace: type[PlainTrace]) -> None:
    class Away(AsyncTray):
        async def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
            raise BackendError("away")

    hook = trace()
    with pytest.raises(BackendError, match="away"):
        send_batch(Away(), [hook], requests_of(2))
    assert [event[0] for event in hook.events] == ["in", "in", "failed", "failed"]
    assert {event[2] for event in hook.events[2:]} == {"JobqError"}


def test_a_hook_that_gives_up_waiting_has_its_job_left_out_and_loses_no_other() -> None:
    class Impatient(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            if job.payload["n"] == 1:
                return await asyncio.wait_for(call_next(job), 0.02)
            await asyncio.sleep(0.1)
            return await call_next(job)

    tray = AsyncTray()
    with pytest.raises(TimeoutError) as caught:
        send_batch(tray, [Impatient()], requests_of(3))
    assert tray.calls == []
    assert caught.value.__notes__ == ["nothing of the batch was sent: this is its item 1"]


def test_a_hook_that_gave_up_waiting_and_is_not_done_yet_has_its_job_left_out() -> None:
    class Impatient(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            if job.payload["n"] != 1:
                await asyncio.sleep(0.1)
                return await call_next(job)
            try:
                return await asyncio.wait_for(call_next(job), 0.02)
            except TimeoutError:
                return await asyncio.sleep(0.2, "kept elsewhere")

    tray = AsyncTray()
    ids = send_batch(tray, [Impatient()], requests_of(3))
    assert ids == ["id-0", "kept elsewhere", "id-1"]
    assert len(tray.sent) == 2


def test_a_hook_that_gives_up_during_the_send_loses_no_id_of_what_was_sent() -> None:
    class Impatient(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            if job.payload["n"] == 1:
                return await asyncio.wait_for(call_next(job), 0.05)
            return await call_next(job)

    tray = AsyncTray(takes=0.15)
    with pytest.raises(TimeoutError) as caught:
        send_batch(tray, [Impatient()], requests_of(3))
    assert len(tray.sent) == 3
    assert caught.value.__notes__ == ["all 3 messages of the batch had been sent by then"]


def test_a_batch_of_hundreds_passes_through_plain_hooks() -> None:
    assert len(send_batch(AsyncTray(), [PlainTrace(), AsyncTrace()], requests_of(300))) == 300


def test_every_message_of_a_batch_is_logged_once_it_was_sent() -> None:
    tray = AsyncTray()
    tray.failing['"n":1'] = BackendError("busy")
    with capture_logs() as logs, pytest.raises(PublishBatchError):
        send_batch(tray, [AsyncTrace()], requests_of(3))

    assert [(log["event"], log["message_id"]) for log in logs] == [
        ("job_enqueued", "id-0"),
        ("job_enqueued", "id-2"),
    ]


class Held(JobMiddleware):
    """Waits before and after its `call_next`, and tells in which of both it was cancelled."""

    def __init__(self, before: float, after: float) -> None:
        self.before, self.after = before, after
        self.events: list[str] = []

    async def produce(self, job: Job, call_next: Any) -> Any:
        try:
            await asyncio.sleep(self.before)
            answer = await call_next(job)
            await asyncio.sleep(self.after)
        except BaseException as error:
            self.events.append(type(error).__name__)
            raise
        return answer


@pytest.mark.parametrize(
    ("before", "takes", "after", "sent"),
    [(30, 0, 0, 0), (0, 30, 0, 0), (0, 0, 30, 3)],
    ids=["before the send", "during it", "after it"],
)
@both_colours
def test_the_hooks_of_a_batch_that_is_cancelled_see_it_and_end_before_the_caller(
    before: float, takes: float, after: float, sent: int, trace: type[PlainTrace]
) -> None:
    held, outer, tray = Held(before, after), trace(), AsyncTray(takes=takes)

    async def main() -> None:
        async with async_group(tray, outer, held) as queues:
            send = asyncio.ensure_future(queues.enqueue_batch("default", requests_of(3)))
            await asyncio.sleep(0.1)
            send.cancel()
            with pytest.raises(asyncio.CancelledError):
                await send
            assert len(asyncio.all_tasks()) == 1
        assert held.events == ["CancelledError"] * 3
        seen = [event[2] for event in outer.events if event[0] == "failed"]
        assert seen == ["CancelledError"] * 3
        assert len(tray.sent) == sent

    asyncio.run(main())


def test_a_second_cancellation_waits_for_no_hook() -> None:
    release = threading.Event()

    class Stuck(JobMiddleware):
        def produce(self, job: Job, call_next: Any) -> Any:
            release.wait(10)
            return call_next(job)

    async def main() -> None:
        async with async_group(AsyncTray(), Stuck()) as queues:
            send = asyncio.ensure_future(queues.enqueue_batch("default", requests_of(2)))
            await asyncio.sleep(0.05)
            send.cancel()
            await asyncio.sleep(0.05)
            assert not send.done()
            send.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(asyncio.shield(send), 2)

    try:
        asyncio.run(main())
    finally:
        release.set()


@pytest.mark.parametrize("error", [SystemExit("hook"), KeyboardInterrupt("hook")])
@pytest.mark.parametrize("after", [False, True])
def test_an_exit_that_a_hook_raises_reaches_the_caller_and_ends_no_loop(
    error: BaseException, *, after: bool
) -> None:
    class Leaves(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> str:
            if after:
                await call_next(job)
            raise error

    async def main() -> str:
        async with async_group(AsyncTray(), Leaves()) as queues:
            with pytest.raises(type(error), match="hook"):
                await queues.enqueue_batch("default", requests_of(2))
        return "the loop goes on"

    assert asyncio.run(main()) == "the loop goes on"


def test_a_batch_that_is_thrown_away_ends_its_chains() -> None:
    class Waits(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> str:
            await asyncio.sleep(60)
            return await call_next(job)

    async def main() -> None:
        async with async_group(AsyncTray(), Waits()) as queues:
            sending = queues.enqueue_batch("default", requests_of(2))
            sending.send(None)
            sending.close()
            await asyncio.sleep(0.01)
            assert len(asyncio.all_tasks()) == 1, "a chain is left over"

    asyncio.run(main())
