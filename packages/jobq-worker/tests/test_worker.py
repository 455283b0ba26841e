"""A worker in threads over queues in memory: what it runs, and what ends it."""

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest
import structlog
from working import QUICK, Lines, Serving, group_of, last_line, serving, until

from jobq.core import (
    BackendError,
    ConfigurationError,
    JobMiddleware,
    Message,
    QueueNotFoundError,
    RetryPolicy,
    current_job,
)
from jobq.core.memory import MemoryQueue
from jobq.worker import Worker


def test_a_burst_runs_what_there_is_and_returns(lines: Lines, jobs: MemoryQueue) -> None:
    ledger = MemoryQueue("ledger.fifo")
    queues = group_of(jobs, ledger)
    ran: list[Any] = []

    async def awaited(payload: Any) -> None:
        await asyncio.sleep(0.001)
        ran.append(payload["n"])

    for number in range(5):
        queues.enqueue("jobs", "sync", {"n": f"s{number}"})
        queues.enqueue("ledger.fifo", "async", {"n": f"a{number}"}, message_group_id="g")

    def sync(payload: Any) -> None:
        ran.append(payload["n"])

    run_worker_in_burst(queues, {"sync": sync, "async": awaited})
    assert sorted(ran) == sorted([f"s{n}" for n in range(5)] + [f"a{n}" for n in range(5)])
    assert [name for name in ran if name.startswith("a")] == [f"a{n}" for n in range(5)]
    assert last_line(lines)["started"] == 10
    assert [line["outcome"] for line in lines.of("job_finished")] == ["success"] * 10
    nothing = {"waiting": 0, "in_flight": 0, "delayed": 0}
    assert last_line(lines)["remaining"] == {"jobs": nothing, "ledger.fifo": nothing}


def run_worker_in_burst(queues: Any, handlers: Any, **options: Any) -> None:
    Worker(queues, handlers, concurrency=4, **options).run(burst=True)


@pytest.mark.usefixtures("short_bursts")
def test_a_job_that_fails_is_tried_again_and_the_rest_is_told_apart(
    lines: Lines, jobs: MemoryQueue
) -> None:
    queues = group_of(jobs)
    counts: list[int] = []

    def fails_once(payload: Any) -> None:
        context = current_job()
        assert context is not None
        counts.append(context.job.receive_count)
        if len(counts) == 1:
            raise ValueError("the first time")

    queues.enqueue("jobs", "fails_once")
    queues.enqueue("jobs", "unknown")
    jobs.publish(Message("hi"))
    run_worker_in_burst(queues, {"fails_once": fails_once}, retry=RetryPolicy(base_delay=1))
    assert counts == [1, 2]
    outcomes = Counter(line["outcome"] for line in lines.of("job_finished"))
    assert outcomes == {"retry": 1, "success": 1, "unknown_job_type": 1, "malformed": 1}
    assert last_line(lines)["remaining"]["jobs"]["in_flight"] == 1
    assert (last_line(lines)["started"], last_line(lines)["refused"]) == (2, 2)


def test_an_async_handler_that_blocks_its_loop_runs_once(lines: Lines) -> None:
    jobs = MemoryQueue("jobs", visibility_timeout=1)
    queues = group_of(jobs)
    queues.enqueue("jobs", "a")
    ran: list[Any] = []

    async def handler(payload: Any) -> None:
        ran.append(payload)
        time.sleep(3)  # noqa: ASYNC251

    with serving(Worker(queues, {"a": handler}, concurrency=2, **QUICK)):
        until(lambda: lines.of("job_finished"))
    assert len(ran) == 1
    assert lines.of("job_finished")[0]["outcome"] == "success"
    stats = jobs.stats()
    assert (stats.waiting, stats.in_flight) == (0, 0)


def test_a_queue_that_answers_no_delete_keeps_none_of_another_waiting(
    jobs: MemoryQueue, lines: Lines
) -> None:
    hang = threading.Event()

    class Silent(MemoryQueue):
        def ack_batch(self, leases: Sequence[Any]) -> Any:
            hang.wait(20)
            return super().ack_batch(leases)

    queues = group_of(Silent("silent"), jobs)
    for _ in range(8):
        queues.enqueue("silent", "slow")

    def slow(payload: Any) -> None:
        time.sleep(0.06)

    with serving(Worker(queues, {"slow": slow, "a": print}, **QUICK)):
        # Each has a call of its own: the 50 ms for company are over before the next one ends.
        until(lambda: len(lines.of("job_started")) == 8)
        queues.enqueue("jobs", "a")
        until(lambda: lines.of("job_finished"), seconds=5)
        assert lines.of("job_finished")[0]["job_type"] == "a"
        hang.set()


@pytest.mark.usefixtures("short_bursts")
def test_nothing_of_one_job_is_seen_by_the_next_nor_by_the_worker(
    jobs: MemoryQueue, lines: Lines
) -> None:
    queues = group_of(jobs)
    for number in range(6):
        queues.enqueue("jobs", "a", {"n": number}, correlation_fields={f"own{number}": number})

    def handler(payload: Any) -> None:
        structlog.contextvars.bind_contextvars(user=payload["n"])

    with structlog.contextvars.bound_contextvars(release="r1"):
        run_worker_in_burst(queues, {"a": handler})
    for line in lines.of("job_finished"):
        owned = [key for key in line if key.startswith("own")]
        assert owned == [f"own{line['user']}"]
    for line in lines:
        assert line.get("release") == "r1" or line["event"] == "job_enqueued"
    assert not {"user", "message_id"} & set(last_line(lines))


def test_a_poll_hook_that_waits_delays_neither_another_queue_nor_a_stop(lines: Lines) -> None:
    paused, jobs = MemoryQueue("paused"), MemoryQueue("jobs")
    entered, release = threading.Event(), threading.Event()
    came: list[Any] = []

    class Pause(JobMiddleware):
        def poll(self, call_next: Any) -> Any:
            if call_next.queue != "paused":
                return call_next()
            entered.set()
            release.wait(10)
            came.append(call_next())
            return came[-1]

    queues = group_of(paused, jobs, middleware=[Pause()])
    queues.enqueue("paused", "a")
    ran = SimpleQueue[str]()
    with serving(Worker(queues, {"a": lambda payload: ran.put("ran")}, **QUICK)) as served:
        assert entered.wait(5)
        queues.enqueue("jobs", "a")
        assert ran.get(timeout=5) == "ran"
        served.stop()
        served.join(seconds=5)
        assert served.code == 0
        release.set()
        until(lambda: came)
    assert came == [0]
    assert paused.stats().waiting == 1


def test_a_poll_hook_that_lingers_holds_up_neither_what_came_nor_a_stop(
    jobs: MemoryQueue, lines: Lines
) -> None:
    release, ran = threading.Event(), SimpleQueue[str]()

    class Linger(JobMiddleware):
        def poll(self, call_next: Any) -> Any:
            if came := call_next():
                release.wait(10)
            return came

    queues = group_of(jobs, middleware=[Linger()])
    queues.enqueue("jobs", "a")
    with serving(Worker(queues, {"a": lambda payload: ran.put("ran")}, **QUICK)) as served:
        assert ran.get(timeout=5) == "ran"
        served.stop()
        served.join(seconds=5)
    release.set()
    assert served.code == 0
    assert jobs.stats().in_flight == jobs.stats().waiting == 0
    assert last_line(lines)["started"] == 1


def test_a_worker_that_was_stopped_before_it_ran_ends_at_once(
    jobs: MemoryQueue, lines: Lines
) -> None:
    worker = Worker(group_of(jobs), {"a": print})
    for _ in range(3):
        worker.stop()
    worker.run()
    assert last_line(lines)["received"] == 0
    assert not lines.of("worker_started")


@pytest.mark.usefixtures("short_bursts")
def test_a_worker_runs_again_once_it_has_ended_but_not_twice_at_once(
    jobs: MemoryQueue, lines: Lines
) -> None:
    queues = group_of(jobs)
    ran: list[Any] = []
    worker = Worker(queues, {"a": ran.append}, **QUICK)
    for _ in range(2):
        queues.enqueue("jobs", "a")
        worker.run(burst=True)
    assert len(ran) == 2
    with serving(worker):
        until(lambda: len(lines.of("worker_started")) == 3)
        with pytest.raises(ConfigurationError, match="running already"):
            worker.run()


def test_a_missing_queue_ends_the_process_with_1_and_says_why(lines: Lines) -> None:
    class Missing(MemoryQueue):
        def describe(self) -> Any:
            raise QueueNotFoundError("queue my-app-jobs does not exist: create it")

    with pytest.raises(SystemExit) as ended:
        Worker(group_of(Missing("jobs")), {"a": print}).run()
    assert ended.value.code == 1
    (line,) = lines.of("worker_not_started")
    assert "my-app-jobs" in line["error"]
    assert "create it" in line["error"]


def test_a_stop_ends_a_worker_that_cannot_reach_its_queue_yet(lines: Lines) -> None:
    asked, hang = threading.Event(), threading.Event()

    class Unreachable(MemoryQueue):
        def describe(self) -> Any:
            asked.set()
            hang.wait(20)
            raise BackendError("timed out", retryable=True)

    began = time.monotonic()
    with serving(Worker(group_of(Unreachable("jobs")), {"a": print})) as served:
        assert asked.wait(5)
    assert served.code == 0
    assert time.monotonic() - began < 5
    hang.set()
    until(lambda: not any(one.name == "jobq-start" for one in threading.enumerate()))


def test_a_bug_in_the_engine_ends_the_worker_and_never_hangs_it(
    jobs: MemoryQueue, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = group_of(jobs)

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    def breaks(payload: Any) -> None:
        monkeypatch.setattr("jobq.worker.engine.engine.Engine.handle", broken)

    queues.enqueue("jobs", "a")
    with pytest.raises(SystemExit) as ended:
        Worker(queues, {"a": breaks}).run()
    assert ended.value.code == 1
    (line,) = lines.of("worker_crashed")
    assert line["exception"].endswith("ZeroDivisionError")


def test_an_answer_that_will_not_come_ends_the_worker_and_never_hangs_it(
    jobs: MemoryQueue, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("jobq.worker.polls.Polls.receive", broken)
    with pytest.raises(SystemExit) as ended:
        Worker(group_of(jobs), {"a": print}).run()
    assert ended.value.code == 1
    assert lines.of("worker_crashed")


def test_a_blocked_output_delays_no_heartbeat(lines: Lines) -> None:
    """Every line blocks, those of the jobs too, for longer than their leases would last."""
    jobs = MemoryQueue("jobs", visibility_timeout=1)
    queues = group_of(jobs)
    queues.enqueue("jobs", "a")
    blocked, ran = threading.Event(), SimpleQueue[int]()

    def block(*_: Any) -> Any:
        blocked.wait(20)
        raise structlog.DropEvent

    structlog.configure(processors=[block])
    with serving(Worker(queues, {"a": lambda payload: ran.put(1)}, **QUICK)):
        time.sleep(2.5)
        assert jobs.stats().in_flight == 1
        blocked.set()
        assert ran.get(timeout=5) == 1
        until(lambda: jobs.stats().in_flight == 0)
    assert ran.empty()


def test_fifty_workers_start_at_once_in_threads(lines: Lines) -> None:
    queues = [group_of(MemoryQueue("jobs")) for _ in range(50)]
    ran: list[Any] = []
    workers = [Worker(one, {"a": ran.append}, **QUICK) for one in queues]
    for one in queues:
        one.enqueue("jobs", "a")
    served = [Serving(worker) for worker in workers]
    until(lambda: len(ran) == 50, seconds=30)
    for worker in workers:
        worker.stop()
    for one in served:
        one.join(seconds=30)
    assert {one.code for one in served} == {0}


@pytest.mark.usefixtures("short_bursts")
def test_a_worker_leaves_no_thread_behind(jobs: MemoryQueue, lines: Lines) -> None:
    queues = group_of(jobs)

    async def awaited(payload: Any) -> None: ...

    queues.enqueue("jobs", "a")
    queues.enqueue("jobs", "b")
    run_worker_in_burst(queues, {"a": print, "b": awaited})
    until(lambda: not [one for one in threading.enumerate() if one.name.startswith("jobq")])


def test_a_waiting_worker_costs_next_to_nothing(jobs: MemoryQueue, lines: Lines) -> None:
    queues = group_of(jobs)
    for _ in range(20):
        queues.enqueue("jobs", "a")
    began, go_on = threading.Event(), threading.Event()

    def handler(payload: Any) -> None:
        began.set()
        go_on.wait(10)

    worker = Worker(queues, {"a": handler}, concurrency=1, **QUICK)
    with serving(worker):
        assert began.wait(5)
        time.sleep(0.5)
        before = time.process_time()
        time.sleep(2)
        spent = time.process_time() - before
        worker.stop()
        go_on.set()
    assert spent < 0.04


def test_the_health_file_is_touched_while_the_worker_turns(
    jobs: MemoryQueue, lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "healthy"
    with serving(Worker(group_of(jobs), {"a": print}, health_file=path, **QUICK)):
        until(path.exists)
    assert not lines.of("health_file_failed")


def test_a_health_file_that_cannot_be_touched_is_a_warning(
    jobs: MemoryQueue, lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "no such folder" / "healthy"
    with serving(Worker(group_of(jobs), {"a": print}, health_file=os.fspath(path), **QUICK)):
        until(lambda: lines.of("health_file_failed"))
