"""Deleting messages."""

from __future__ import annotations

from dataclasses import replace

from jobq.core.errors import LeaseLostError
from jobq.core.message import SettleResult
from jobq.core.testing.conformance.bench import Bench
from jobq.core.testing.conformance.chapter import Chapter


class Settling(Chapter):
    """What is acknowledged is gone."""

    def test_an_acknowledged_message_never_comes_back(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        queue.ack(bench.receive_one(queue, visibility=1))
        bench.timeline.sleep(1.2)
        assert queue.claim() is None

    def test_acknowledging_twice_is_success(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        lease = bench.receive_one(queue)
        queue.ack(lease)
        queue.ack(lease)

    def test_a_batch_of_25_is_acknowledged(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 25)
        leases = bench.receive(queue, 25)
        assert queue.ack_batch(leases) == [SettleResult()] * 25
        bench.settles_at(0, lambda: queue.stats().in_flight)

    def test_a_batch_may_hold_what_was_acknowledged_before(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 3)
        leases = bench.receive(queue, 3)
        queue.ack(leases[1])
        assert queue.ack_batch(leases) == [SettleResult()] * 3

    def test_a_batch_is_acknowledged_position_by_position(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 12)
        leases = bench.receive(queue, 12)
        leases[10] = replace(leases[10], receipt="no receipt of any queue")
        results = queue.ack_batch(leases)
        assert [n for n, result in enumerate(results) if result.error] == [10]
        assert isinstance(results[10].error, LeaseLostError)
        bench.settles_at(1, lambda: queue.stats().in_flight)

    def test_an_empty_batch_settles_nothing(self, bench: Bench) -> None:
        queue = bench.make_queue()
        assert queue.ack_batch([]) == []
        assert queue.nack_batch([]) == []
        assert queue.extend_batch([], 30) == []
