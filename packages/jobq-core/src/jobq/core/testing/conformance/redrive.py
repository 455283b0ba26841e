"""What happens to a message that was received too often."""

from __future__ import annotations

import pytest

from jobq.core.interfaces.queue import Queue
from jobq.core.testing.conformance.bench import Bench, succeeded
from jobq.core.testing.conformance.chapter import Chapter


def _with_dead_letters(bench: Bench, receives: int) -> tuple[Queue, Queue]:
    dead = bench.make_queue()
    return bench.make_queue(dead_letter_queue=dead, max_receive_count=receives), dead


class DeadLetters(Chapter):
    """The redrive policy, and the way back."""

    def test_the_receive_that_would_be_one_too_many_moves_the_message(self, bench: Bench) -> None:
        queue, dead = _with_dead_letters(bench, 2)
        sent = bench.message("poison", attributes={"kept": 1})
        message_id = queue.publish(sent)
        for count in (1, 2):
            lease = bench.receive_one(queue)
            assert lease.receive_count == count
            queue.nack(lease)
        assert dead.claim() is None
        assert queue.claim() is None
        moved = bench.receive_one(dead)
        assert (moved.message_id, moved.body) == (message_id, "poison")
        assert moved.attributes == {"kept": 1}
        assert moved.group_id == sent.group_id
        dead.ack(moved)
        assert queue.claim() is None

    def test_a_receive_goes_on_to_what_is_behind_a_dead_letter(self, bench: Bench) -> None:
        queue, dead = _with_dead_letters(bench, 1)
        queue.publish(bench.message("poison", group_id="g" if bench.fifo else None))
        queue.nack(bench.receive_one(queue))
        queue.publish(bench.message("next", group_id="g" if bench.fifo else None))
        assert bench.receive_one(queue).body == "next"
        assert bench.receive_one(dead).body == "poison"

    def test_a_queue_names_its_dead_letter_queue(self, bench: Bench) -> None:
        queue, dead = _with_dead_letters(bench, 3)
        assert queue.describe().max_receive_count == 3
        assert queue.describe().dead_letter_queue
        dead.publish(bench.message("found"))
        assert bench.receive_one(succeeded(queue.dead_letter_queue())).body == "found"
        assert dead.dead_letter_queue() is None
        assert dead.describe().dead_letter_queue is None

    def test_dead_letters_can_be_moved_back(self, bench: Bench) -> None:
        queue, dead = _with_dead_letters(bench, 1)
        if dead.operations is None:
            pytest.skip("this backend offers no operations")
        queue.publish(bench.message("again"))
        queue.nack(bench.receive_one(queue))
        assert queue.claim() is None
        task = dead.operations.move_messages()
        bench.settles_at("completed", lambda: succeeded(dead.operations).move_progress(task).status)
        lease = bench.receive_one(queue)
        assert (lease.body, lease.receive_count) == ("again", 1)
