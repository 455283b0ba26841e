"""The fixture `job_queues`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jobq.core import LeaseLostError, QueueDefinition
from jobq.core.memory import ManualClock, MemoryQueue
from jobq.core.testing.job_queues import JobQueues

pytest_plugins = ["pytester"]


def test_it_holds_a_standard_and_a_fifo_queue(job_queues: JobQueues) -> None:
    assert job_queues.names == ("default", "ledger")
    assert not job_queues.queue("default").capabilities.ordered
    assert job_queues.queue("ledger").capabilities.ordered


def test_a_job_enqueued_is_there_to_be_claimed(job_queues: JobQueues) -> None:
    message_id = job_queues.enqueue("default", "greet", {"who": "you"})
    lease = job_queues.queue("default").claim()
    assert lease
    assert lease.message_id == message_id
    assert job_queues.stats()["default"].in_flight == 1


def test_time_passes_when_the_test_says_so(job_queues: JobQueues) -> None:
    queue = job_queues.queue("default")
    job_queues.enqueue("default", "greet", delay_seconds=600)
    assert queue.claim() is None
    job_queues.clock.advance(600)
    lease = queue.claim(visibility=3600)
    assert lease
    job_queues.clock.advance(3600)
    with pytest.raises(LeaseLostError):
        queue.extend(lease, 60)
    assert queue.claim()


def test_one_test_leaves_nothing_to_the_next(job_queues: JobQueues) -> None:
    for stats in job_queues.stats().values():
        assert (stats.waiting, stats.in_flight, stats.delayed) == (0, 0, 0)


def test_the_backend_of_a_definition_is_replaced_by_memory() -> None:
    queues = JobQueues(
        {
            "a": {"name": "a", "weight": 5},
            "b": QueueDefinition(url="https://sqs.eu-west-1.amazonaws.com/123/b.fifo"),
        }
    )
    queues.enqueue("a", "greet")
    queues.enqueue("b", "greet", message_group_id="g")
    assert queues.definition("a").weight == 5
    assert queues.stats()["b"].waiting == 1


def test_a_queue_made_by_hand_keeps_its_dead_letter_queue() -> None:
    clock = ManualClock()
    dead = MemoryQueue("dead", clock=clock)
    queue = MemoryQueue("jobs", dead_letter_queue=dead, max_receive_count=1)
    queues = JobQueues({"default": {"queue": queue}}, clock=clock)
    queues.enqueue("default", "greet")
    assert queue.claim(visibility=30)
    queues.clock.advance(30)
    assert queue.claim() is None
    assert dead.claim()


def test_other_queues_are_had_by_overriding_a_fixture(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from jobq.core.memory import MemoryQueue

        @pytest.fixture
        def job_queue_definitions(job_clock):
            dead = MemoryQueue("dead", clock=job_clock)
            queue = MemoryQueue("mine", dead_letter_queue=dead, max_receive_count=1)
            return {"mine": {"queue": queue}}

        def test_it(job_queues):
            job_queues.enqueue("mine", "greet")
            queue = job_queues.queue("mine")
            assert queue.claim(visibility=30)
            job_queues.clock.advance(30)
            assert queue.claim() is None
            assert queue.dead_letter_queue().claim()
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)


def test_the_plugin_loads_neither_the_suite_nor_the_queues() -> None:
    code = (
        "import sys, jobq.core.testing.plugin; "
        "print([m for m in sys.modules if m.startswith(('jobq.core.memory', "
        "'jobq.core.testing.conformance', 'jobq.core.testing.job_queues', "
        "'jobq.core.testing.async_job_queues'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
