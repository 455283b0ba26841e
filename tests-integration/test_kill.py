"""A worker that is killed again and again loses nothing and breaks no order."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
from bench import Bench, is_empty, job
from journal import assert_in_order
from processes import until

JOBS = 1000
GROUPS = 50
# How many jobs have ended when the worker is killed.
KILLS = (300, 900, 1500)


def test_nothing_is_lost_and_groups_stay_in_order_through_three_kills(bench: Bench) -> None:
    standard, fifo = bench.queue("jobs"), bench.queue("ledger.fifo")
    colours = ("sync", "async")
    ids = bench.send(standard, [job(colours[n % 2], f"s-{n}", seconds=0.01) for n in range(JOBS)])
    ids += bench.send(
        fifo,
        [
            job(colours[n % 2], f"g{n % GROUPS}-{n}", group=f"g{n % GROUPS}", seconds=0.01)
            for n in range(JOBS)
        ],
    )
    definitions = {
        "standard": {"name": standard.name, "visibility_timeout": 5},
        # Several of a group in hand: then it is the worker that keeps them in order.
        "fifo": {"name": fifo.name, "visibility_timeout": 5, "claim_size": 10},
    }
    killed_at: dict[int, float] = {}
    options: dict[str, Any] = {"concurrency": 8, "idle_wait_seconds": 2, "shutdown_timeout": 15}
    for ended in KILLS:
        with bench.worker(definitions, **options) as worker:
            bench.until_ended(ended, seconds=60)
            worker.signal(signal.SIGKILL)
            assert worker.wait() == -signal.SIGKILL
            killed_at[worker.id] = time.monotonic()
    with bench.worker(definitions, **options) as worker:
        until(lambda: set(bench.journal.ended()) == set(ids), "every job handled", seconds=60)
        until(lambda: is_empty(standard) and is_empty(fifo), "empty queues", seconds=15)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    assert_in_order(bench.journal, killed_at=killed_at)
    runs = bench.journal.runs()
    interrupted = [run for run in runs if run.end is None]
    assert len({run.start.process for run in runs}) == len(KILLS) + 1
    assert interrupted, "no kill came in the middle of a handler"
    assert len(runs) < 1.1 * len(ids)


@pytest.mark.parametrize(("name", "handler"), [("jobs", "sync"), ("jobs.fifo", "async")])
def test_s8_a_job_whose_process_was_killed_is_back_after_the_visibility_timeout(
    bench: Bench, name: str, handler: str
) -> None:
    queue = bench.queue(name)
    bench.send(queue, [job(handler, "j", seconds=30, group="g")])
    definition = {"name": queue.name, "visibility_timeout": 3}
    with bench.worker({"q": definition}, idle_wait_seconds=2, shutdown_timeout=15) as worker:
        bench.until_started(1)
        worker.signal(signal.SIGKILL)
        assert worker.wait() == -signal.SIGKILL
    received_at = bench.traffic.receives[-1].answered_at
    lease = queue.claim(visibility=30, wait=10)
    assert lease is not None
    assert lease.receive_count == 2
    assert 2 < time.monotonic() - received_at < 3 + 2.5
