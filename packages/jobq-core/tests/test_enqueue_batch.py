"""Many jobs are sent at once, each in its own hooks and context, or refused as a whole."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs
from trays import WHO, AsyncTrace, PlainTrace, Tray, both_colours, group

from jobq.core import (
    BackendError,
    InvalidMessageError,
    Job,
    JobMiddleware,
    JobRequest,
    Message,
    PublishBatchError,
    PublishResult,
    QueueGroup,
)


@pytest.mark.parametrize(
    "make",
    [
        list[JobMiddleware],
        lambda: [AsyncTrace(), AsyncTrace()],
        lambda: [AsyncTrace(), PlainTrace()],
    ],
)
def test_a_batch_is_one_call_and_returns_the_ids_in_order(make: Any) -> None:
    tray = Tray()
    requests = (JobRequest("t", {"n": n}) for n in range(25))

    assert group(tray, *make()).enqueue_batch("default", requests) == [f"id-{n}" for n in range(25)]
    assert [len(call) for call in tray.calls] == [25]
    assert f'"n":{24}' in tray.sent[24].body


def test_a_batch_of_anything_but_requests_is_refused_as_a_whole() -> None:
    tray = Tray()
    items: Any = [JobRequest("t"), "t"]
    with pytest.raises(InvalidMessageError, match="item 1 of the batch is of type str"):
        group(tray).enqueue_batch("default", items)
    assert tray.calls == []


@both_colours
def test_every_item_is_checked_before_the_first_hook_runs(trace: type[PlainTrace]) -> None:
    tray, hook = Tray(), trace()
    with pytest.raises(InvalidMessageError, match="not 0") as caught:
        group(tray, hook).enqueue_batch(
            "default", [JobRequest("t"), JobRequest("t", max_attempts=0)]
        )

    assert caught.value.__notes__ == ["nothing of the batch was sent: this is its item 1"]
    assert hook.events == tray.calls == []


def test_an_empty_batch_sends_nothing() -> None:
    tray = Tray()
    assert group(tray).enqueue_batch("default", []) == []
    assert tray.calls == []


@both_colours
def test_each_job_of_a_batch_has_its_own_hooks_id_and_context(trace: type[PlainTrace]) -> None:
    tray, hook = Tray(), trace()
    token = WHO.set("caller")

    group(tray, hook).enqueue_batch("default", [JobRequest("t", {"n": n}) for n in range(3)])

    assert hook.events == [
        *(("in", n, "caller") for n in range(3)),
        *(("out", n, f"id-{n}", f"job {n}") for n in range(3)),
    ]
    assert [m.attributes["traceparent"] for m in tray.sent] == ["trace-0", "trace-1", "trace-2"]
    assert WHO.get() == "caller"
    WHO.reset(token)


@both_colours
def test_a_hook_that_raises_in_a_batch_keeps_everything_unsent_and_ends_the_others(
    trace: type[PlainTrace],
) -> None:
    tray, hook = Tray(), trace()
    requests = [JobRequest("t", {"n": n, "refuse": n == 2}) for n in range(4)]
    threads = threading.active_count()

    with pytest.raises(PermissionError, match="job 2") as caught:
        group(tray, hook).enqueue_batch("default", requests)

    assert tray.calls == []
    assert caught.value.__notes__ == ["nothing of the batch was sent: this is its item 2"]
    assert [event[:3] for event in hook.events[3:]] == [
        ("failed", 0, "JobqError"),
        ("failed", 1, "JobqError"),
    ]
    assert threading.active_count() <= threads + 1


@both_colours
def test_outer_hooks_of_the_same_job_see_what_an_inner_one_raises(trace: type[PlainTrace]) -> None:
    class Strict(JobMiddleware):
        async def produce(self, job: Job, call_next: Any) -> Any:
            raise PermissionError("inner")

    tray, outer = Tray(), trace()
    with pytest.raises(PermissionError, match="inner"):
        group(tray, outer, Strict()).enqueue_batch("default", [JobRequest("t", {"n": 0})])

    assert tray.calls == []
    assert outer.events[-1][:3] == ("failed", 0, "PermissionError")


@both_colours
def test_an_item_that_is_refused_behind_hooks_keeps_everything_unsent(
    trace: type[PlainTrace],
) -> None:
    tray, hook = Tray(), trace()
    requests = [JobRequest("t", {"n": 0}), JobRequest("t", {"n": 1, "bad": {1}})]

    with pytest.raises(InvalidMessageError, match=r"payload\.bad is a set"):
        group(tray, hook).enqueue_batch("default", requests)

    assert tray.calls == []
    assert [event[:3] for event in hook.events[2:]] == [
        ("failed", 1, "InvalidMessageError"),
        ("failed", 0, "JobqError"),
    ]


@both_colours
def test_a_hook_may_answer_for_some_jobs_of_a_batch(trace: type[PlainTrace]) -> None:
    tray = Tray()
    requests = [JobRequest("t", {"n": n, "answer": n == 1}) for n in range(3)]

    assert group(tray, trace()).enqueue_batch("default", requests) == ["id-0", "answer-1", "id-1"]


@pytest.mark.parametrize(
    "make", [list[JobMiddleware], lambda: [AsyncTrace()], lambda: [PlainTrace()]]
)
def test_a_batch_that_fails_in_part_raises_with_one_result_for_each_item(make: Any) -> None:
    tray = Tray()
    tray.failing['"n":1'] = error = BackendError("busy", retryable=True, throttled=True)
    requests = [JobRequest("t", {"n": n}) for n in range(3)]

    with pytest.raises(PublishBatchError, match=r"1 of 3 .* 'default': item 1: busy") as caught:
        group(tray, *make()).enqueue_batch("default", requests)

    assert caught.value.results == (
        PublishResult("id-0"),
        PublishResult(error=error),
        PublishResult("id-2"),
    )
    assert caught.value.retryable
    assert caught.value.throttled
    assert caught.value.__cause__ is error


@both_colours
def test_a_hook_sees_the_error_of_its_own_job_only(trace: type[PlainTrace]) -> None:
    tray, hook = Tray(), trace()
    tray.failing['"n":1'] = BackendError("busy")

    with pytest.raises(PublishBatchError):
        group(tray, hook).enqueue_batch("default", [JobRequest("t", {"n": n}) for n in range(3)])

    assert [event[0] for event in hook.events] == ["in", "in", "in", "out", "failed", "out"]


@both_colours
def test_what_a_hook_raises_after_the_send_is_raised_once_all_have_ended(
    trace: type[PlainTrace],
) -> None:
    tray, hook = Tray(), trace()
    requests = [JobRequest("t", {"n": n, "late": n == 0}) for n in range(3)]

    with pytest.raises(PermissionError, match="late 0") as caught:
        group(tray, hook).enqueue_batch("default", requests)

    assert caught.value.__notes__ == ["all 3 messages of the batch had been sent by then"]
    assert [event[0] for event in hook.events[3:]] == ["out", "out", "out"]


@both_colours
def test_a_batch_call_that_raises_ends_every_chain(trace: type[PlainTrace]) -> None:
    class Away(Tray):
        def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
            raise BackendError("away")

    hook = trace()
    with pytest.raises(BackendError, match="away"):
        group(Away(), hook).enqueue_batch("default", [JobRequest("t", {"n": n}) for n in range(2)])
    assert [event[0] for event in hook.events] == ["in", "in", "failed", "failed"]


def test_a_batch_of_a_thousand_passes_through_async_hooks_without_a_thread() -> None:
    class Counting(JobMiddleware):
        most = 0

        async def produce(self, job: Job, call_next: Any) -> Any:
            Counting.most = max(Counting.most, threading.active_count())
            return await call_next(job)

    threads = threading.active_count()
    requests = [JobRequest("t", {"n": n}) for n in range(1000)]

    assert len(group(Tray(), Counting(), Counting()).enqueue_batch("default", requests)) == 1000
    assert Counting.most <= threads


def test_a_batch_of_hundreds_passes_through_plain_hooks() -> None:
    requests = [JobRequest("t", {"n": n}) for n in range(300)]

    assert len(group(Tray(), PlainTrace(), AsyncTrace()).enqueue_batch("default", requests)) == 300


def test_every_message_of_a_batch_is_logged_once_it_was_sent() -> None:
    tray = Tray()
    tray.failing['"n":1'] = BackendError("busy")
    with capture_logs() as logs, pytest.raises(PublishBatchError):
        group(tray).enqueue_batch("default", [JobRequest("t", {"n": n}) for n in range(3)])

    assert [(log["event"], log["message_id"]) for log in logs] == [
        ("job_enqueued", "id-0"),
        ("job_enqueued", "id-2"),
    ]


def test_a_log_that_cannot_be_written_makes_no_sent_job_look_unsent() -> None:
    def broken(logger: object, method: str, event: object) -> str:
        raise OSError("no space left on device")

    tray = Tray()
    group = QueueGroup({"a": {"queue": tray}})
    before = structlog.get_config()
    structlog.configure(processors=[broken])
    try:
        assert group.enqueue("a", "job")
        assert len(group.enqueue_batch("a", [JobRequest("job"), JobRequest("job")])) == 2
    finally:
        structlog.configure(**before)
    assert len(tray.sent) == 3
