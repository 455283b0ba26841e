"""What only standard queues offer."""

from __future__ import annotations

from jobq.core.message import QueueStats
from jobq.core.testing.conformance.bench import Bench, bodies, succeeded
from jobq.core.testing.conformance.chapter import Chapter


class Unordered(Chapter):
    """Delays, fair queues, and receipts that are let pass."""

    def test_a_delayed_message_is_invisible_until_its_delay_ends(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message("later", delay_seconds=0.5))
        bench.timeline.sleep(0.6)
        assert queue.claim() is None
        bench.timeline.sleep(0.6)
        assert bench.receive_one(queue).receive_count == 1

    def test_a_delayed_message_is_counted_as_such(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message(delay_seconds=900))
        bench.settles_at(QueueStats(waiting=0, in_flight=0, delayed=1), queue.stats)

    def test_a_long_poll_wakes_when_a_delay_ends(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message("later", delay_seconds=1))
        poll = bench.poll(queue, wait=5)
        bench.timeline.sleep(1)
        assert succeeded(poll.result()).body == "later"

    def test_a_group_id_is_passed_on_and_locks_nothing(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 2, group_id="tenant-1")
        leases = [bench.receive_one(queue), bench.receive_one(queue)]
        assert sorted(bodies(leases)) == ["0", "1"]
        assert {lease.group_id for lease in leases} == {"tenant-1"}

    def test_acknowledging_with_an_older_receipt_is_let_pass(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        old = bench.receive_one(queue)
        queue.nack(old)
        bench.receive_one(queue)
        queue.ack(old)
