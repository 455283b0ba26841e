"""What an operator does with queues in memory."""

from __future__ import annotations

import pytest

from jobq.core import BackendError, ConfigurationError, Message, QueueNotFoundError
from jobq.core.memory import ManualClock, MemoryQueue


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def dead(clock: ManualClock) -> MemoryQueue:
    return MemoryQueue("dead", clock=clock)


@pytest.fixture
def queue(dead: MemoryQueue) -> MemoryQueue:
    return MemoryQueue("jobs", dead_letter_queue=dead, max_receive_count=1)


def kill(queue: MemoryQueue, body: str) -> str:
    """Send a message and have it dead-lettered."""
    message_id = queue.publish(Message(body, attributes={"kept": b"\0"}))
    lease = queue.claim()
    assert lease
    queue.nack(lease)
    assert queue.claim() is None
    return message_id


def test_a_dead_letter_keeps_its_id_and_the_time_it_was_sent(
    queue: MemoryQueue, dead: MemoryQueue, clock: ManualClock
) -> None:
    sent_at = clock.unix_time()
    message_id = queue.publish(Message("poison"))
    assert queue.claim(visibility=100)
    clock.advance(100)
    assert queue.claim() is None
    lease = dead.claim()
    assert lease
    assert (lease.message_id, lease.sent_at) == (message_id, sent_at)


def test_each_message_goes_back_to_the_queue_it_came_from(
    queue: MemoryQueue, dead: MemoryQueue
) -> None:
    other = MemoryQueue("others", dead_letter_queue=dead, max_receive_count=1)
    kill(queue, "one")
    kill(other, "two")
    task = dead.operations.move_messages()
    progress = dead.operations.move_progress(task)
    assert (progress.status, progress.moved, progress.total) == ("completed", 2, 2)
    assert [lease.body for lease in queue.claim_batch(10)] == ["one"]
    assert [lease.body for lease in other.claim_batch(10)] == ["two"]
    assert dead.claim() is None


def test_a_moved_message_counts_as_new(
    queue: MemoryQueue, dead: MemoryQueue, clock: ManualClock
) -> None:
    message_id = kill(queue, "again")
    clock.advance(50)
    dead.operations.move_messages()
    lease = queue.claim()
    assert lease
    assert lease.message_id != message_id
    assert (lease.receive_count, lease.sent_at) == (1, clock.unix_time())
    assert lease.attributes == {"kept": b"\0"}


def test_messages_can_be_moved_elsewhere(queue: MemoryQueue, dead: MemoryQueue) -> None:
    target = MemoryQueue("archive", server=dead.server)
    kill(queue, "old")
    dead.operations.move_messages(destination="arn:aws:sqs:eu-west-1:123:archive")
    assert target.claim()
    assert queue.claim() is None


def test_a_move_leaves_what_is_in_flight_and_what_came_from_nowhere(
    queue: MemoryQueue, dead: MemoryQueue
) -> None:
    kill(queue, "held")
    dead.publish(Message("sent here"))
    held = dead.claim()
    assert held
    assert held.body == "held"
    task = dead.operations.move_messages()
    assert dead.operations.move_progress(task).moved == 0
    assert dead.stats().waiting == dead.stats().in_flight == 1


def test_a_move_needs_a_dead_letter_queue_and_a_target_of_its_kind(
    queue: MemoryQueue, dead: MemoryQueue
) -> None:
    MemoryQueue("ledger.fifo", server=dead.server)
    with pytest.raises(ConfigurationError, match="'jobs' is no queue's dead-letter queue"):
        queue.operations.move_messages()
    with pytest.raises(ConfigurationError, match=r"'ledger\.fifo'"):
        dead.operations.move_messages(destination="ledger.fifo")
    with pytest.raises(QueueNotFoundError, match="'nowhere'"):
        dead.operations.move_messages(destination="nowhere")


def test_a_move_that_is_over_is_not_cancelled(queue: MemoryQueue, dead: MemoryQueue) -> None:
    kill(queue, "again")
    task = dead.operations.move_messages()
    assert dead.operations.cancel_move(task).status == "completed"


def test_an_unknown_move_is_named(queue: MemoryQueue, dead: MemoryQueue) -> None:
    with pytest.raises(BackendError, match="'no such task'"):
        dead.operations.move_progress("no such task")


def test_a_purge_forgets_messages_in_every_state(queue: MemoryQueue) -> None:
    for delay in (0, 0, 60):
        queue.publish(Message("gone", delay_seconds=delay))
    assert queue.claim()
    queue.operations.purge()
    stats = queue.stats()
    assert (stats.waiting, stats.in_flight, stats.delayed) == (0, 0, 0)


def test_a_queue_without_a_redrive_policy_is_found(queue: MemoryQueue, dead: MemoryQueue) -> None:
    assert [f.severity for f in queue.operations.diagnose()] == ["ok"]
    assert [f.severity for f in dead.operations.diagnose()] == ["ok"]
    [finding] = MemoryQueue("alone").operations.diagnose()
    assert (finding.severity, finding.subject) == ("warning", "alone")
    assert "max_receive_count" in finding.remedy
