"""Ways to stop a worker with jobs running and others waiting: signals, a cancelled task."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
from bench import Bench, drain, job
from processes import assert_adds_up, until

# A stop within seconds. And: all that is there is taken in hand at once, and kept.
QUICK: dict[str, Any] = {"idle_wait_seconds": 2, "shutdown_timeout": 15}
GREEDY: dict[str, Any] = {**QUICK, "claim_ahead": 60, "hold_limit": 60}

each_colour = pytest.mark.parametrize("handler", ["sync", "async"])


@pytest.mark.parametrize(
    ("handler", "number"), [("sync", signal.SIGTERM), ("async", signal.SIGINT)]
)
def test_a_signal_lets_slow_jobs_end_and_makes_all_others_visible(
    bench: Bench, handler: str, number: signal.Signals
) -> None:
    standard, fifo = bench.queue("jobs"), bench.queue("ledger.fifo")
    ids = bench.send(standard, [job(handler, f"s{n}", seconds=2) for n in range(30)])
    ids += bench.send(fifo, [job(handler, f"f{n}", seconds=2, group=str(n % 3)) for n in range(30)])
    definitions = {
        "standard": {"name": standard.name, "claim_size": 10},
        "fifo": {"name": fifo.name, "claim_size": 10},
    }
    with bench.worker(definitions, concurrency=4, **GREEDY) as worker:
        bench.until_started(4)
        until(lambda: len(bench.traffic.received) > 8, "others in hand")
        worker.signal(number)
        assert worker.wait() == 0
    ran = bench.journal.started()
    assert len(ran) == len(set(ran)) == 4
    assert sorted(bench.traffic.deleted) == sorted(ran) == sorted(bench.journal.ended())
    assert sorted(drain(standard) + drain(fifo)) == sorted(set(ids) - set(ran))
    line = worker.last_line()
    assert_adds_up(line, received=len(bench.traffic.received))
    assert (line["started"], line["left"], line["exit_code"]) == (4, 0, 0)


@pytest.mark.parametrize(
    ("handler", "number"), [("sync", signal.SIGTERM), ("async", signal.SIGINT)]
)
def test_a_second_signal_ends_the_process_at_once(
    bench: Bench, handler: str, number: signal.Signals
) -> None:
    queue = bench.queue("jobs")
    bench.send(queue, [job(handler, "j", seconds=60)])
    with bench.worker({"q": {"name": queue.name}}, **QUICK) as worker:
        bench.until_started(1)
        worker.signal(signal.SIGTERM)
        worker.until_logged("worker_stopping")
        time.sleep(0.1)  # one that follows within 20 ms is the same request
        at = worker.signal(number)
        assert worker.wait() == 128 + number
        assert time.monotonic() - at < 2
    assert bench.traffic.deleted == []


@each_colour
def test_cancelling_run_async_is_a_stop(bench: Bench, handler: str) -> None:
    queue = bench.queue("jobs")
    bench.send(queue, [job(handler, f"j{n}", seconds=1.5) for n in range(3)])
    definition = {"name": queue.name, "claim_size": 10}
    with bench.worker({"q": definition}, concurrency=2, host="cancel", **GREEDY) as worker:
        bench.until_started(2)
        until(lambda: len(bench.traffic.received) == 3, "three in hand")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    assert worker.of("cancelled")
    started = bench.journal.started()
    assert len(started) == 2
    assert sorted(bench.traffic.deleted) == sorted(started) == sorted(bench.journal.ended())
    assert drain(queue) == sorted({"j0", "j1", "j2"} - set(started))
    assert_adds_up(worker.last_line(), received=3)


def test_a_job_that_outlasts_the_stop_is_left_and_comes_back(bench: Bench) -> None:
    queue = bench.queue("jobs")
    bench.send(queue, [job("sync", "j", seconds=60)])
    definition = {"name": queue.name, "visibility_timeout": 3}
    with bench.worker({"q": definition}, idle_wait_seconds=1, shutdown_timeout=2) as worker:
        bench.until_started(1)
        at = worker.signal(signal.SIGTERM)
        assert worker.wait() == 1
        assert 2 <= time.monotonic() - at < 2 + 3
    assert bench.traffic.deleted == []
    line = worker.last_line()
    assert_adds_up(line, received=1)
    assert line["still_running"] == 1
    assert queue.claim(visibility=30, wait=10) is not None
