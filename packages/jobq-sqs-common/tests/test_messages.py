"""Messages out and back: what is sent comes back as what it was."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobq.core import Attribute, Message
from jobq.core.message import AttributeValue
from jobq.sqs.common import messages, requests

text = st.text(
    st.characters(
        codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"
    ),
    min_size=1,
    max_size=30,
)
values: st.SearchStrategy[AttributeValue] = st.one_of(
    text,
    st.integers(-(10**37), 10**37),
    st.binary(min_size=1, max_size=30),
    st.builds(Attribute, st.just("String.json"), text),
    st.builds(Attribute, st.just("Number"), st.sampled_from(["1.50", "007", "-0", "1e3", "+5"])),
    st.builds(Attribute, st.just("Binary.png"), st.binary(min_size=1, max_size=30)),
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,30}", fullmatch=True)


def received(entry: dict[str, Any]) -> dict[str, Any]:
    """The reply that brings what an entry sent."""
    message = {
        "MessageId": "m",
        "ReceiptHandle": "r",
        "Body": entry["MessageBody"],
        "Attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1"},
        "MessageAttributes": entry.get("MessageAttributes", {}),
    }
    return {"Messages": [message]}


@given(text, st.dictionaries(names, values, max_size=10))
def test_a_message_comes_back_as_it_was(body: str, attributes: dict[str, AttributeValue]) -> None:
    message = Message(body, attributes=attributes)
    entry, _ = requests.entry_of(message, fifo=False, new_id="")
    call = requests.receive("q", max_messages=1, visibility=30, wait=0, attempt_id=None)
    [lease], _ = messages.read(received(entry), call, expires_at=0)
    assert lease.body == body
    assert lease.attributes == attributes
    assert {k: type(v) for k, v in lease.attributes.items()} == {
        k: type(v) for k, v in attributes.items()
    }


@given(text, st.dictionaries(names, values, max_size=10))
def test_attributes_count_with_name_type_and_value(
    body: str, attributes: dict[str, AttributeValue]
) -> None:
    entry, size = requests.entry_of(Message(body, attributes=attributes), fifo=False, new_id="")
    spelled: dict[str, dict[str, Any]] = entry.get("MessageAttributes", {})
    expected = len(body.encode())
    for name, value in spelled.items():
        content = value.get("BinaryValue") or value["StringValue"].encode()
        expected += len(name) + len(value["DataType"]) + len(content)
    assert size == expected
