"""Who receives a message, and when again."""

from __future__ import annotations

import threading

import pytest

from jobq.core.message import Lease, QueueInfo, QueueStats
from jobq.core.testing.conformance.bench import Bench, bodies
from jobq.core.testing.conformance.chapter import Chapter


class Receiving(Chapter):
    """Claims, receipts and receive counts."""

    def test_an_empty_queue_gives_nothing(self, bench: Bench) -> None:
        queue = bench.make_queue()
        assert queue.claim() is None
        assert queue.claim_batch(10) == []

    def test_a_message_in_flight_is_not_received_again(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        bench.receive_one(queue)
        assert queue.claim() is None

    def test_a_receive_returns_no_more_than_it_was_asked_for(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 5)
        assert 1 <= len(queue.claim_batch(3, wait=bench.timeline.poll_seconds)) <= 3

    def test_more_than_ten_may_be_asked_for(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 25)
        leases = queue.claim_batch(25, wait=bench.timeline.poll_seconds)
        assert 1 <= len(leases) <= 25
        assert len(set(bodies(leases))) == len(leases)

    def test_every_receive_has_its_own_receipt_and_is_counted(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        leases: list[Lease] = []
        for _ in range(3):
            leases.append(bench.receive_one(queue))
            queue.nack(leases[-1])
        assert [lease.receive_count for lease in leases] == [1, 2, 3]
        assert len({lease.receipt for lease in leases}) == 3
        assert len({lease.message_id for lease in leases}) == 1

    def test_a_message_comes_back_when_its_visibility_timeout_ends(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        first = bench.receive_one(queue, visibility=1)
        assert queue.claim() is None
        bench.timeline.sleep(1.2)
        again = bench.receive_one(queue)
        assert again.message_id == first.message_id
        assert again.receive_count == 2
        assert again.receipt != first.receipt

    def test_without_a_visibility_the_queue_s_own_counts(self, bench: Bench) -> None:
        queue = bench.make_queue(visibility_timeout=2)
        queue.publish(bench.message())
        lease = bench.receive_one(queue)
        assert lease.expires_at == pytest.approx(bench.timeline.now() + 2, abs=1)
        assert queue.claim() is None
        bench.timeline.sleep(2.2)
        assert bench.receive_one(queue).receive_count == 2

    def test_a_visibility_between_two_seconds_is_rounded_up(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        bench.receive_one(queue, visibility=0.1)
        bench.timeline.sleep(0.5)
        assert queue.claim() is None

    def test_a_lease_says_when_it_ends(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        lease = bench.receive_one(queue, visibility=60)
        assert lease.expires_at == pytest.approx(bench.timeline.now() + 60, abs=2)

    def test_four_threads_get_each_message_once(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 40)
        taken: list[str] = []

        def work() -> None:
            while len(taken) < 40 and (lease := queue.claim(wait=bench.timeline.poll_seconds)):
                taken.append(lease.body)
                queue.ack(lease)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert sorted(taken, key=int) == [str(number) for number in range(40)]

    def test_the_statistics_tell_waiting_from_in_flight(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 3)
        bench.receive_one(queue)
        expected = QueueStats(waiting=2, in_flight=1, delayed=0)
        bench.settles_at(expected, queue.stats)

    def test_a_queue_describes_itself(self, bench: Bench) -> None:
        queue = bench.make_queue(visibility_timeout=45)
        assert queue.describe() == QueueInfo(
            visibility_timeout=45, fifo=bench.fifo, max_message_bytes=1_048_576
        )
        assert queue.capabilities.ordered == bench.fifo
        assert queue.capabilities.delays != bench.fifo
        assert not queue.capabilities.priorities
        assert queue.capabilities.largest_batch == 10
        assert queue.capabilities.longest_visibility == 43_200

    def test_a_queue_may_be_closed_twice(self, bench: Bench) -> None:
        with bench.make_queue() as queue:
            queue.publish(bench.message())
            queue.close()
        queue.close()

    def test_a_purge_deletes_all_messages_in_flight_ones_included(self, bench: Bench) -> None:
        queue = bench.make_queue()
        if queue.operations is None:
            pytest.skip("this backend offers no operations")
        bench.send(queue, 3)
        bench.receive_one(queue, visibility=1)
        queue.operations.purge()
        bench.timeline.sleep(1.2)
        assert queue.claim_batch(10) == []
