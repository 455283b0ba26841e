"""Attributes: what the caller gave first, then propagation, within ten and the byte limit."""

from io import StringIO
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from jobq.core import Attribute, InvalidMessageError, Job, Lease, MessageTooLargeError
from jobq.core.attributes import message_size
from jobq.core.codec import Malformed
from jobq.core.propagation import (
    check_attributes,
    correlation_log_fields,
    fit_attributes,
    read_job,
    read_max_attempts,
)

TRACE = {"traceparent": "00-4bf9-00f0-01", "tracestate": "a=b"}


def job(**fields: Any) -> Job:
    return Job("send", {}, "default", **fields)


def lease(attributes: dict[str, Any], body: str = '{"job_type":"send","payload":{"n":1}}') -> Lease:
    return Lease(
        message_id="m-1",
        body=body,
        attributes=attributes,
        receipt="r",
        receive_count=3,
        sent_at=12.5,
        group_id="g",
        expires_at=40.0,
    )


def test_what_is_propagated_on_one_side_is_read_on_the_other() -> None:
    sent = job(trace_headers=dict(TRACE), correlation_fields={"request": "ä-1", "n": [1]})
    attributes, dropped = fit_attributes(sent, "{}", attributes={"kind": "x"}, max_attempts=5)

    assert dropped == []
    assert list(attributes) == ["kind", "max_attempts", "correlation_fields", *TRACE]
    assert read_max_attempts(attributes) == 5
    assert read_job("mine", lease(attributes)) == Job(
        "send",
        {"n": 1},
        "mine",
        trace_headers={"kind": "x", **TRACE},
        correlation_fields={"request": "ä-1", "n": [1]},
        message_id="m-1",
        receive_count=3,
        group_id="g",
        sent_at=12.5,
    )


def test_a_job_that_carries_nothing_has_no_attributes() -> None:
    assert fit_attributes(job(), "{}") == ({}, [])


@pytest.mark.parametrize(
    ("given", "kept", "dropped"),
    [
        (7, ["correlation_fields", "traceparent", "tracestate"], []),
        (8, ["correlation_fields", "traceparent"], ["tracestate"]),
        (9, ["correlation_fields"], ["traceparent", "tracestate"]),
        (10, [], ["correlation_fields", "traceparent", "tracestate"]),
    ],
)
def test_propagation_is_dropped_from_the_end_where_ten_attributes_are_exceeded(
    given: int, kept: list[str], dropped: list[str]
) -> None:
    own = {f"a{i}": "x" for i in range(given)}
    sent = job(trace_headers=dict(TRACE), correlation_fields={"a": 1})

    attributes, left_out = fit_attributes(sent, "{}", attributes=own)

    assert list(attributes) == [*own, *kept]
    assert left_out == dropped


def test_what_the_caller_gave_is_never_dropped_but_refused_over_ten() -> None:
    own = {f"a{i}": "x" for i in range(10)}

    with pytest.raises(
        InvalidMessageError, match="max_attempts included, takes 10 attributes, not 11"
    ):
        fit_attributes(job(), "{}", attributes=own, max_attempts=3)


@given(st.integers(0, 200), st.text(min_size=1, max_size=30))
def test_body_and_attributes_never_exceed_the_limit(room: int, text: str) -> None:
    sent = job(
        trace_headers={"traceparent": "x" * 20, "baggage": "y" * 30}, correlation_fields={"a": text}
    )
    body = '{"é":1}'
    needed = message_size(body, {"own": "ü"})

    attributes, dropped = fit_attributes(sent, body, attributes={"own": "ü"}, largest=needed + room)

    assert message_size(body, attributes) <= needed + room
    assert [*attributes, *dropped] == ["own", "correlation_fields", "traceparent", "baggage"]


def test_a_message_too_large_without_propagation_is_refused_with_both_sizes() -> None:
    with pytest.raises(MessageTooLargeError, match=r"has 101 bytes, .* the queue takes 100:"):
        fit_attributes(job(trace_headers=dict(TRACE)), "x" * 101, largest=100)


@pytest.mark.parametrize("name", ["correlation_fields", "max_attempts"])
def test_an_attribute_named_like_ours_is_refused(name: str) -> None:
    with pytest.raises(InvalidMessageError, match=f"'{name}' is jobq's own"):
        check_attributes({name: "x"})


@pytest.mark.parametrize(
    ("attributes", "what"),
    [
        ({"fine": "x", "a b": "x"}, "attribute name 'a b'"),
        ({"name": ""}, "'name' is empty"),
        ({"name": Attribute("Number", "ten")}, "'ten'"),
        ({f"a{i}": "x" for i in range(11)}, "10 attributes, not 11"),
    ],
)
def test_an_attribute_that_sqs_refuses_is_refused(attributes: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidMessageError, match=what):
        check_attributes(attributes)


def test_a_trace_header_never_replaces_what_the_caller_gave() -> None:
    attributes, dropped = fit_attributes(
        job(trace_headers=dict(TRACE)), "{}", attributes={"traceparent": "mine"}
    )

    assert attributes == {"traceparent": "mine", "tracestate": "a=b"}
    assert dropped == []


def test_a_trace_header_that_cannot_travel_is_dropped_alone() -> None:
    headers: Any = {"tracestate": "", "no name": "x", "n": 3, "traceparent": "00"}

    attributes, dropped = fit_attributes(job(trace_headers=headers), "{}")

    assert attributes == {"traceparent": "00"}
    assert dropped == ["tracestate", "no name", "n"]


def test_a_trace_header_cannot_pass_for_what_is_ours() -> None:
    headers = {"max_attempts": "9", "correlation_fields": "{}"}

    assert fit_attributes(job(trace_headers=headers), "{}") == ({}, [])


def test_a_correlation_field_that_is_no_json_is_refused_by_name() -> None:
    with pytest.raises(InvalidMessageError, match="correlation fields of 'send': user is a object"):
        fit_attributes(job(correlation_fields={"user": object()}), "{}")


@given(st.text() | st.sampled_from(["[]", "null", "[" * 5000, "{", '{"a":NaN}']))
def test_correlation_fields_that_are_no_json_object_are_ignored(text: str) -> None:
    read = read_job("q", lease({"correlation_fields": text}))

    assert isinstance(read, Job)
    assert read.correlation_fields == {}


@pytest.mark.parametrize("value", [0, -1, "3", b"3", True, Attribute("Number", "2.5"), None])
def test_max_attempts_that_makes_no_sense_is_ignored(value: Any) -> None:
    assert read_max_attempts({"max_attempts": value}) is None


def test_only_text_attributes_are_trace_headers() -> None:
    attributes = {"a": "x", "n": 1, "b": b"x", "f": Attribute("String.x", "y"), "max_attempts": 2}

    read = read_job("q", lease(attributes))

    assert isinstance(read, Job)
    assert read.trace_headers == {"a": "x"}


def test_a_lease_whose_body_can_never_run_is_malformed() -> None:
    assert isinstance(read_job("q", lease({}, body="hi")), Malformed)


def test_correlation_fields_cannot_pass_for_our_log_fields_or_structlogs() -> None:
    fields = {"queue": "evil", "span_id": 1, "event": "x", "exc_info": True, "request": "r-1"}

    assert correlation_log_fields(job(correlation_fields=fields)) == {
        "correlation_queue": "evil",
        "correlation_span_id": 1,
        "correlation_event": "x",
        "correlation_exc_info": True,
        "request": "r-1",
    }


@pytest.mark.parametrize("key", ["exception", "stack", "_record", "_from_structlog"])
def test_no_correlation_field_makes_the_log_lines_of_its_job_raise(key: str) -> None:
    processors: list[Any] = [
        structlog.processors.CallsiteParameterAdder(),
        structlog.stdlib.ExtraAdder(),
        structlog.dev.ConsoleRenderer(colors=False),
    ]
    output = StringIO()
    logger = structlog.wrap_logger(structlog.PrintLogger(output), processors)

    logger.warning("job_started", **correlation_log_fields(job(correlation_fields={key: 1})))

    assert f"correlation_{key}=1" in output.getvalue()


def test_a_correlation_field_that_no_output_can_write_is_escaped_for_the_log() -> None:
    job = Job("a", {}, "jobs", correlation_fields={"x": "\ud800", "\ud801": "é", "n": 1})
    fields = correlation_log_fields(job)
    assert fields == {"x": "\\ud800", "\\ud801": "é", "n": 1}
