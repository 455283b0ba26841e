"""One job is sent: with all that was given, through hooks of both colours, or refused."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs
from trays import PlainTrace, Tray, both_colours, group

from jobq.core import (
    BackendError,
    ConfigurationError,
    DelayTooLongError,
    InvalidMessageError,
    Job,
    JobMiddleware,
    JobRequest,
    Message,
    MessageTooLargeError,
    QueueGroup,
    UnknownQueueError,
    UnsupportedFeatureError,
)
from jobq.core.memory import MemoryQueue


def test_enqueue_sends_one_message_with_all_that_was_given() -> None:
    tray = Tray(fifo=True)

    message_id = group(tray).enqueue(
        "default",
        "send",
        {"user": 1},
        correlation_fields={"request": "r-1"},
        message_group_id="g",
        message_deduplication_id="d",
        message_attributes={"kind": b"x"},
        max_attempts=3,
    )

    assert message_id == "id-0"
    assert tray.calls == [
        [
            Message(
                '{"job_type":"send","payload":{"user":1}}',
                attributes={
                    "kind": b"x",
                    "max_attempts": 3,
                    "correlation_fields": '{"request":"r-1"}',
                },
                group_id="g",
                deduplication_id="d",
            )
        ]
    ]


def test_l4_the_same_arguments_enqueued_twice_are_two_jobs() -> None:
    queues = QueueGroup({"a": {"queue": MemoryQueue("a.fifo")}})
    ids = {queues.enqueue("a", "t", {"n": 1}, message_group_id="g") for _ in range(2)}

    assert len(ids) == 2
    assert queues.stats()["a"].waiting == 2


def test_a_send_is_logged_with_ids_and_without_the_payload() -> None:
    with capture_logs() as logs:
        group(Tray()).enqueue("default", "send", {"secret": "s3cret"}, message_group_id="g")

    assert logs == [
        {
            "event": "job_enqueued",
            "log_level": "info",
            "queue": "default",
            "job_type": "send",
            "message_id": "id-0",
            "group_id": "g",
        }
    ]


def test_propagation_that_had_to_be_dropped_is_a_warning_that_names_it() -> None:
    attributes: Any = {f"a{n}": "x" for n in range(10)}
    with capture_logs() as logs:
        group(Tray(), PlainTrace()).enqueue("default", "send", message_attributes=attributes)

    warnings = [log for log in logs if log["log_level"] == "warning"]
    assert warnings == [
        {
            "event": "propagation_attributes_dropped",
            "log_level": "warning",
            "queue": "default",
            "job_type": "send",
            "dropped": ["traceparent"],
        }
    ]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize(
    ("fifo", "options", "error", "what"),
    [
        (False, {"payload": [1]}, InvalidMessageError, "payload must be a mapping"),
        (False, {"payload": {"a": {1: 2}}}, InvalidMessageError, "payload.a has the key 1"),
        (False, {"job_type": ""}, InvalidMessageError, "job_type must be"),
        (False, {"payload": {"a": "x" * 3000}}, MessageTooLargeError, "the queue takes 2000"),
        (False, {"message_attributes": {"max_attempts": 1}}, InvalidMessageError, "jobq's own"),
        (False, {"message_attributes": "kind=x"}, InvalidMessageError, "must be a mapping"),
        (False, {"correlation_fields": "r-1"}, InvalidMessageError, "must be a mapping"),
        (False, {"correlation_fields": {"a": {1}}}, InvalidMessageError, "a is a set"),
        (False, {"max_attempts": 0}, InvalidMessageError, "not 0"),
        (False, {"max_attempts": True}, InvalidMessageError, "not True"),
        (False, {"delay_seconds": -1}, InvalidMessageError, "not -1"),
        (False, {"delay_seconds": "5"}, InvalidMessageError, "not '5'"),
        (False, {"delay_seconds": 901}, DelayTooLongError, "901.* 900 s at most"),
        (False, {"message_deduplication_id": "d"}, UnsupportedFeatureError, "'d'.* FIFO"),
        (False, {"message_group_id": "a b"}, InvalidMessageError, "1 to 128"),
        (True, {}, InvalidMessageError, "message_group_id is None"),
        (True, {"message_group_id": ""}, InvalidMessageError, "message_group_id is ''.* 1 to 128"),
        (True, {"message_group_id": "g", "delay_seconds": 1}, UnsupportedFeatureError, "FIFO"),
    ],
)
def test_a_wrong_argument_is_refused_before_any_call_and_a_batch_as_a_whole(
    batch: Any, fifo: Any, options: dict[str, Any], error: type[Exception], what: str
) -> None:
    tray = Tray(fifo=fifo, largest=2000)
    queues = group(tray)
    arguments: dict[str, Any] = {"job_type": "t", **options}
    good = JobRequest("t", message_group_id="g")

    def send() -> None:
        if batch:
            queues.enqueue_batch("default", [good, JobRequest(**arguments), good])
        else:
            queues.enqueue("default", **arguments)

    with pytest.raises(error, match=what) as caught:
        send()

    assert tray.calls == []
    assert getattr(caught.value, "__notes__", []) == (
        ["nothing of the batch was sent: this is its item 1"] if batch else []
    )


@pytest.mark.parametrize("name", ["other", 3, ["a"]])
def test_an_unknown_queue_is_refused_with_those_that_there_are(name: Any) -> None:
    queues = group(Tray())
    uses: list[Any] = [queues.queue, queues.definition, partial(queues.enqueue, job_type="t")]
    for use in uses:
        with pytest.raises(UnknownQueueError, match="it holds 'default'"):
            use(name)


@both_colours
def test_a_produce_hook_adds_headers_and_sees_the_message_id(trace: type[PlainTrace]) -> None:
    tray, hook = Tray(), trace()

    assert group(tray, hook).enqueue("default", "t", {"n": 7}) == "id-0"
    assert tray.sent[0].attributes == {"traceparent": "trace-7"}
    assert hook.events[-1][:3] == ("out", 7, "id-0")


@both_colours
def test_what_a_produce_hook_raises_reaches_the_caller_and_nothing_is_sent(
    trace: type[PlainTrace],
) -> None:
    tray = Tray()
    with pytest.raises(PermissionError, match="job 7"):
        group(tray, trace()).enqueue("default", "t", {"n": 7, "refuse": True})
    assert tray.calls == []


@both_colours
def test_what_the_queue_raises_passes_through_the_hooks(trace: type[PlainTrace]) -> None:
    tray, hook = Tray(), trace()
    tray.failing["7"] = error = BackendError("away", retryable=True)

    with pytest.raises(BackendError) as caught:
        group(tray, hook).enqueue("default", "t", {"n": 7})
    assert caught.value is error
    assert hook.events[-1][:3] == ("failed", 7, "BackendError")


def test_a_hook_that_forgets_to_return_the_id_loses_none() -> None:
    class Forgetful(JobMiddleware):
        def produce(self, job: Job, call_next: Any) -> Any:
            call_next(job)

    queues = group(Tray(), Forgetful())

    assert queues.enqueue("default", "t") == "id-0"
    assert queues.enqueue_batch("default", [JobRequest("t"), JobRequest("t")]) == ["id-1", "id-2"]


def test_a_hook_that_neither_sends_nor_answers_is_refused() -> None:
    class Silent(JobMiddleware):
        def produce(self, job: Job, call_next: Any) -> Any:
            return None

    with pytest.raises(ConfigurationError, match=r"Silent\.produce.* returned None"):
        group(Tray(), Silent()).enqueue("default", "t")


def test_a_hook_may_pass_on_another_job() -> None:
    class Rename(JobMiddleware):
        def produce(self, job: Job, call_next: Any) -> Any:
            return call_next(replace(job, job_type="renamed", payload={"n": 1}))

    tray = Tray()
    group(tray, Rename()).enqueue("default", "t")
    assert tray.sent[0].body == '{"job_type":"renamed","payload":{"n":1}}'


def test_the_callers_own_mappings_are_left_as_they_were() -> None:
    class Meddling(JobMiddleware):
        def produce(self, job: Job, call_next: Any) -> Any:
            job.payload["more"] = job.correlation_fields["more"] = 1
            return call_next(job)

    payload, fields = {"n": 1}, {"request": "r"}
    group(Tray(), Meddling()).enqueue("default", "t", payload, correlation_fields=fields)

    assert (payload, fields) == ({"n": 1}, {"request": "r"})
