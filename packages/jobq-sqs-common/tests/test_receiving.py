"""Receiving: what is asked, how leases are dated, and replies that were lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from jobq.core import BackendError, Lease
from jobq.core.limits import STANDARD
from jobq.sqs.common.calls import Call
from jobq.sqs.common.queue_calls import QueueCalls

if TYPE_CHECKING:
    from conftest import Script, Step

LOST = BackendError("no answer", retryable=True)
THROTTLED = BackendError("slow down", retryable=True, throttled=True)
DENIED = BackendError("no GetQueueAttributes for this role", denied=True, code="AccessDenied")


def message(number: int = 0) -> dict[str, Any]:
    return {
        "MessageId": f"m{number}",
        "ReceiptHandle": f"r{number}",
        "Body": "hello",
        "Attributes": {
            "ApproximateReceiveCount": "3",
            "SentTimestamp": "1700000000123",
            "MessageGroupId": "g",
        },
    }


def messages(number: int) -> dict[str, Any]:
    return {"Messages": [message(n) for n in range(number)]}


def claim(
    script: Script, queue: QueueCalls, *steps: Step, max_messages: int = 1, **options: Any
) -> list[Lease]:
    given = {"visibility": 30, "wait": 0, "min_priority": 0, **options}
    return script.run(queue.claim(max_messages, **given), steps)


def attempt_ids(script: Script) -> list[str]:
    return [call.arguments["ReceiveRequestAttemptId"] for call in script.calls]


class TestReply:
    def test_a_lease_holds_what_the_message_says(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        [lease] = claim(script, queue, messages(1))
        assert lease == Lease(
            message_id="m0",
            body="hello",
            attributes={},
            receipt="r0",
            receive_count=3,
            sent_at=1_700_000_000.123,
            group_id="g",
            expires_at=1030,
        )

    @pytest.mark.parametrize("reply", [{}, {"Messages": []}, {"Messages": None}])
    def test_p9_a_reply_without_messages_is_nothing_received(
        self, script: Script, reply: dict[str, Any]
    ) -> None:
        assert claim(script, script.queue(capabilities=STANDARD), reply) == []

    def test_only_what_a_lease_holds_is_asked_for(self, script: Script) -> None:
        claim(script, script.queue(capabilities=STANDARD), {}, visibility=4.2, wait=19.5)
        assert script.calls[0].arguments == {
            "QueueUrl": "https://sqs/1/q",
            "MaxNumberOfMessages": 1,
            "VisibilityTimeout": 5,
            "WaitTimeSeconds": 20,
            "MessageSystemAttributeNames": [
                "ApproximateReceiveCount",
                "SentTimestamp",
                "MessageGroupId",
            ],
            "MessageAttributeNames": ["All"],
        }

    def test_more_than_ten_take_several_requests_of_which_the_first_waits(
        self, script: Script
    ) -> None:
        queue = script.queue(capabilities=STANDARD)
        leases = claim(
            script, queue, messages(10), messages(10), messages(2), max_messages=25, wait=5
        )
        assert len(leases) == 22
        assert [call.arguments["WaitTimeSeconds"] for call in script.calls] == [5, 0, 0]
        assert [call.arguments["MaxNumberOfMessages"] for call in script.calls] == [10, 10, 5]

    def test_a_later_request_that_fails_leaves_what_came(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        assert len(claim(script, queue, messages(10), LOST, max_messages=25)) == 10


def answer(length: str, content_type: str = "application/x-amz-json-1.0") -> dict[str, Any]:
    """A reply in which boto3 found nothing, with what its headers said."""
    headers = {"content-type": content_type, "content-length": length}
    return {"ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": headers}}


class TestStrangeAnswers:
    @pytest.mark.parametrize(
        "reply",
        [
            answer("2"),
            answer("17", "application/json"),
            answer("2", "text/xml"),
            {"ResponseMetadata": {"HTTPHeaders": {"transfer-encoding": "chunked"}}},
            {"ResponseMetadata": {}},
        ],
    )
    def test_a_short_answer_is_an_empty_queue_s(
        self, script: Script, reply: dict[str, Any]
    ) -> None:
        assert claim(script, script.queue(capabilities=STANDARD), reply) == []

    @pytest.mark.parametrize(
        "reply",
        [
            answer("0"),
            answer("1"),
            answer("2", "text/html; charset=utf-8"),
            answer("62"),
            {"ResponseMetadata": {"HTTPHeaders": {"content-type": "application/json"}}},
        ],
        ids=[
            "empty body",
            "one byte",
            "page",
            "error with status 200",
            "cut off inside its headers",
        ],
    )
    def test_what_only_looks_empty_has_failed_and_counts_as_lost(
        self, script: Script, reply: dict[str, Any]
    ) -> None:
        queue = script.fifo()
        with pytest.raises(BackendError, match="endpoint is one of SQS") as raised:
            claim(script, queue, reply)
        assert raised.value.retryable
        claim(script, queue, {})
        assert len(set(attempt_ids(script))) == 1

    @pytest.mark.parametrize(
        "change",
        [
            {"MessageId": None},
            {"ReceiptHandle": 5},
            {"Body": {"a": 1}},
            {"Attributes": {"ApproximateReceiveCount": "many"}},
            {"Attributes": {"ApproximateReceiveCount": "9" * 5000}},
            {"Attributes": {"SentTimestamp": "9" * 400}},
            {"Attributes": {"MessageGroupId": {"a": 1}}},
            {"MessageAttributes": {"a": {"StringValue": "no type"}}},
            {"MessageAttributes": {"a": {"DataType": "String", "StringValue": [1]}}},
            {"MessageAttributes": {"a": {"DataType": "Binary"}}},
            {"MessageAttributes": {"a": None}},
        ],
        ids=str,
    )
    def test_a_message_that_can_not_be_read_costs_the_others_nothing(
        self, script: Script, change: dict[str, Any]
    ) -> None:
        bad = {**message(1), **change}
        with capture_logs() as lines:
            leases = claim(
                script,
                script.queue(capabilities=STANDARD),
                {"Messages": [message(0), bad, None, message(2)]},
                max_messages=10,
            )
        assert [lease.message_id for lease in leases] == ["m0", "m2"]
        assert [(one["event"], one["queue"]) for one in lines] == [("message_unreadable", "q")] * 2
        assert [one["message_id"] for one in lines] == [bad["MessageId"], None]

    def test_a_body_of_the_wrong_type_is_not_logged(self, script: Script) -> None:
        bad = {**message(1), "Body": {"secret": "s3cr3t"}}
        with capture_logs() as lines:
            queue = script.queue(capabilities=STANDARD)
            claim(script, queue, {"Messages": [message(0), bad]}, max_messages=2)
        assert lines
        assert "s3cr3t" not in str(lines)

    def test_a_receive_of_nothing_else_has_failed(self, script: Script) -> None:
        with pytest.raises(BackendError, match="MessageId is of type NoneType") as raised:
            claim(script, script.queue(capabilities=STANDARD), {"Messages": [{}, {}]})
        assert raised.value.retryable


class TestDating:
    @pytest.mark.parametrize(
        ("wait", "took", "dated"),
        [(0, 3, 1000), (20, 3, 1003), (20, 20.4, 1020), (5, 60, 1005)],
        ids=["short poll", "long poll", "to its end", "stalled"],
    )
    def test_a_lease_is_dated_no_later_than_its_reply_and_its_poll(
        self, script: Script, wait: float, took: float, dated: float
    ) -> None:
        def reply(call: Call) -> dict[str, Any]:
            script.now += took
            return messages(1)

        [lease] = claim(script, script.queue(capabilities=STANDARD), reply, wait=wait)
        assert lease.expires_at == dated + 30

    def test_without_a_visibility_the_queue_s_own_is_read_once(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        settings = {"Attributes": {"VisibilityTimeout": "77"}}
        [lease] = claim(script, queue, settings, messages(1), visibility=None)
        assert lease.expires_at == 1077
        claim(script, queue, {}, visibility=None)
        assert script.operations == ["get_queue_attributes", "receive_message", "receive_message"]
        assert script.calls[-1].arguments["VisibilityTimeout"] == 77

    def test_where_that_is_denied_an_explicit_one_is_asked_for(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        with pytest.raises(BackendError, match="explicit visibility") as raised:
            claim(script, queue, DENIED, visibility=None)
        assert raised.value.denied
        assert raised.value.__cause__ is DENIED
        assert claim(script, queue, {}, visibility=30) == []


class TestLostReplies:
    def test_a_lost_receive_is_asked_again_with_the_next_claim(self, script: Script) -> None:
        queue = script.fifo()
        with pytest.raises(BackendError):
            claim(script, queue, LOST)
        claim(script, queue, messages(1), max_messages=5, visibility=60)
        claim(script, queue, {})
        first, again, fresh = attempt_ids(script)
        assert first == again != fresh
        assert script.calls[1].arguments["MaxNumberOfMessages"] == 5
        assert script.calls[1].arguments["VisibilityTimeout"] == 60

    def test_an_interrupt_loses_a_reply_too(self, script: Script) -> None:
        queue = script.fifo()
        with pytest.raises(KeyboardInterrupt):
            claim(script, queue, KeyboardInterrupt())
        claim(script, queue, {})
        assert len(set(attempt_ids(script))) == 1

    def test_a_claim_that_is_interrupted_is_asked_again_from_its_first_request_on(
        self, script: Script
    ) -> None:
        queue = script.fifo()
        with pytest.raises(KeyboardInterrupt):
            claim(script, queue, messages(10), KeyboardInterrupt(), max_messages=25)
        claim(script, queue, messages(10), messages(10), {}, max_messages=25)
        first, second, *again, fresh = attempt_ids(script)
        assert again == [first, second]
        assert len({first, second, fresh}) == 3

    @pytest.mark.parametrize("error", [THROTTLED, DENIED])
    def test_a_refusal_is_an_answer(self, script: Script, error: BackendError) -> None:
        queue = script.fifo()
        with pytest.raises(BackendError):
            claim(script, queue, error)
        claim(script, queue, {})
        assert len(set(attempt_ids(script))) == 2

    def test_an_id_is_good_for_five_minutes_from_its_first_use(self, script: Script) -> None:
        queue = script.fifo()
        for _ in range(2):
            with pytest.raises(BackendError):
                claim(script, queue, LOST)
            script.now += 160
        claim(script, queue, {})
        first, second, third = attempt_ids(script)
        assert first == second != third

    def test_each_lost_receive_is_asked_again_once(self, script: Script) -> None:
        queue = script.fifo()
        flows = [queue.claim(1, visibility=30, wait=0, min_priority=0) for _ in range(2)]
        lost = [next(flow).arguments["ReceiveRequestAttemptId"] for flow in flows]  # type: ignore[union-attr]
        for flow in flows:
            with pytest.raises(BackendError):
                flow.throw(LOST)
        for _ in range(3):
            claim(script, queue, {})
        asked = attempt_ids(script)
        assert asked[:2] == lost
        assert len(set(asked)) == 3

    def test_a_standard_queue_has_no_such_id(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        with pytest.raises(BackendError):
            claim(script, queue, LOST)
        assert "ReceiveRequestAttemptId" not in script.calls[0].arguments
