"""Replies that no SQS would give."""

from typing import Any

import pytest

from jobq.core import BackendError
from jobq.sqs.common import replies
from jobq.sqs.common.calls import Call

CALL = Call("delete_message_batch", {"QueueUrl": "q", "Entries": [{"Id": "0"}, {"Id": "1"}]})


@pytest.mark.parametrize("stranger", ["99", "abc"])
@pytest.mark.parametrize("part", ["Successful", "Failed"])
def test_an_unknown_id_takes_no_entrys_place(part: str, stranger: str) -> None:
    reply = {"Successful": [{"Id": "0"}]}
    reply[part] = [*reply.get(part, []), {"Id": stranger}]
    found = replies.errors(reply, CALL)
    assert found.pop(0) is None
    assert list(found) == [1]
    assert isinstance(found[1], BackendError)
    assert found[1].retryable


@pytest.mark.parametrize("entry", [None, {}, {"Id": 1}, {"Id": None}])
@pytest.mark.parametrize("part", ["Successful", "Failed"])
def test_an_entry_without_an_id_answers_none_of_ours(part: str, entry: Any) -> None:
    reply = {"Successful": [{"Id": "0"}]}
    reply[part] = [*reply.get(part, []), entry]
    found = replies.errors(reply, CALL)
    assert found.pop(0) is None
    assert list(found) == [1]
    assert replies.message_ids(reply) == {}


@pytest.mark.parametrize(
    "change",
    [
        {"VisibilityTimeout": "soon"},
        {"VisibilityTimeout": None},
        {"MaximumMessageSize": "-1"},
        {"ApproximateNumberOfMessages": "NaN"},
        {"RedrivePolicy": "{"},
        {"RedrivePolicy": "[]"},
        {"RedrivePolicy": '{"maxReceiveCount": "three"}'},
    ],
    ids=str,
)
def test_settings_that_can_not_be_read_are_no_queue_s(change: dict[str, Any]) -> None:
    call = Call("get_queue_attributes", {"QueueUrl": "q"})
    with pytest.raises(BackendError, match=next(iter(change))) as raised:
        replies.settings({"Attributes": {"VisibilityTimeout": "30", **change}}, call)
    assert raised.value.retryable
