"""What a queue refuses before any call, and how it says so."""

from __future__ import annotations

import re
from typing import Any

import pytest

from jobq.core.errors import (
    ConfigurationError,
    DelayTooLongError,
    InvalidMessageError,
    JobqError,
    MessageTooLargeError,
    UnsupportedFeatureError,
)
from jobq.core.message import Attribute
from jobq.core.testing.conformance.bench import Bench
from jobq.core.testing.conformance.chapter import Chapter

_LARGEST = 1_048_576


def _case(name: str, error: type[JobqError], text: str, **message: Any) -> Any:
    """`text` is a regular expression: the value and what is allowed."""
    return pytest.param({"body": "fine", **message}, error, text, id=name)


def _assert_refused(
    bench: Bench, options: dict[str, Any], error: type[JobqError], text: str
) -> None:
    queue = bench.make_queue()
    message = bench.message(**options)
    with pytest.raises(error, match=text):
        queue.publish(message)
    [result] = queue.publish_batch([message])
    assert result.message_id is None
    assert isinstance(result.error, error)
    assert re.search(text, str(result.error))
    assert queue.claim() is None


class Refusals(Chapter):
    """What no kind of queue takes."""

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            _case("empty body", InvalidMessageError, "body is empty", body=""),
            _case("control character", InvalidMessageError, r"U\+0000", body="a\x00"),
            _case("lone surrogate", InvalidMessageError, r"U\+D800", body="\ud800"),
            _case("noncharacter", InvalidMessageError, r"U\+FFFE", body="\ufffe"),
            _case("body no str", InvalidMessageError, "bytes", body=b"raw"),
            _case(
                "large body",
                MessageTooLargeError,
                f"{_LARGEST + 2}.*{_LARGEST}",
                body="é" * (_LARGEST // 2 + 1),
            ),
            _case(
                "large with attributes",
                MessageTooLargeError,
                f"{_LARGEST + 1}.*{_LARGEST}",
                body="x" * (_LARGEST - 11),
                attributes={"name": Attribute("Number", "10")},
            ),
            _case(
                "eleven attributes",
                InvalidMessageError,
                "10 attributes, not 11",
                attributes={f"a{number}": "x" for number in range(11)},
            ),
            _case("attribute name", InvalidMessageError, "'AWS.x'", attributes={"AWS.x": "y"}),
            _case("empty attribute", InvalidMessageError, "'a'", attributes={"a": ""}),
            _case("float attribute", InvalidMessageError, "'a'.*1.5", attributes={"a": 1.5}),
            _case("bool attribute", InvalidMessageError, "'a'.*True", attributes={"a": True}),
            _case("illegal attribute", InvalidMessageError, "'a'.*U.0001", attributes={"a": "\1"}),
            _case(
                "data type",
                InvalidMessageError,
                "'Text'",
                attributes={"a": Attribute("Text", "x")},
            ),
            _case(
                "number that is none",
                InvalidMessageError,
                "'ten'",
                attributes={"a": Attribute("Number", "ten")},
            ),
            _case("priority", UnsupportedFeatureError, "priority is 5", priority=5),
            _case("group id with a space", InvalidMessageError, "'a b'.*128", group_id="a b"),
            _case("long group id", InvalidMessageError, "group_id.*128", group_id="g" * 129),
        ],
    )
    def test_a_message_is_refused_with_the_value_and_the_limit(
        self, bench: Bench, options: dict[str, Any], error: type[JobqError], text: str
    ) -> None:
        _assert_refused(bench, options, error, text)

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            pytest.param({"min_priority": 3}, UnsupportedFeatureError, "is 3", id="priority"),
            pytest.param({"visibility": 43_201}, ConfigurationError, "43201", id="visibility"),
            pytest.param({"visibility": -1}, ConfigurationError, "-1", id="negative visibility"),
            pytest.param({"wait": 21}, ConfigurationError, "20.*21", id="wait"),
            pytest.param({"max_messages": 0}, ConfigurationError, "not 0", id="no messages"),
        ],
    )
    def test_a_receive_is_refused_with_the_value(
        self, bench: Bench, options: dict[str, Any], error: type[JobqError], text: str
    ) -> None:
        queue = bench.make_queue()
        with pytest.raises(error, match=text):
            queue.claim_batch(**{"max_messages": 1, **options})

    def test_a_visibility_timeout_over_12_hours_is_refused(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        lease = bench.receive_one(queue)
        with pytest.raises(DelayTooLongError, match=r"43201.*43200"):
            queue.nack(lease, delay=43_201)
        with pytest.raises(DelayTooLongError, match=r"43201.*43200"):
            queue.nack_batch([lease], delay=43_201)
        with pytest.raises(ConfigurationError, match=r"43200.*43201"):
            queue.extend(lease, 43_201)
        with pytest.raises(ConfigurationError, match=r"43200.*43201"):
            queue.extend_batch([lease], 43_201)
        queue.ack(lease)


class StandardRefusals(Chapter):
    """What a standard queue doesn't take."""

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            _case("long delay", DelayTooLongError, "901.*900", delay_seconds=901),
            _case("delay just over", DelayTooLongError, "900.5.*900", delay_seconds=900.5),
            _case("negative delay", InvalidMessageError, "-1", delay_seconds=-1),
            _case("deduplication", UnsupportedFeatureError, "'once'", deduplication_id="once"),
        ],
    )
    def test_a_standard_queue_refuses_with_the_value_and_the_limit(
        self, bench: Bench, options: dict[str, Any], error: type[JobqError], text: str
    ) -> None:
        _assert_refused(bench, options, error, text)


class FifoRefusals(Chapter):
    """What a FIFO queue doesn't take."""

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            _case("no group", InvalidMessageError, "group_id is None", group_id=None),
            _case("empty group", InvalidMessageError, "group_id is ''", group_id=""),
            _case("delay", UnsupportedFeatureError, "delay_seconds is 5", delay_seconds=5),
            _case(
                "deduplication id", InvalidMessageError, "deduplication_id.*''", deduplication_id=""
            ),
        ],
    )
    def test_a_fifo_queue_refuses_with_the_value_and_the_limit(
        self, bench: Bench, options: dict[str, Any], error: type[JobqError], text: str
    ) -> None:
        _assert_refused(bench, options, error, text)
