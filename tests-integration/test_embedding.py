"""A worker inside somebody's program: a loop that cancels it, threads, children, slow hooks."""

from __future__ import annotations

import signal
import time
from itertools import pairwise
from typing import Any

import breakages
import pytest
from bench import Bench, drain, is_empty, job
from processes import assert_adds_up, until

QUICK: dict[str, Any] = {"idle_wait_seconds": 2, "shutdown_timeout": 15}
GREEDY: dict[str, Any] = {**QUICK, "claim_ahead": 60, "hold_limit": 60}


def test_cancelling_run_async_awaits_the_long_poll_that_is_out(bench: Bench) -> None:
    queue = bench.queue("jobs")
    with bench.worker({"q": {"name": queue.name}}, host="cancel", **QUICK) as worker:
        until(lambda: bench.proxy.waiting, "the long poll")
        (poll,) = bench.proxy.waiting
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        ended = time.monotonic()
    assert worker.of("cancelled")
    assert 2 <= ended - poll.at < 2 + 2
    assert [one.request for one in bench.traffic.receives] == [poll]
    time.sleep(0.1)  # the proxy's threads see the connections end
    assert bench.proxy.broken == []
    assert_adds_up(worker.last_line(), received=0)


@pytest.mark.parametrize(("name", "handler"), [("jobs", "async"), ("ledger.fifo", "sync")])
def test_run_async_that_is_cancelled_twice_lets_its_jobs_end_all_the_same(
    bench: Bench, name: str, handler: str
) -> None:
    queue = bench.queue(name)
    grouped = name.endswith(".fifo")
    bench.send(
        queue,
        [job(handler, f"j{n}", seconds=2, group=str(n) if grouped else None) for n in range(3)],
    )
    definition = {"name": queue.name, "claim_size": 10}
    with bench.worker({"q": definition}, concurrency=2, host="cancel", **GREEDY) as worker:
        bench.until_started(2)
        until(lambda: len(bench.traffic.received) == 3, "three in hand")
        for count in (1, 2):
            worker.signal(signal.SIGTERM)
            until(lambda count=count: len(worker.of("cancelling")) == count, "a cancellation")
        assert worker.wait() == 0
    assert worker.of("cancelled")
    started = bench.journal.started()
    assert len(started) == 2
    assert sorted(bench.traffic.deleted) == sorted(started) == sorted(bench.journal.ended())
    assert drain(queue) == sorted({"j0", "j1", "j2"} - set(started))
    assert_adds_up(worker.last_line(), received=3)


@pytest.mark.parametrize("handler", ["sync", "async"])
def test_run_async_that_is_cancelled_under_a_job_that_outlasts_the_stop_ends_in_time(
    bench: Bench, handler: str
) -> None:
    queue = bench.queue("jobs")
    bench.send(queue, [job(handler, "j", seconds=60)])
    options: dict[str, Any] = {"idle_wait_seconds": 1, "shutdown_timeout": 2}
    with bench.worker({"q": {"name": queue.name}}, host="cancel", **options) as worker:
        bench.until_started(1)
        at = worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        assert 2 <= time.monotonic() - at < 2 + 3
    assert worker.of("cancelled")
    assert bench.journal.ended() == bench.traffic.deleted == []
    line = worker.last_line()
    assert_adds_up(line, received=1)
    assert (line["exit_code"], line["still_running"]) == (1, 1)


@pytest.mark.parametrize(("handler", "concurrency"), [("sync", 2), ("async", 8)])
def test_c6_a_worker_outside_the_main_thread_is_stopped_by_ctrl_c_of_its_program(
    bench: Bench, handler: str, concurrency: int
) -> None:
    queue = bench.queue("jobs")
    bench.send(queue, [job(handler, f"j{n}", seconds=1) for n in range(2)])
    settings: dict[str, Any] = {"host": "threads", "setup": {"count": 1}, **QUICK}
    with bench.worker({"q": {"name": queue.name}}, concurrency=concurrency, **settings) as worker:
        bench.until_started(2)
        worker.signal(signal.SIGINT)
        assert worker.wait() == 0
    assert sorted(bench.journal.ended()) == sorted(bench.traffic.deleted) == ["j0", "j1"]
    assert_adds_up(worker.last_line(), received=2)
    assert worker.other_output == []


def test_c2_fifty_workers_that_start_at_once_in_threads_serve_one_queue(bench: Bench) -> None:
    queue = bench.queue("jobs")
    ids = bench.send(queue, [job("async" if n % 2 else "sync", f"j{n}") for n in range(200)])
    options: dict[str, Any] = {"idle_wait_seconds": 1, "shutdown_timeout": 15}
    settings: dict[str, Any] = {"host": "threads", "setup": {"count": 50}, **options}
    with bench.worker({"q": {"name": queue.name}}, **settings) as worker:
        until(lambda: len(worker.of("worker_started")) == 50, "fifty workers")
        until(lambda: is_empty(queue), "an empty queue", seconds=40, pause=0.1)
        worker.signal(signal.SIGINT)
        assert worker.wait() == 0
    lines = worker.of("worker_stopped")
    assert [line["exit_code"] for line in lines] == [0] * 50
    assert sorted(bench.journal.started()) == sorted(bench.journal.ended()) == sorted(ids)
    assert sum(line["received"] for line in lines) == len(ids)
    assert [line for line in worker.lines if line["level"] in ("error", "critical")] == []
    assert worker.other_output == []


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_c3_children_of_a_program_work_whatever_starts_them(bench: Bench, method: str) -> None:
    """Under `fork` the children serve the group, and the client, that their parent has used."""
    standard, fifo = bench.queue("jobs"), bench.queue("ledger.fifo")
    definitions = {"standard": {"name": standard.name}, "fifo": {"name": fifo.name}}
    options: dict[str, Any] = {"idle_wait_seconds": 1, "shutdown_timeout": 15}
    settings: dict[str, Any] = {"host": method, "setup": {"count": 2}, **options}
    with bench.worker(definitions, concurrency=2, **settings) as parent:
        until(lambda: len(parent.of("worker_started")) == 2, "two workers")
        ids = bench.send(standard, [job("sync", f"s{n}", seconds=0.1) for n in range(20)])
        ids += bench.send(
            fifo, [job("async", f"g{n % 5}-{n}", group=f"g{n % 5}", seconds=0.1) for n in range(20)]
        )
        until(lambda: len(set(bench.journal.ended())) == len(ids), "all jobs", pause=0.1)
        until(lambda: is_empty(standard) and is_empty(fifo), "empty queues", pause=0.1)
        parent.signal(signal.SIGTERM)
        assert parent.wait() == 0
    assert len({run.start.process for run in bench.journal.runs()}) > 1
    lines = parent.of("worker_stopped")
    assert [line["exit_code"] for line in lines] == [0, 0]
    assert sum(line["received"] for line in lines) == len(bench.traffic.received) == len(ids)
    assert parent.other_output == []


def test_a_poll_hook_that_lingers_before_it_polls_holds_up_no_stop(bench: Bench) -> None:
    queue = bench.queue("jobs")
    bench.send(queue, [job("sync", "j")])
    setup = {"poll": [["linger_before", 60]]}
    with bench.worker({"q": {"name": queue.name}}, setup=setup, **QUICK) as worker:
        time.sleep(0.5)
        at = worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        assert time.monotonic() - at < 2
    assert bench.traffic.receives == []
    assert drain(queue) == ["j"]


def test_a_poll_hook_that_lingers_over_what_it_received_holds_up_neither_job_nor_stop(
    bench: Bench,
) -> None:
    queue = bench.queue("jobs")
    bench.send(queue, [job("sync", "j")])
    setup = {"poll": [["linger_after", 60]]}
    with bench.worker({"q": {"name": queue.name}}, setup=setup, **QUICK) as worker:
        until(lambda: bench.traffic.deleted, "the job's delete", seconds=5)
        at = worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        # There may be another poll out by then, which is awaited.
        assert time.monotonic() - at < 2 + 2
    assert [one for one in bench.traffic.receives if one.request.at > at + 0.5] == []
    assert_adds_up(worker.last_line(), received=1)


def test_p4_a_server_that_never_answers_is_asked_again_within_the_timeout_and_five_seconds(
    bench: Bench,
) -> None:
    queue = bench.queue("jobs")
    setup = {"read_timeout": 2}
    options: dict[str, Any] = {"idle_wait_seconds": 1, "shutdown_timeout": 15}
    with bench.worker({"q": {"name": queue.name}}, setup=setup, **options) as worker:
        until(lambda: bench.traffic.receives, "a first poll")
        bench.proxy.intercept = breakages.silent(30)
        until(lambda: len(bench.traffic.receives) >= 3, "two that weren't answered", seconds=25)
        bench.send(queue, [job("sync", "j")])
        bench.proxy.intercept = breakages.late(0)
        bench.until_ended(1, seconds=15)
        assert worker.running
    asked = [one.request.at for one in bench.traffic.receives]
    assert all(later - one < 2 + 5 for one, later in pairwise(asked))
