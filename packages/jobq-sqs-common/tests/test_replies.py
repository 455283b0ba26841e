"""Batch replies that name what nobody asked for."""

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
