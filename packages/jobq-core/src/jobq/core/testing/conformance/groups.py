"""What only FIFO queues promise."""

from __future__ import annotations

import pytest

from jobq.core.errors import LeaseLostError
from jobq.core.message import Message
from jobq.core.testing.conformance.bench import Bench, bodies, succeeded
from jobq.core.testing.conformance.chapter import Chapter


class Groups(Chapter):
    """Order inside a group, and the lock that keeps it."""

    def test_a_group_is_received_in_the_order_it_was_sent(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 25, group_id="g")
        received: list[str] = []
        while len(received) < 25:
            leases = bench.receive(queue)
            received += bodies(leases)
            queue.ack_batch(leases)
        assert received == [str(number) for number in range(25)]

    def test_one_receive_takes_several_of_a_group_in_order(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 5, group_id="g")
        assert bodies(queue.claim_batch(3, wait=bench.timeline.poll_seconds)) == ["0", "1", "2"]

    def test_a_receive_is_filled_up_from_other_groups(self, bench: Bench) -> None:
        queue = bench.make_queue()
        for body in ("a1", "b1", "a2"):
            queue.publish(Message(body, group_id=body[0]))
        leases = queue.claim_batch(10, wait=bench.timeline.poll_seconds)
        assert sorted(bodies(leases)) == ["a1", "a2", "b1"]
        assert [body for body in bodies(leases) if body[0] == "a"] == ["a1", "a2"]

    def test_a_group_is_locked_while_a_message_of_it_is_in_flight(self, bench: Bench) -> None:
        queue = bench.make_queue()
        for body in ("a1", "a2", "b1"):
            queue.publish(Message(body, group_id=body[0]))
        first = bench.receive_one(queue)
        assert first.body == "a1"
        assert bodies(queue.claim_batch(10)) == ["b1"]
        queue.ack(first)
        assert bench.receive_one(queue).body == "a2"

    def test_a_group_is_locked_until_the_last_in_flight_is_settled(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 3, group_id="g")
        first, second = queue.claim_batch(2, wait=bench.timeline.poll_seconds)
        queue.ack(first)
        assert queue.claim() is None
        queue.ack(second)
        assert bench.receive_one(queue).body == "2"

    def test_giving_back_the_tail_leaves_the_group_locked(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 3, group_id="g")
        leases = queue.claim_batch(3, wait=bench.timeline.poll_seconds)
        assert [result.error for result in queue.nack_batch(leases[1:])] == [None, None]
        assert queue.claim() is None
        queue.ack(leases[0])
        assert bodies(queue.claim_batch(10, wait=bench.timeline.poll_seconds)) == ["1", "2"]

    @pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
    def test_what_is_given_back_comes_back_in_order(self, bench: Bench, order: list[int]) -> None:
        queue = bench.make_queue()
        bench.send(queue, 4, group_id="g")
        leases = queue.claim_batch(3, wait=bench.timeline.poll_seconds)
        for position in order:
            queue.nack(leases[position])
        again = queue.claim_batch(10, wait=bench.timeline.poll_seconds)
        assert bodies(again) == ["0", "1", "2", "3"]
        assert [lease.receive_count for lease in again] == [2, 2, 2, 1]

    def test_a_delay_at_the_head_holds_the_whole_group(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 2, group_id="g")
        queue.nack(bench.receive_one(queue), delay=1)
        assert queue.claim() is None
        bench.timeline.sleep(1.2)
        assert bodies(queue.claim_batch(10, wait=bench.timeline.poll_seconds)) == ["0", "1"]

    def test_a_group_that_ran_out_comes_back_in_order(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 4, group_id="g")
        queue.claim_batch(3, visibility=1, wait=bench.timeline.poll_seconds)
        bench.timeline.sleep(1.2)
        again = queue.claim_batch(10, wait=bench.timeline.poll_seconds)
        assert bodies(again) == ["0", "1", "2", "3"]

    def test_a_long_poll_wakes_when_a_group_unlocks(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 2, group_id="g")
        lease = bench.receive_one(queue)
        poll = bench.poll(queue, wait=5)
        queue.ack(lease)
        assert succeeded(poll.result()).body == "1"

    def test_a_lease_that_ran_out_deletes_nothing(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        lease = bench.receive_one(queue, visibility=1)
        bench.timeline.sleep(1.2)
        with pytest.raises(LeaseLostError):
            queue.ack(lease)
        [result] = queue.ack_batch([lease])
        assert isinstance(result.error, LeaseLostError)
        assert bench.receive_one(queue).receive_count == 2

    def test_an_older_receipt_deletes_nothing(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        old = bench.receive_one(queue)
        queue.nack(old)
        new = bench.receive_one(queue)
        with pytest.raises(LeaseLostError):
            queue.ack(old)
        queue.nack(new)
        assert bench.receive_one(queue).receive_count == 3


class Deduplication(Chapter):
    """Sending twice and having it once, where that is wanted."""

    def test_the_same_deduplication_id_is_one_message(self, bench: Bench) -> None:
        queue = bench.make_queue()
        first = queue.publish(Message("one", group_id="g", deduplication_id="once"))
        second = queue.publish(Message("two", group_id="g", deduplication_id="once"))
        assert first == second
        assert bodies(queue.claim_batch(10, wait=bench.timeline.poll_seconds)) == ["one"]

    def test_a_deduplication_id_counts_for_the_whole_queue(self, bench: Bench) -> None:
        queue = bench.make_queue()
        first = queue.publish(Message("one", group_id="g", deduplication_id="once"))
        other = queue.publish(Message("two", group_id="h", deduplication_id="once"))
        assert first == other

    def test_a_deduplication_id_outlives_its_message(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(Message("one", group_id="g", deduplication_id="once"))
        queue.ack(bench.receive_one(queue))
        queue.publish(Message("two", group_id="g", deduplication_id="once"))
        assert queue.claim() is None

    def test_a_deduplication_id_is_forgotten_after_five_minutes(self, bench: Bench) -> None:
        if not bench.timeline.travels:
            pytest.skip("needs five minutes")
        queue = bench.make_queue()
        first = queue.publish(Message("one", group_id="g", deduplication_id="once"))
        bench.timeline.sleep(299)
        assert queue.publish(Message("two", group_id="g", deduplication_id="once")) == first
        bench.timeline.sleep(1)
        assert queue.publish(Message("two", group_id="g", deduplication_id="once")) != first

    def test_without_an_id_the_same_message_twice_is_two(self, bench: Bench) -> None:
        queue = bench.make_queue()
        message = Message("same", group_id="g")
        ids = {queue.publish(message), queue.publish(message)}
        ids |= {succeeded(r.message_id) for r in queue.publish_batch([message, message])}
        assert len(ids) == 4
        assert bodies(queue.claim_batch(10, wait=bench.timeline.poll_seconds)) == ["same"] * 4
