"""What the in-memory queue does beyond what every backend does."""

from __future__ import annotations

import threading
from collections import defaultdict

import pytest

from jobq.core import LeaseLostError, Message, UnsupportedFeatureError
from jobq.core.memory import ManualClock, MemoryQueue


def test_a_standard_queue_gives_the_oldest_first() -> None:
    queue = MemoryQueue()
    for number in range(30):
        queue.publish(Message(str(number)))
    assert [lease.body for lease in queue.claim_batch(30)] == [str(n) for n in range(30)]


def test_a_large_claim_takes_ten_of_a_group_at_most() -> None:
    queue = MemoryQueue("ledger.fifo")
    for number in range(12):
        queue.publish(Message(str(number), group_id="g"))
    assert len(queue.claim_batch(25)) == 10


def test_a_receive_is_filled_up_from_behind_a_dead_letter() -> None:
    dead = MemoryQueue("dead.fifo")
    queue = MemoryQueue("ledger.fifo", dead_letter_queue=dead, max_receive_count=1)
    for number in range(3):
        queue.publish(Message(str(number), group_id="g"))
    assert queue.claim(visibility=0)
    assert [lease.body for lease in queue.claim_batch(2)] == ["1", "2"]
    assert dead.stats().waiting == 1


def test_a_priority_is_refused_before_anything_else_is_looked_at() -> None:
    queue = MemoryQueue("ledger.fifo")
    with pytest.raises(UnsupportedFeatureError, match="priority is 1"):
        queue.publish(Message("", priority=1, delay_seconds=-1))


def test_an_older_receipt_deletes_nothing_on_a_standard_queue() -> None:
    queue = MemoryQueue()
    queue.publish(Message("kept"))
    old = queue.claim()
    assert old
    queue.nack(old)
    new = queue.claim()
    assert new
    queue.ack(old)
    assert queue.stats().in_flight == 1
    queue.ack(new)
    assert queue.stats().in_flight == 0


def test_a_standard_message_can_be_deleted_after_its_lease_ran_out() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock=clock)
    queue.publish(Message("late"))
    lease = queue.claim(visibility=10)
    assert lease
    clock.advance(10)
    queue.ack(lease)
    assert queue.claim() is None


def test_the_12_hours_are_counted_from_the_latest_receive() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock=clock)
    queue.publish(Message("again"))
    assert queue.claim(visibility=3600)
    clock.advance(3600)
    lease = queue.claim(visibility=3600)
    assert lease
    assert queue.extend(lease, 43_200).expires_at == clock.now() + 43_200


def test_a_lost_lease_carries_sqs_s_word_for_it() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock=clock)
    queue.publish(Message("late"))
    old = queue.claim(visibility=10)
    assert old
    clock.advance(10)
    with pytest.raises(LeaseLostError) as raised:
        queue.extend(old, 10)
    assert raised.value.code == "MessageNotInflight"
    assert queue.claim()
    with pytest.raises(LeaseLostError) as raised:
        queue.extend(old, 10)
    assert raised.value.code == "ReceiptHandleIsInvalid"
    assert not raised.value.retryable


def test_a_receipt_of_another_queue_is_refused() -> None:
    one, other = MemoryQueue("one"), MemoryQueue("other")
    one.publish(Message("mine"))
    lease = one.claim()
    assert lease
    with pytest.raises(LeaseLostError, match="'other'"):
        other.ack(lease)


def test_a_duplicate_is_checked_like_any_other_message() -> None:
    queue = MemoryQueue("ledger.fifo")
    queue.publish(Message("once", group_id="g", deduplication_id="d"))
    [result] = queue.publish_batch([Message("", group_id="g", deduplication_id="d")])
    assert result.error


def test_a_purge_does_not_forget_deduplication_ids() -> None:
    queue = MemoryQueue("ledger.fifo")
    queue.publish(Message("once", group_id="g", deduplication_id="d"))
    queue.operations.purge()
    queue.publish(Message("once", group_id="g", deduplication_id="d"))
    assert queue.claim() is None


def test_a_lease_s_attributes_are_its_own() -> None:
    queue = MemoryQueue()
    attributes = {"n": 1}
    queue.publish(Message("x", attributes=attributes))
    attributes["n"] = 2
    first = queue.claim()
    assert first
    assert first.attributes == {"n": 1}
    queue.nack(first)
    second = queue.claim()
    assert second
    assert second.attributes is not first.attributes


def test_groups_stay_in_order_under_many_threads() -> None:
    queue = MemoryQueue("ledger.fifo")
    handled: dict[str, list[int]] = defaultdict(list)
    running: set[str] = set()
    overlaps: list[str] = []

    def produce(group: str) -> None:
        for number in range(50):
            queue.publish(Message(str(number), group_id=group))

    def consume() -> None:
        while lease := queue.claim(wait=1):
            group = lease.group_id or ""
            if group in running:
                overlaps.append(group)
            running.add(group)
            handled[group].append(int(lease.body))
            running.remove(group)
            queue.ack(lease)

    threads = [threading.Thread(target=produce, args=(group,)) for group in "ABCD"]
    threads += [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert handled == {group: list(range(50)) for group in "ABCD"}
    assert overlaps == []


def test_a_deep_backlog_is_served_as_fast_as_a_short_one() -> None:
    """5,000 claims take about as long per claim at any depth; a scan of all would take minutes."""
    queue = MemoryQueue("ledger.fifo")
    for number in range(5000):
        queue.publish(Message("x", group_id=f"g{number % 1000}"))
    seen = 0
    while leases := queue.claim_batch(10):
        seen += len(leases)
        queue.ack_batch(leases)
    assert seen == 5000
