"""Making a queue, or finding the one that is there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from jobq.core import BackendError, ConfigurationError, QueueNotFoundError
from jobq.sqs.common.calls import Flow
from jobq.sqs.common.creating import Wanted, create

if TYPE_CHECKING:
    from conftest import Script

MISSING = QueueNotFoundError("none")
REFUSED = BackendError("connection refused", retryable=True, code="EndpointConnectionError")
URL = {"QueueUrl": "https://sqs/1/orders"}


def wanted(**options: Any) -> Wanted:
    given: dict[str, Any] = {
        "name": "orders.fifo" if options.get("fifo") else "orders",
        "fifo": False,
        "visibility_timeout": None,
        "dead_letter_queue": None,
        "max_receive_count": None,
        "attributes": {},
        **options,
    }
    return Wanted(**given)


def making(script: Script, **options: Any) -> Flow[str]:
    return create(wanted(**options), clock=lambda: script.now)


def test_an_existing_queue_is_returned_as_it_is(script: Script) -> None:
    assert script.run(making(script, visibility_timeout=60), [URL]) == URL["QueueUrl"]
    assert script.operations == ["get_queue_url"]


def test_a_new_one_is_made_as_wanted(script: Script) -> None:
    flow = making(
        script,
        fifo=True,
        visibility_timeout=59.5,
        dead_letter_queue="arn:aws:sqs:eu-west-1:1:dead.fifo",
        max_receive_count=3,
        attributes={"KmsMasterKeyId": "alias/key"},
    )
    script.run(flow, [MISSING, URL])
    attributes = script.calls[1].arguments["Attributes"]
    policy = json.loads(attributes.pop("RedrivePolicy"))
    assert policy == {
        "deadLetterTargetArn": "arn:aws:sqs:eu-west-1:1:dead.fifo",
        "maxReceiveCount": 3,
    }
    assert attributes == {
        "FifoQueue": "true",
        "VisibilityTimeout": "60",
        "KmsMasterKeyId": "alias/key",
    }


def test_a_dead_letter_queue_is_found_by_its_name(script: Script) -> None:
    flow = making(script, dead_letter_queue="dead", max_receive_count=3)
    settings = {"VisibilityTimeout": "30", "QueueArn": "arn:aws:sqs:r:1:dead"}
    script.run(flow, [MISSING, {"QueueUrl": "https://sqs/1/dead"}, {"Attributes": settings}, URL])
    assert "arn:aws:sqs:r:1:dead" in script.calls[-1].arguments["Attributes"]["RedrivePolicy"]


def test_one_that_somebody_else_made_meanwhile_is_taken(script: Script) -> None:
    taken = BackendError("other attributes", code="QueueAlreadyExists")
    assert script.run(making(script), [MISSING, taken, URL]) == URL["QueueUrl"]


def test_an_endpoint_that_starts_up_is_waited_for(script: Script) -> None:
    assert script.run(making(script), [REFUSED] * 5 + [MISSING, URL]) == URL["QueueUrl"]
    assert script.pauses == [0.5] * 5


def test_for_30_seconds(script: Script) -> None:
    with pytest.raises(BackendError, match="no success in 30 s: connection refused") as raised:
        script.run(making(script), [REFUSED] * 61)
    assert raised.value.retryable
    assert raised.value.__cause__ is REFUSED
    assert script.now == pytest.approx(1030)


def test_what_no_waiting_cures_is_raised_at_once(script: Script) -> None:
    denied = BackendError("no", denied=True)
    with pytest.raises(BackendError) as raised:
        script.run(making(script), [denied])
    assert raised.value is denied


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"visibility_timeout": 43_201}, "43201"),
        ({"dead_letter_queue": "dead"}, "'dead'.*None.*both or neither"),
        ({"max_receive_count": 3}, "None.*3.*both or neither"),
        ({"max_receive_count": 0, "dead_letter_queue": "dead"}, "'orders'.*1 to 1000, not 0"),
        ({"max_receive_count": 3, "dead_letter_queue": "arn:aws:sqs:r:1:d.fifo"}, "another kind"),
        ({"max_receive_count": 3, "dead_letter_queue": "dead", "fifo": True}, "another kind"),
    ],
)
def test_what_cannot_be_wanted_is_refused_before_any_call(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text):
        wanted(**options)
