"""Deleting, giving back, extending: entry by entry, one try each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jobq.core import BackendError, DelayTooLongError, Lease, LeaseLostError, SettleResult
from jobq.core.limits import STANDARD
from jobq.sqs.common.calls import Call
from jobq.sqs.common.queue_calls import QueueCalls

if TYPE_CHECKING:
    from conftest import Script

DONE = SettleResult()
AGAIN = BackendError("503", retryable=True)


def lease(number: int, *, message_id: str | None = None) -> Lease:
    return Lease(
        message_id=message_id or f"m{number}",
        body="",
        attributes={},
        receipt=f"r{number}",
        receive_count=1,
        sent_at=0,
        expires_at=1030,
    )


def leases(number: int) -> list[Lease]:
    return [lease(n) for n in range(number)]


def failing(**failures: dict[str, Any]) -> Any:
    """Entries by receipt that fail, and what is said of each."""

    def reply(call: Call) -> dict[str, Any]:
        entries = call.arguments["Entries"]
        return {
            "Successful": [{"Id": e["Id"]} for e in entries if e["ReceiptHandle"] not in failures],
            "Failed": [
                {"Id": e["Id"], **failures[e["ReceiptHandle"]]}
                for e in entries
                if e["ReceiptHandle"] in failures
            ],
        }

    return reply


@pytest.fixture
def queue(script: Script) -> QueueCalls:
    return script.queue(capabilities=STANDARD)


def test_l2_one_message_with_two_receipts_goes_in_one_call(
    script: Script, queue: QueueCalls
) -> None:
    twice = [lease(n, message_id="same" if n in {3, 7} else None) for n in range(10)]
    assert script.run(queue.ack_batch(twice), [failing()]) == [DONE] * 10
    [call] = script.calls
    assert [entry["Id"] for entry in call.arguments["Entries"]] == [str(n) for n in range(10)]


def test_l3_25_make_three_calls_and_each_entry_has_its_own_result(
    script: Script, queue: QueueCalls
) -> None:
    reply = failing(
        r11={"Code": "InternalError", "Message": "oops", "SenderFault": False},
        r13={"Code": "ReceiptHandleIsInvalid", "Message": "bad", "SenderFault": True},
        r14={"Code": "InvalidParameterValue", "Message": "odd", "SenderFault": True},
    )
    results = script.run(queue.ack_batch(leases(25)), [reply] * 3)
    assert [n for n, result in enumerate(results) if result.error] == [11, 13, 14]
    internal, lost, odd = (results[n].error for n in (11, 13, 14))
    assert isinstance(internal, BackendError)
    assert internal.retryable
    assert isinstance(lost, LeaseLostError)
    assert isinstance(odd, BackendError)
    assert not odd.retryable
    assert len(script.calls) == 3


def test_a_call_that_failed_is_its_entries_error_and_the_others_are_sent(
    script: Script, queue: QueueCalls
) -> None:
    results = script.run(queue.nack_batch(leases(12), 5), [AGAIN, failing()])
    assert results == [SettleResult(AGAIN)] * 10 + [DONE] * 2
    assert script.calls[0].arguments["Entries"][0]["VisibilityTimeout"] == 5


def test_m7_giving_back_for_over_12_hours_is_refused_before_any_call(
    script: Script, queue: QueueCalls
) -> None:
    for give_back in (
        lambda: queue.nack(lease(1), 43_201),
        lambda: queue.nack_batch([lease(1)], 43_201),
    ):
        with pytest.raises(DelayTooLongError, match=r"43201.*43200"):
            script.run(give_back())
    assert script.calls == []


def test_single_calls_raise(script: Script, queue: QueueCalls) -> None:
    for flow in (
        queue.ack(lease(1)),
        queue.nack(lease(1), 0),
        queue.extend(lease(1), 30),
    ):
        with pytest.raises(BackendError) as raised:
            script.run(flow, [AGAIN])
        assert raised.value is AGAIN


def test_an_extension_is_dated_when_it_was_sent(script: Script, queue: QueueCalls) -> None:
    def slow(call: Call) -> dict[str, Any]:
        script.now += 9
        return failing()(call) if "Entries" in call.arguments else {}

    assert script.run(queue.extend(lease(1), 59.5), [slow]).expires_at == 1000 + 60
    first, *_, last = script.run(queue.extend_batch(leases(11), 60), [slow, slow])
    assert first.lease is not None
    assert last.lease is not None
    assert (first.lease.expires_at, last.lease.expires_at) == (1009 + 60, 1018 + 60)


def test_an_extension_that_failed_has_no_lease(script: Script, queue: QueueCalls) -> None:
    reply = failing(r0={"Code": "AWS.SimpleQueueService.MessageNotInflight", "SenderFault": True})
    lost, kept = script.run(queue.extend_batch(leases(2), 60), [reply])
    assert isinstance(lost.error, LeaseLostError)
    assert lost.lease is None
    assert kept.error is None


def test_no_leases_make_no_call(script: Script, queue: QueueCalls) -> None:
    assert script.run(queue.ack_batch([])) == []
    assert script.run(queue.nack_batch([], 0)) == []
    assert script.run(queue.extend_batch([], 30)) == []
