"""What is sent is what is received."""

from __future__ import annotations

import pytest

from jobq.core.errors import InvalidMessageError
from jobq.core.message import Attribute
from jobq.core.testing.conformance.bench import Bench, bodies
from jobq.core.testing.conformance.chapter import Chapter

# Both ends of every range that SQS takes, and a sample of what is between.
ALLOWED = "\t\n\r" + "".join(
    chr(point)
    for first, last in ((0x20, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x10FFFF))
    for point in sorted({*range(first, last + 1, 997), *range(first, first + 256), last})
)


class Sending(Chapter):
    """Publishing one message or many."""

    def test_a_message_arrives_as_it_was_sent(self, bench: Bench) -> None:
        queue = bench.make_queue()
        message = bench.message("a body")
        message_id = queue.publish(message)
        lease = bench.receive_one(queue)
        assert lease.body == "a body"
        assert lease.message_id == message_id
        assert lease.attributes == {}
        assert lease.receive_count == 1
        assert lease.group_id == message.group_id
        assert lease.sent_at == pytest.approx(bench.timeline.unix_time(), abs=30)

    @pytest.mark.parametrize(
        "value",
        [
            pytest.param("text with ünïcode 🐝", id="str"),
            pytest.param(-42, id="int"),
            pytest.param(10**30, id="long int"),
            pytest.param(bytes(range(256)), id="bytes"),
            pytest.param(Attribute("String.json", "{}"), id="labelled str"),
            pytest.param(Attribute("Number.float", "1.50"), id="labelled number"),
            pytest.param(Attribute("Binary.png", b"\x89PNG"), id="labelled bytes"),
            pytest.param(Attribute("Number", "1.50"), id="number that is no int"),
            pytest.param(Attribute("Number", "007"), id="number that str(int()) changes"),
        ],
    )
    def test_an_attribute_comes_back_in_its_type(
        self, bench: Bench, value: str | int | bytes | Attribute
    ) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message(attributes={"given": value}))
        assert bench.receive_one(queue).attributes == {"given": value}

    def test_an_attribute_of_a_plain_type_comes_back_as_the_plain_value(self, bench: Bench) -> None:
        queue = bench.make_queue()
        spelled_out = {"s": Attribute("String", "x"), "n": Attribute("Number", "7")}
        queue.publish(bench.message(attributes={**spelled_out, "b": Attribute("Binary", b"\0")}))
        assert bench.receive_one(queue).attributes == {"s": "x", "n": 7, "b": b"\0"}

    def test_ten_attributes_travel_together(self, bench: Bench) -> None:
        queue = bench.make_queue()
        attributes = {f"name-{number}": number for number in range(10)}
        queue.publish(bench.message(attributes=attributes))
        assert bench.receive_one(queue).attributes == attributes

    @pytest.mark.parametrize(
        "body",
        [
            pytest.param('{"who": "Zoë 🐝", "tab": "\t", "line": "\r\n"}', id="emoji and controls"),
            pytest.param(ALLOWED, id="every range of characters"),
            pytest.param(" \n leading and trailing \n ", id="white space around"),
        ],
    )
    def test_a_body_is_not_touched(self, bench: Bench, body: str) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message(body))
        assert bench.receive_one(queue).body == body

    def test_a_message_of_exactly_the_largest_size_is_taken(self, bench: Bench) -> None:
        queue = bench.make_queue()
        attributes_bytes = len("name") + len("String") + len("value")
        body = "x" * (queue.capabilities.largest_message - attributes_bytes)
        queue.publish(bench.message(body, attributes={"name": "value"}))
        assert len(bench.receive_one(queue).body) == len(body)

    def test_a_batch_of_25_gets_a_result_for_each_position(self, bench: Bench) -> None:
        queue = bench.make_queue()
        results = queue.publish_batch(bench.messages(25))
        assert [result.error for result in results] == [None] * 25
        leases = bench.receive(queue, 25)
        sent = {str(position): result.message_id for position, result in enumerate(results)}
        assert {lease.body: lease.message_id for lease in leases} == sent

    def test_a_bad_message_in_a_batch_fails_at_its_position_alone(self, bench: Bench) -> None:
        queue = bench.make_queue()
        messages = bench.messages(12)
        messages[3] = bench.message("")
        messages[10] = bench.message("\x00")
        results = queue.publish_batch(messages)
        assert [n for n, result in enumerate(results) if result.error] == [3, 10]
        assert isinstance(results[3].error, InvalidMessageError)
        assert isinstance(results[10].error, InvalidMessageError)
        assert [n for n, result in enumerate(results) if result.message_id is None] == [3, 10]
        sent = [str(number) for number in range(12) if number not in {3, 10}]
        assert sorted(bodies(bench.receive(queue, 10)), key=int) == sent

    def test_an_empty_batch_sends_nothing(self, bench: Bench) -> None:
        queue = bench.make_queue()
        assert queue.publish_batch([]) == []
        assert queue.claim() is None
