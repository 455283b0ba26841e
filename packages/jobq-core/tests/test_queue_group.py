"""Groups: building, enqueuing, batches under hooks of both colours, and refusals."""

import contextvars
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
import structlog
from structlog.testing import capture_logs

from jobq.core import (
    BackendError,
    BackendNotInstalledError,
    Capabilities,
    ConfigurationError,
    DelayTooLongError,
    InvalidMessageError,
    Job,
    JobMiddleware,
    JobqError,
    JobRequest,
    Message,
    MessageTooLargeError,
    PublishBatchError,
    PublishResult,
    QueueDefinition,
    QueueGroup,
    UnknownQueueError,
    UnsupportedFeatureError,
)
from jobq.core.memory import MemoryQueue


class Tray:
    """A queue that keeps what was sent, call by call, and fails where it is told to."""

    operations = None

    def __init__(self, *, fifo: bool = False, largest: int = 1_048_576) -> None:
        self.calls: list[list[Message]] = []
        self.failing: dict[str, JobqError] = {}
        self.closed = 0
        self.capabilities = Capabilities(
            ordered=fifo,
            delays=not fifo,
            priorities=False,
            largest_batch=10,
            largest_message=largest,
            longest_visibility=43_200,
        )

    @property
    def sent(self) -> list[Message]:
        return [message for call in self.calls for message in call]

    def publish(self, message: Message) -> str:
        self.calls.append([message])
        error = self._error(message)
        if error is not None:
            raise error
        return f"id-{len(self.sent) - 1}"

    def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        first = len(self.sent)
        self.calls.append(list(messages))
        return [
            PublishResult(error=error)
            if (error := self._error(message)) is not None
            else PublishResult(f"id-{first + at}")
            for at, message in enumerate(messages)
        ]

    def close(self) -> None:
        self.closed += 1

    def _error(self, message: Message) -> JobqError | None:
        return next((error for word, error in self.failing.items() if word in message.body), None)


def group(tray: Tray, *middleware: JobMiddleware) -> QueueGroup:
    return QueueGroup({"default": {"queue": tray}}, middleware)


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


class PlainTrace(JobMiddleware):
    """Marks each job with what its context held, and keeps what came back."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def produce(self, job: Job, call_next: Any) -> Any:
        n = job.payload.get("n")
        self.events.append(("in", n, WHO.get()))
        WHO.set(f"job {n}")
        job.trace_headers["traceparent"] = f"trace-{n}"
        if job.payload.get("refuse"):
            raise PermissionError(f"job {n}")
        if job.payload.get("answer"):
            return f"answer-{n}"
        try:
            message_id = call_next(job)
        except BaseException as error:
            self.events.append(("failed", n, type(error).__name__, WHO.get()))
            raise
        self.events.append(("out", n, message_id, WHO.get()))
        if job.payload.get("late"):
            raise PermissionError(f"late {n}")
        return message_id


class AsyncTrace(PlainTrace):
    async def produce(self, job: Job, call_next: Any) -> Any:
        n = job.payload.get("n")
        self.events.append(("in", n, WHO.get()))
        WHO.set(f"job {n}")
        job.trace_headers["traceparent"] = f"trace-{n}"
        if job.payload.get("refuse"):
            raise PermissionError(f"job {n}")
        if job.payload.get("answer"):
            return f"answer-{n}"
        try:
            message_id = await call_next(job)
        except BaseException as error:
            self.events.append(("failed", n, type(error).__name__, WHO.get()))
            raise
        self.events.append(("out", n, message_id, WHO.get()))
        if job.payload.get("late"):
            raise PermissionError(f"late {n}")
        return message_id


both_colours = pytest.mark.parametrize("trace", [PlainTrace, AsyncTrace])


# Building


def test_a_group_is_built_from_mappings_and_definitions_without_a_call() -> None:
    made: list[str] = []
    queues = QueueGroup.build(
        client=lambda: made.append("client"),
        queues={
            "default": {"name": "jobs", "backend": "memory", "weight": 5},
            "ledger": QueueDefinition(name="ledger.fifo", backend="memory"),
        },
    )

    assert queues.names == ("default", "ledger")
    assert queues.definition("default").weight == 5
    assert queues.definitions["ledger"].name == "ledger.fifo"
    assert queues.queue("ledger").capabilities.ordered
    assert queues.middleware == ()
    assert made == []


def test_the_queues_of_a_backend_share_the_client_that_it_makes() -> None:
    queues = QueueGroup(
        {
            "a": {"name": "jobs", "backend": "memory"},
            "b": {"url": "https://sqs.example/1/jobs", "backend": "memory"},
        }
    )
    queues.enqueue("a", "t")

    assert queues.stats()["b"].waiting == 1


def test_two_groups_share_nothing() -> None:
    first, second = (QueueGroup({"a": {"name": "jobs", "backend": "memory"}}) for _ in range(2))
    first.enqueue("a", "t")

    assert (first.stats()["a"].waiting, second.stats()["a"].waiting) == (1, 0)


def test_closing_closes_what_the_group_made_and_nothing_that_it_was_given() -> None:
    class Client:
        closed = 0

        def close(self) -> None:
            Client.closed += 1

    tray = Tray()
    with QueueGroup.build(
        client=Client(), queues={"a": {"queue": tray}, "b": {"name": "b", "backend": "memory"}}
    ):
        pass

    assert (tray.closed, Client.closed) == (0, 0)


@pytest.mark.parametrize("address", ["grave", "https://sqs.example/1/grave"])
def test_a_named_dead_letter_queue_is_opened_over_the_connection_of_its_queue(address: str) -> None:
    queues = QueueGroup(
        {
            "a": {"name": "jobs", "backend": "memory", "dead_letter": address},
            "b": {"name": "grave", "backend": "memory"},
        }
    )
    dead = queues.dead_letter_queue("a")
    assert dead is not None
    dead.publish(Message("buried"))

    assert queues.stats()["b"].waiting == 1


def test_without_a_name_the_dead_letter_queue_is_the_redrive_policys_or_none() -> None:
    dead = MemoryQueue("dead")
    policed = MemoryQueue("policed", dead_letter_queue=dead, max_receive_count=3)
    queues = QueueGroup({"a": {"queue": policed}, "b": {"queue": MemoryQueue("free")}})
    found = queues.dead_letter_queue("a")
    assert isinstance(found, MemoryQueue)

    assert found.name == "dead"
    assert queues.dead_letter_queue("b") is None
    with pytest.raises(UnknownQueueError, match="'c'"):
        queues.dead_letter_queue("c")


def test_a_dead_letter_queue_by_name_is_refused_beside_a_queue_made_by_hand() -> None:
    queues = QueueGroup({"a": {"queue": MemoryQueue("jobs"), "dead_letter": "grave"}})
    with pytest.raises(ConfigurationError, match="'a' was made by hand, so dead_letter='grave'"):
        queues.dead_letter_queue("a")


@pytest.mark.parametrize(
    ("queues", "what"),
    [
        ({}, "at least one name"),
        (["jobs"], "at least one name"),
        ({"a": "jobs"}, r"queue 'a' must be a mapping such as .* not 'jobs'"),
        ({"": {"name": "jobs"}}, "must be text, not ''"),
        (
            {"a": {"name": "jobs", "wieght": 1}},
            "queue 'a': unknown key 'wieght'; known are backend",
        ),
        ({"a": {}}, "queue 'a': .* exactly one of 'queue', 'name' and 'url', not none"),
        ({"a": {"queue": object()}}, "queue 'a': .* is no Queue"),
        (
            {
                "a": {"name": "jobs", "backend": "memory"},
                "b": {"name": "jobs", "backend": "memory"},
            },
            "queues 'a' and 'b' are the same queue, 'jobs'",
        ),
    ],
)
def test_a_group_that_makes_no_sense_is_refused(queues: Any, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        QueueGroup(queues)


def test_an_async_queue_is_refused() -> None:
    class AsyncTray:
        async def publish(self, message: Message) -> str:
            return "id"

    with pytest.raises(ConfigurationError, match="AsyncTray is an async queue"):
        QueueGroup({"a": {"queue": AsyncTray()}})


def test_a_backend_that_is_not_installed_is_refused_with_those_that_are() -> None:
    with pytest.raises(BackendNotInstalledError, match=r"'rabbit' is installed; .* memory"):
        QueueGroup({"a": {"name": "jobs", "backend": "rabbit"}})


def test_middleware_that_is_a_class_is_refused_when_the_group_is_built() -> None:
    with pytest.raises(ConfigurationError, match="instances of JobMiddleware"):
        group(Tray(), cast("Any", PlainTrace))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_group_built_before_a_fork_works_in_the_child() -> None:
    queues = QueueGroup({"a": {"name": "jobs", "backend": "memory"}}, [AsyncTrace(), PlainTrace()])
    pid = os.fork()
    if pid == 0:
        try:
            queues.enqueue_batch("a", [JobRequest("t", {"n": n}) for n in range(3)])
            os._exit(0 if queues.stats()["a"].waiting == 3 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# Enqueuing


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


# Batches


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
