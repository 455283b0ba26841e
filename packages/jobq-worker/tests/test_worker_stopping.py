"""A worker that is stopped, in threads over queues in memory."""

import asyncio
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

import pytest
from working import QUICK, Lines, Serving, group_of, last_line, serving, until

from jobq.core import (
    Lease,
    QueueGroup,
    SettleResult,
    current_job,
)
from jobq.core.memory import MemoryQueue
from jobq.worker import Worker


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_stop_lets_what_runs_end_and_gives_the_rest_back(
    colour: str, lines: Lines, jobs: MemoryQueue
) -> None:
    queues = QueueGroup({"jobs": {"queue": jobs, "claim_size": 3}})
    for number in range(3):
        queues.enqueue("jobs", "a", {"n": number})
    started, go_on = SimpleQueue[int](), threading.Event()

    def sync(payload: Any) -> None:
        started.put(payload["n"])
        go_on.wait(10)

    async def awaited(payload: Any) -> None:
        await asyncio.to_thread(sync, payload)

    handler = sync if colour == "sync" else awaited
    worker = Worker(queues, {"a": handler}, concurrency=2, claim_ahead=5, **QUICK)
    served = Serving(worker)
    running = {started.get(timeout=5), started.get(timeout=5)}
    until(lambda: jobs.stats().in_flight == 3)
    worker.stop()
    until(lambda: jobs.stats().waiting == 1)
    assert jobs.stats().in_flight == 2
    go_on.set()
    served.join()
    assert served.code == 0
    (left,) = jobs.claim_batch(10)
    assert running == {0, 1, 2} - {int(left.body[-3])}
    assert (last_line(lines)["started"], last_line(lines)["given_back"]) == (2, 1)


def test_not_one_receive_starts_after_a_stop(jobs: MemoryQueue, lines: Lines) -> None:
    stopped_at = float("inf")
    late: list[float] = []

    class Watched(MemoryQueue):
        def claim_batch(self, max_messages: int, **kwargs: Any) -> list[Lease]:
            if time.monotonic() > stopped_at:
                late.append(time.monotonic() - stopped_at)
            return super().claim_batch(max_messages, **kwargs)

    watched = Watched("watched")
    queues = group_of(watched)
    for _ in range(300):
        queues.enqueue("watched", "a")
    worker = Worker(queues, {"a": lambda payload: time.sleep(0.003)}, concurrency=4, **QUICK)
    with serving(worker):
        until(lambda: watched.stats().waiting < 250)
        worker.stop()
        stopped_at = time.monotonic()
    assert late == []
    assert last_line(lines)["left"] == 0


class Noted(MemoryQueue):
    """Notes how many messages each settling call had."""

    def __init__(self) -> None:
        super().__init__("jobs")
        self.acks: list[int] = []
        self.nacks: list[int] = []

    def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
        self.acks.append(len(leases))
        return super().ack_batch(leases)

    def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]:
        self.nacks.append(len(leases))
        return super().nack_batch(leases, delay)


def test_what_a_poll_brings_after_a_stop_goes_back_in_one_call(lines: Lines) -> None:
    polling, stopped = threading.Event(), threading.Event()

    class Late(Noted):
        def claim_batch(self, max_messages: int, **kwargs: Any) -> list[Lease]:
            polling.set()
            stopped.wait(5)
            return super().claim_batch(max_messages, **kwargs)

    late = Late()
    queues = QueueGroup({"jobs": {"queue": late, "claim_size": 10}})
    ran: list[Any] = []
    with serving(Worker(queues, {"a": ran.append}, **QUICK)) as served:
        assert polling.wait(5)
        for _ in range(3):
            queues.enqueue("jobs", "a")
        served.stop()
        stopped.set()
    assert (served.code, ran, late.nacks) == (0, [], [3])
    assert late.stats().waiting == 3
    assert last_line(lines)["given_back"] == 3


def test_deletes_of_jobs_that_ended_just_before_a_stop_are_flushed_in_one_call(
    lines: Lines,
) -> None:
    jobs = Noted()
    queues = group_of(jobs)
    for number in range(4):
        queues.enqueue("jobs", "a", {"n": number})
    together, last = threading.Barrier(4), threading.Event()

    def handler(payload: Any) -> None:
        together.wait(5)
        if payload["n"] == 3:
            time.sleep(0.01)
            worker.stop()
            last.wait(5)

    worker = Worker(queues, {"a": handler}, concurrency=4, **QUICK)
    served = Serving(worker)
    until(lambda: jobs.acks == [3])
    last.set()
    served.join()
    assert (served.code, jobs.acks) == (0, [3, 1])
    assert last_line(lines)["started"] == 4


def test_a_job_that_outlives_the_shutdown_timeout_is_told_and_left(
    jobs: MemoryQueue, lines: Lines
) -> None:
    queues = group_of(jobs)
    queues.enqueue("jobs", "a")
    began, lost = threading.Event(), threading.Event()

    def handler(payload: Any) -> None:
        context = current_job()
        assert context is not None
        began.set()
        context.stopping.wait(10)
        context.lease_lost.wait(10)
        lost.set()

    worker = Worker(queues, {"a": handler}, idle_wait_seconds=1, shutdown_timeout=1.2)
    served = Serving(worker)
    assert began.wait(5)
    worker.stop()
    served.join()
    assert served.code == 1
    assert lost.wait(5)
    assert last_line(lines)["still_running"] == 1
    assert jobs.stats().in_flight == 1
