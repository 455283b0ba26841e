"""Long polls in memory, by a clock that is moved and by real time."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from jobq.core import ConfigurationError, Message
from jobq.core.memory import ManualClock, MemoryQueue


def test_a_manual_clock_only_goes_forward() -> None:
    with pytest.raises(ConfigurationError, match="-1"):
        ManualClock().advance(-1)


def test_both_readings_of_a_manual_clock_advance_together() -> None:
    clock = ManualClock(now=5, unix_time=1000)
    clock.advance(2.5)
    assert (clock.now(), clock.unix_time()) == (7.5, 1002.5)


def test_a_poll_waits_for_the_clock_and_not_for_real_time() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock=clock)
    with ThreadPoolExecutor() as pool:
        poll = pool.submit(queue.claim, wait=1)
        assert clock.until_waiting()
        clock.advance(0.9)
        assert not poll.done()
        clock.advance(0.1)
        assert poll.result(2) is None
    assert clock.waiting == 0


def test_a_wait_between_two_seconds_is_rounded_up() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock=clock)
    with ThreadPoolExecutor() as pool:
        poll = pool.submit(queue.claim, wait=0.1)
        assert clock.until_waiting()
        clock.advance(0.9)
        assert not poll.done()
        clock.advance(0.1)
        assert poll.result(2) is None


def test_a_large_claim_waits_for_its_first_messages_alone() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock=clock)
    for number in range(10):
        queue.publish(Message(str(number)))
    with ThreadPoolExecutor() as pool:
        claim = pool.submit(queue.claim_batch, 25, wait=20)
        waited = clock.until_waiting(timeout=0.1)
        clock.advance(20)
        assert len(claim.result(2)) == 10
    assert not waited


def test_one_advance_wakes_the_polls_of_all_queues() -> None:
    clock = ManualClock()
    queues = [MemoryQueue(clock=clock) for _ in range(3)]
    for queue in queues:
        queue.publish(Message("later", delay_seconds=60))
    with ThreadPoolExecutor() as pool:
        polls = [pool.submit(queue.claim, wait=20) for queue in queues]
        assert clock.until_waiting(3)
        clock.advance(20)
        assert [poll.result(2) for poll in polls] == [None] * 3
        polls = [pool.submit(queue.claim, wait=20) for queue in queues]
        assert clock.until_waiting(3)
        for _ in range(4):
            clock.advance(10)
        assert all(poll.result(2) for poll in polls)


def test_waiting_for_polls_gives_up_after_its_timeout() -> None:
    assert not ManualClock().until_waiting(timeout=0.01)


def test_in_real_time_a_poll_wakes_as_soon_as_a_message_is_sent() -> None:
    queue = MemoryQueue()
    with ThreadPoolExecutor() as pool:
        poll = pool.submit(queue.claim, wait=20)
        time.sleep(0.1)
        queue.publish(Message("awaited"))
        assert poll.result(0.5)


def test_in_real_time_a_poll_wakes_when_a_delay_ends() -> None:
    queue = MemoryQueue()
    queue.publish(Message("later", delay_seconds=1))
    began = time.monotonic()
    assert queue.claim(wait=20)
    assert 0.9 < time.monotonic() - began < 1.5


def test_in_real_time_a_poll_ends_after_its_wait() -> None:
    queue = MemoryQueue()
    began = time.monotonic()
    assert queue.claim(wait=1) is None
    assert 0.9 < time.monotonic() - began < 1.5


def test_a_waiting_poll_uses_no_processor_time() -> None:
    queue = MemoryQueue()
    used: list[float] = []

    def poll() -> None:
        before = time.thread_time()
        queue.claim(wait=1)
        used.append(time.thread_time() - before)

    thread = threading.Thread(target=poll)
    thread.start()
    thread.join()
    assert used[0] < 0.05


def test_a_dead_letter_wakes_the_poll_on_its_queue() -> None:
    dead = MemoryQueue("dead", clock=ManualClock())
    queue = MemoryQueue("jobs", dead_letter_queue=dead, max_receive_count=1)
    queue.publish(Message("poison"))
    lease = queue.claim()
    assert lease
    queue.nack(lease)
    clock = dead.server.clock
    assert isinstance(clock, ManualClock)
    with ThreadPoolExecutor() as pool:
        poll = pool.submit(dead.claim, wait=20)
        assert clock.until_waiting()
        assert queue.claim() is None
        assert poll.result(2)
