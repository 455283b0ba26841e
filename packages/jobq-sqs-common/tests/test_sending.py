"""Sending: retries, partial failures, and order within a group."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.core import (
    BackendError,
    DelayTooLongError,
    InvalidMessageError,
    JobqError,
    Message,
    MessageTooLargeError,
    PublishResult,
    QueueNotFoundError,
    UnsupportedFeatureError,
)
from jobq.core.limits import FIFO, STANDARD
from jobq.sqs.common.calls import Call, drive
from jobq.sqs.common.queue_calls import QueueCalls

if TYPE_CHECKING:
    from conftest import Script

AGAIN = BackendError("503", retryable=True)
NEVER = BackendError("400")


def ours() -> int:
    return 3


def theirs() -> int:
    return 1


def accepted(call: Call) -> dict[str, Any]:
    return {
        "Successful": [
            {"Id": entry["Id"], "MessageId": f"m{entry['Id']}"}
            for entry in call.arguments["Entries"]
        ]
    }


def refusing(failures: dict[str, bool]) -> Any:
    """Entries by id that fail, and whether that is the sender's fault."""

    def reply(call: Call) -> dict[str, Any]:
        entries = accepted(call)["Successful"]
        return {
            "Successful": [entry for entry in entries if entry["Id"] not in failures],
            "Failed": [
                {"Id": key, "Code": "Broken", "Message": "so", "SenderFault": failures[key]}
                for key in failures
                if key in {entry["Id"] for entry in entries}
            ],
        }

    return reply


def sent(script: Script) -> list[list[str]]:
    """The entry ids of each batch call."""
    return [[entry["Id"] for entry in call.arguments["Entries"]] for call in script.calls]


def grouped(*groups: str) -> list[Message]:
    return [Message(str(n), group_id=group) for n, group in enumerate(groups)]


def good(*positions: int) -> list[PublishResult]:
    return [PublishResult(f"m{position}") for position in positions]


class TestOne:
    def test_l4_a_retried_send_carries_the_same_deduplication_id(self, script: Script) -> None:
        queue = script.fifo()
        message = Message("x", group_id="g")
        steps = [AGAIN, AGAIN, {"MessageId": "m"}]
        assert script.run(queue.publish(message, attempts=ours), steps) == "m"
        assert [call.arguments["MessageDeduplicationId"] for call in script.calls] == ["id-0"] * 3
        assert script.pauses == pytest.approx([0.15, 0.3])

    def test_the_next_send_carries_another_one(self, script: Script) -> None:
        queue = script.fifo()
        message = Message("x", group_id="g")
        for _ in range(2):
            script.run(queue.publish(message, attempts=ours), [{"MessageId": "m"}])
        first, second = (call.arguments["MessageDeduplicationId"] for call in script.calls)
        assert first != second

    def test_the_caller_s_own_id_wins(self, script: Script) -> None:
        message = Message("x", group_id="g", deduplication_id="mine")
        script.run(script.fifo().publish(message, attempts=ours), [{"MessageId": "m"}])
        assert script.calls[0].arguments["MessageDeduplicationId"] == "mine"

    @pytest.mark.parametrize(
        ("error", "attempts", "tries"), [(AGAIN, ours, 3), (AGAIN, theirs, 1), (NEVER, ours, 1)]
    )
    def test_it_gives_up(
        self, script: Script, error: BackendError, attempts: Any, tries: int
    ) -> None:
        queue = script.queue(capabilities=STANDARD)
        with pytest.raises(BackendError) as raised:
            script.run(queue.publish(Message("x"), attempts=attempts), [error] * tries)
        assert raised.value is error
        assert len(script.calls) == tries

    def test_a_name_is_looked_up_once_and_its_look_up_is_retried(self, script: Script) -> None:
        queue = script.queue("orders", capabilities=STANDARD)
        url = {"QueueUrl": "https://sqs/1/orders"}
        script.run(queue.publish(Message("x"), attempts=ours), [AGAIN, url, {"MessageId": "m"}])
        script.run(queue.publish(Message("x"), attempts=ours), [{"MessageId": "m"}])
        assert script.operations == [
            "get_queue_url",
            "get_queue_url",
            "send_message",
            "send_message",
        ]

    def test_an_endpoint_that_is_not_sqs_is_named(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        with pytest.raises(BackendError, match="SendMessage has no MessageId: check that the endp"):
            script.run(queue.publish(Message("x"), attempts=ours), [{"message": "<html>"}] * 3)

    def test_an_accepted_entry_without_an_id_is_tried_again_and_then_has_failed(
        self, script: Script
    ) -> None:
        queue = script.queue(capabilities=STANDARD)
        results = script.run(
            queue.publish_batch([Message("x")], attempts=ours), [{"Successful": [{"Id": "0"}]}] * 3
        )
        [error] = [result.error for result in results]
        assert "has no MessageId" in str(error)

    def test_a_group_id_on_a_standard_queue_is_passed_on_and_nothing_else_of_fifo(
        self, script: Script
    ) -> None:
        queue = script.queue(capabilities=STANDARD)
        script.run(queue.publish(Message("x", group_id="g"), attempts=ours), [{"MessageId": "m"}])
        assert script.calls[0].arguments == {
            "QueueUrl": "https://sqs/1/q",
            "MessageBody": "x",
            "MessageGroupId": "g",
        }

    def test_the_queue_s_own_limit_counts_once_it_is_known(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        settings = {"VisibilityTimeout": "30", "MaximumMessageSize": "1024"}
        script.run(queue.describe(), [{"Attributes": settings}])
        assert queue.capabilities.largest_message == 1024
        with pytest.raises(MessageTooLargeError, match=r"1025.*1024"):
            queue.publish(Message("x" * 1025), attempts=ours)
        settings["MaximumMessageSize"] = "2048"
        script.run(queue.describe(), [{"Attributes": settings}])
        assert queue.capabilities.largest_message == 2048

    @pytest.mark.parametrize(("delay", "seconds"), [(1, 1), (0.01, 1), (899.5, 900)])
    def test_a_delay_is_rounded_up(self, script: Script, delay: float, seconds: int) -> None:
        queue = script.queue(capabilities=STANDARD)
        message = Message("x", delay_seconds=delay)
        script.run(queue.publish(message, attempts=ours), [{"MessageId": "m"}])
        assert script.calls[0].arguments["DelaySeconds"] == seconds

    @pytest.mark.parametrize(
        ("wish", "error", "text"),
        [
            ({"delay_seconds": 1}, UnsupportedFeatureError, "is 1, and a FIFO queue delays no"),
            ({"priority": 1}, UnsupportedFeatureError, "is 1, and SQS queues have no priorities"),
        ],
    )
    def test_o6_a_delay_or_a_priority_on_fifo_is_refused_before_any_call(
        self, script: Script, wish: dict[str, Any], error: type[JobqError], text: str
    ) -> None:
        self.assert_refused(script, script.fifo(), error, text, group_id="g", **wish)

    def test_m7_a_delay_over_900_seconds_is_refused_before_any_call(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        self.assert_refused(script, queue, DelayTooLongError, r"901.*900 s", delay_seconds=901)

    @staticmethod
    def assert_refused(
        script: Script, queue: QueueCalls, error: type[JobqError], text: str, **wish: Any
    ) -> None:
        with pytest.raises(error, match=text):
            script.run(queue.publish(Message("x", **wish), attempts=ours))
        [result] = script.run(queue.publish_batch([Message("x", **wish)], attempts=ours))
        assert isinstance(result.error, error)
        assert re.search(text, str(result.error))
        assert script.calls == []


class TestBatch:
    def test_nothing_is_sent_for_no_messages(self, script: Script) -> None:
        assert script.run(script.fifo().publish_batch([], attempts=ours)) == []

    def test_what_cannot_be_sent_is_named_by_its_position(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        messages = [Message("a"), Message(""), Message("c")]
        results = script.run(queue.publish_batch(messages, attempts=ours), [accepted])
        assert [results[0], results[2]] == good(0, 2)
        assert isinstance(results[1].error, InvalidMessageError)
        assert sent(script) == [["0", "2"]]

    def test_m3_of_25_large_messages_one_fails_for_good_and_the_others_are_sent_once(
        self, script: Script
    ) -> None:
        queue = script.queue(capabilities=STANDARD)
        messages = [Message("x" * 150_000) for _ in range(25)]
        steps = [accepted, refusing({"7": True}), accepted, accepted, accepted]
        results = script.run(queue.publish_batch(messages, attempts=ours), steps)
        assert [n for n, result in enumerate(results) if result.error] == [7]
        ids = [key for batch in sent(script) for key in batch]
        assert ids == [str(n) for n in range(25)]

    def test_what_failed_through_no_fault_of_ours_is_sent_again_alone(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        flow = queue.publish_batch([Message("x")] * 3, attempts=theirs)
        assert script.run(flow, [refusing({"1": False}), accepted]) == good(0, 1, 2)
        assert sent(script) == [["0", "1", "2"], ["1"]]

    def test_an_entry_is_tried_three_times(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        flow = queue.publish_batch([Message("x")] * 2, attempts=ours)
        results = script.run(flow, [refusing({"1": False})] * 3)
        assert sent(script) == [["0", "1"], ["1"], ["1"]]
        assert results[0] == PublishResult("m0")
        assert re.search("'q' failed: Broken: so", str(results[1].error))

    def test_a_call_that_failed_is_tried_again_over_a_client_of_ours_only(
        self, script: Script
    ) -> None:
        queue = script.queue(capabilities=STANDARD)
        flow = queue.publish_batch([Message("x")] * 12, attempts=ours)
        assert script.run(flow, [AGAIN, accepted, accepted]) == good(*range(12))
        flow = queue.publish_batch([Message("x")] * 12, attempts=theirs)
        results = script.run(flow, [AGAIN, accepted])
        assert results == [PublishResult(error=AGAIN)] * 10 + good(10, 11)

    def test_a_missing_queue_is_every_entry_s_error(self, script: Script) -> None:
        queue = script.queue("orders", capabilities=STANDARD)
        error = QueueNotFoundError("no such queue")
        results = script.run(queue.publish_batch([Message("x")] * 3, attempts=ours), [error])
        assert results == [PublishResult(error=error)] * 3

    def test_a_dead_endpoint_is_not_asked_for_every_batch(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        flow = queue.publish_batch([Message("x")] * 1000, attempts=ours)
        results = script.run(flow, [AGAIN] * 9)
        assert results == [PublishResult(error=AGAIN)] * 1000

    def test_an_entry_that_the_reply_leaves_out_is_sent_again(self, script: Script) -> None:
        queue = script.queue(capabilities=STANDARD)
        flow = queue.publish_batch([Message("x")], attempts=ours)
        assert script.run(flow, [{}, accepted]) == good(0)


class TestOrder:
    def test_a_failed_send_that_was_overtaken_is_reported_with_the_unsent_ones(
        self, script: Script
    ) -> None:
        messages = grouped("g", "g", "g", *["h"] * 7, "g", "h")
        flow = script.fifo().publish_batch(messages, attempts=ours)
        results = script.run(flow, [refusing({"1": False}), accepted])
        assert sent(script) == [[str(n) for n in range(10)], ["11"]]
        assert [n for n, result in enumerate(results) if result.error] == [1, 10]
        assert "a later message of group 'g' was accepted" in str(results[1].error)
        assert "not sent, because message 1 of this batch" in str(results[10].error)

    def test_a_group_waits_for_the_retry_of_its_earlier_message(self, script: Script) -> None:
        messages = grouped(*["h"] * 9, "g", "g", "h")
        flow = script.fifo().publish_batch(messages, attempts=ours)
        steps = [refusing({"9": False}), accepted, accepted]
        assert script.run(flow, steps) == good(*range(12))
        assert sent(script) == [[str(n) for n in range(10)], ["11"], ["9", "10"]]

    def test_nothing_of_a_group_is_sent_after_one_that_failed_for_good(
        self, script: Script
    ) -> None:
        messages = [Message("", group_id="g"), *grouped("h", "g")]
        results = script.run(script.fifo().publish_batch(messages, attempts=ours), [accepted])
        assert sent(script) == [["1"]]
        assert isinstance(results[0].error, InvalidMessageError)
        assert "not sent, because message 0" in str(results[2].error)

    def test_a_call_that_failed_for_good_ends_its_groups(self, script: Script) -> None:
        messages = grouped(*["g"] * 12, "h")
        flow = script.fifo().publish_batch(messages, attempts=ours)
        results = script.run(flow, [NEVER, accepted])
        assert sent(script)[1] == ["12"]
        assert [result.error for result in results[:10]] == [NEVER] * 10
        assert "not sent" in str(results[11].error)

    @given(data=st.data())
    def test_o8_no_later_message_is_ever_ahead_of_an_earlier_one(self, data: st.DataObject) -> None:
        groups = data.draw(st.lists(st.sampled_from("abc"), max_size=35), label="groups")
        log: list[int] = []
        lost_for_good: set[int] = set()
        tries: defaultdict[int, int] = defaultdict(int)

        def send(call: Call) -> dict[str, Any]:
            if data.draw(st.integers(0, 9), label="call") == 0:
                raise data.draw(st.sampled_from([AGAIN, NEVER]))
            reply: dict[str, Any] = {"Successful": [], "Failed": []}
            for entry in call.arguments["Entries"]:
                position = int(entry["Id"])
                tries[position] += 1
                earlier = [p for p in lost_for_good if groups[p] == groups[position]]
                assert all(p > position for p in earlier), "sent after one that failed for good"
                outcome = data.draw(st.sampled_from(["sent", "sent", "sent", "again", "never"]))
                if outcome == "sent":
                    log.append(position)
                    reply["Successful"].append({"Id": entry["Id"], "MessageId": str(position)})
                else:
                    fault = {"Id": entry["Id"], "Code": "X", "SenderFault": outcome == "never"}
                    reply["Failed"].append(fault)
            for fault in reply["Failed"]:
                if fault["SenderFault"]:
                    lost_for_good.add(int(fault["Id"]))
            return reply

        queue = QueueCalls(
            "https://sqs/1/q.fifo",
            capabilities=FIFO,
            clock=lambda: 0.0,
            jitter=lambda: 0.0,
            new_id=lambda: "i",
        )
        flow = queue.publish_batch(grouped(*groups), attempts=ours)
        results = drive(flow, send=send, sleep=lambda _: None)
        for group in "abc":
            order = [position for position in log if groups[position] == group]
            assert order == sorted(set(order))
        assert [n for n, result in enumerate(results) if result.message_id] == sorted(log)
        assert len(results) == len(groups)
        assert all((result.message_id is None) != (result.error is None) for result in results)
        assert max(tries.values(), default=0) <= 3
