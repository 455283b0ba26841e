"""A worker in threads over queues in memory."""

import asyncio
import contextlib
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
from working import QUICK, Lines, Serving, group_of, serving, until

from jobq.core import (
    BackendError,
    ConfigurationError,
    JobMiddleware,
    Lease,
    Message,
    QueueGroup,
    QueueNotFoundError,
    RetryPolicy,
    SettleResult,
    current_job,
)
from jobq.core.memory import MemoryQueue
from jobq.worker import Worker


def last_line(lines: Lines) -> dict[str, Any]:
    (line,) = lines.of("worker_stopped")
    classes = ("started", "refused", "taken_over", "given_back", "left")
    assert line["received"] == sum(line[one] for one in classes)
    return line


@pytest.fixture
def jobs() -> MemoryQueue:
    return MemoryQueue("jobs")


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


class TestInsideALoop:
    @pytest.mark.usefixtures("short_bursts")
    def test_async_handlers_run_on_the_callers_loop(self, jobs: MemoryQueue, lines: Lines) -> None:
        queues = group_of(jobs)
        queues.enqueue("jobs", "a")
        loops: list[Any] = []

        async def handler(payload: Any) -> None:
            loops.append(asyncio.get_running_loop())

        async def main() -> None:
            await Worker(queues, {"a": handler}).run_async(burst=True)
            assert loops == [asyncio.get_running_loop()]

        asyncio.run(main())

    @pytest.mark.parametrize("cancels", [1, 3])
    @pytest.mark.parametrize("colour", ["sync", "async"])
    def test_cancelling_is_a_stop_that_lets_what_runs_end(
        self, colour: str, cancels: int, jobs: MemoryQueue, lines: Lines
    ) -> None:
        queues = group_of(jobs)
        queues.enqueue("jobs", "a")
        began, ended = threading.Event(), threading.Event()

        def sync(payload: Any) -> None:
            began.set()
            time.sleep(0.5)
            ended.set()

        async def awaited(payload: Any) -> None:
            began.set()
            await asyncio.sleep(0.5)
            ended.set()

        async def main() -> None:
            handler = sync if colour == "sync" else awaited
            run = asyncio.create_task(Worker(queues, {"a": handler}, **QUICK).run_async())
            await asyncio.to_thread(began.wait, 5)
            for _ in range(cancels):
                run.cancel()
                await asyncio.sleep(0.05)
            assert not run.done()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert ended.is_set()

        asyncio.run(main())
        assert last_line(lines)["started"] == 1
        assert lines.of("job_finished")[0]["outcome"] == "success"
        assert jobs.stats().in_flight == 0

    def test_the_error_that_ended_it_is_raised(self, lines: Lines) -> None:
        class Missing(MemoryQueue):
            def describe(self) -> Any:
                raise QueueNotFoundError("no such queue")

        with pytest.raises(QueueNotFoundError, match="no such queue"):
            asyncio.run(Worker(group_of(Missing("jobs")), {"a": print}).run_async())

    def test_a_handler_may_stop_its_worker(self, jobs: MemoryQueue, lines: Lines) -> None:
        queues = group_of(jobs)
        queues.enqueue("jobs", "a")

        async def main() -> None:
            async def handler(payload: Any) -> None:
                worker.stop()

            worker = Worker(queues, {"a": handler}, **QUICK)
            await worker.run_async()

        asyncio.run(main())
        assert jobs.stats().in_flight == 0

    @pytest.mark.usefixtures("short_bursts")
    def test_two_workers_share_a_loop(self, lines: Lines) -> None:
        groups = [group_of(MemoryQueue("jobs")) for _ in range(2)]
        ran: list[Any] = []

        async def handler(payload: Any) -> None:
            ran.append(payload)

        async def main() -> None:
            for one in groups:
                one.enqueue("jobs", "a")
            workers = [Worker(one, {"a": handler}).run_async(burst=True) for one in groups]
            await asyncio.gather(*workers)

        asyncio.run(main())
        assert len(ran) == 2


def test_a_timeout_around_a_worker_stops_it(jobs: MemoryQueue, lines: Lines) -> None:
    async def main() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                await Worker(group_of(jobs), {"a": print}, **QUICK).run_async()

    asyncio.run(main())
    assert last_line(lines)["exit_code"] == 0
