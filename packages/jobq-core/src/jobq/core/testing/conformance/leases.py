"""Keeping a message, giving it back, and losing it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobq.core.errors import BackendError, LeaseLostError
from jobq.core.testing.conformance.bench import Bench, bodies, succeeded
from jobq.core.testing.conformance.chapter import Chapter


class Leases(Chapter):
    """Extending, giving back, and receipts that are no longer good."""

    def test_an_extended_message_stays_invisible(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        lease = bench.receive_one(queue, visibility=1)
        queue.extend(lease, 30)
        bench.timeline.sleep(1.5)
        assert queue.claim() is None

    def test_extending_returns_the_lease_with_its_new_end(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message(attributes={"kept": 1}))
        lease = bench.receive_one(queue, visibility=5)
        extended = queue.extend(lease, 100.5)
        assert extended.expires_at == pytest.approx(bench.timeline.now() + 101, abs=2)
        assert replace(extended, expires_at=lease.expires_at) == lease

    def test_a_batch_is_extended_position_by_position(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 12)
        leases = bench.receive(queue, 12)
        queue.ack(leases[4])
        results = queue.extend_batch(leases, 60)
        assert [n for n, result in enumerate(results) if result.error] == [4]
        assert isinstance(results[4].error, LeaseLostError)
        assert results[4].lease is None
        good = [succeeded(result.lease) for n, result in enumerate(results) if n != 4]
        assert bodies(good) == bodies(leases[:4] + leases[5:])
        ends = [lease.expires_at for lease in good]
        assert ends == pytest.approx([bench.timeline.now() + 60] * 11, abs=3)

    def test_a_message_given_back_is_received_at_once(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        queue.nack(bench.receive_one(queue))
        assert bench.receive_one(queue).receive_count == 2

    def test_a_message_given_back_with_a_delay_stays_invisible_for_it(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        queue.nack(bench.receive_one(queue), delay=0.5)
        assert queue.claim() is None
        bench.timeline.sleep(1.2)
        assert bench.receive_one(queue).receive_count == 2

    def test_a_batch_is_given_back_position_by_position(self, bench: Bench) -> None:
        queue = bench.make_queue()
        bench.send(queue, 12)
        leases = bench.receive(queue, 12)
        queue.ack(leases[10])
        results = queue.nack_batch(leases)
        assert [n for n, result in enumerate(results) if result.error] == [10]
        assert isinstance(results[10].error, LeaseLostError)
        again = bench.receive(queue, 11)
        assert sorted(bodies(again)) == sorted(bodies(leases[:10] + leases[11:]))

    def test_a_deleted_message_can_be_neither_extended_nor_given_back(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        lease = bench.receive_one(queue)
        queue.ack(lease)
        with pytest.raises(LeaseLostError):
            queue.extend(lease, 30)
        with pytest.raises(LeaseLostError):
            queue.nack(lease)

    def test_a_lease_that_ran_out_can_be_neither_extended_nor_given_back(
        self, bench: Bench
    ) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        lease = bench.receive_one(queue, visibility=1)
        bench.timeline.sleep(1.5)
        with pytest.raises(LeaseLostError):
            queue.extend(lease, 30)
        with pytest.raises(LeaseLostError):
            queue.nack(lease)

    def test_a_message_given_back_can_not_be_extended(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        lease = bench.receive_one(queue)
        queue.nack(lease)
        with pytest.raises(LeaseLostError):
            queue.extend(lease, 30)

    def test_an_older_receipt_holds_nothing(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        old = bench.receive_one(queue)
        queue.nack(old)
        bench.receive_one(queue)
        with pytest.raises(LeaseLostError):
            queue.extend(old, 30)
        with pytest.raises(LeaseLostError):
            queue.nack(old)
        assert queue.claim() is None

    def test_a_receipt_that_never_was_one_is_refused(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message())
        forged = replace(bench.receive_one(queue), receipt="no receipt of any queue")
        for use in (lambda: queue.extend(forged, 30), lambda: queue.nack(forged)):
            with pytest.raises(LeaseLostError):
                use()
        with pytest.raises(LeaseLostError):
            queue.ack(forged)

    def test_a_lease_ends_12_hours_after_the_receive_at_the_latest(self, bench: Bench) -> None:
        if not bench.timeline.travels:
            pytest.skip("needs 12 hours")
        queue = bench.make_queue()
        queue.publish(bench.message())
        lease = bench.receive_one(queue)
        received = lease.expires_at - 30
        for _ in range(11):
            lease = queue.extend(lease, 4000)
            bench.timeline.sleep(3600)
        lease = queue.extend(lease, 3600)
        assert lease.expires_at == received + 43_200
        with pytest.raises(BackendError, match="12 hours") as raised:
            queue.extend(lease, 3601)
        assert not isinstance(raised.value, LeaseLostError)
        bench.timeline.sleep(3599)
        assert queue.claim() is None
        bench.timeline.sleep(1)
        assert bench.receive_one(queue).receive_count == 2
