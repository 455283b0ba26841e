"""Long polls end when there is something, and not before their time when there isn't."""

from __future__ import annotations

from jobq.core.testing.conformance.bench import Bench, succeeded
from jobq.core.testing.conformance.chapter import Chapter


class Waiting(Chapter):
    """`LongPoll.result` gives a poll one real second to wake."""

    def test_a_long_poll_wakes_when_a_message_is_sent(self, bench: Bench) -> None:
        queue = bench.make_queue()
        poll = bench.poll(queue, wait=5)
        queue.publish(bench.message("awaited"))
        assert succeeded(poll.result()).body == "awaited"

    def test_a_long_poll_wakes_when_a_message_is_given_back(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message("awaited"))
        lease = bench.receive_one(queue)
        poll = bench.poll(queue, wait=5)
        queue.nack(lease)
        assert succeeded(poll.result()).body == "awaited"

    def test_a_long_poll_wakes_when_a_visibility_timeout_ends(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message("awaited"))
        bench.receive_one(queue, visibility=2)
        poll = bench.poll(queue, wait=10)
        bench.timeline.sleep(1)
        assert poll.waits
        bench.timeline.sleep(1)
        assert succeeded(poll.result()).receive_count == 2

    def test_a_long_poll_without_a_message_ends_after_its_wait(self, bench: Bench) -> None:
        queue = bench.make_queue()
        poll = bench.poll(queue, wait=1)
        bench.timeline.sleep(0.4)
        assert poll.waits
        bench.timeline.sleep(0.6)
        assert poll.result() is None

    def test_a_long_poll_returns_at_once_what_is_there(self, bench: Bench) -> None:
        queue = bench.make_queue()
        queue.publish(bench.message("there"))
        assert succeeded(queue.claim(wait=20)).body == "there"
