"""A worker process that is stopped and started again and again, over ministack."""

from __future__ import annotations

import signal
from collections import Counter
from typing import Any

from bench import Bench, job
from processes import assert_adds_up, until


def test_m6_five_restarts_dead_letter_nothing_that_never_started(bench: Bench) -> None:
    """Each stop comes while messages wait in hand: of the standard queue, whose jobs are fast."""
    dead, dead_fifo = bench.queue("dead"), bench.queue("dead.fifo")
    standard = bench.queue("jobs", dead_letter_queue=dead, max_receive_count=3)
    fifo = bench.queue("jobs.fifo", dead_letter_queue=dead_fifo, max_receive_count=3)
    colours = ("sync", "async")
    ids = bench.send(standard, [job(colours[n % 2], f"s{n}", seconds=0.05) for n in range(300)])
    ids += bench.send(
        fifo, [job(colours[n % 2], f"f{n}", seconds=0.05, group=f"g{n % 5}") for n in range(60)]
    )
    definitions = {"standard": {"name": standard.name}, "fifo": {"name": fifo.name}}
    options: dict[str, Any] = {"concurrency": 2, "idle_wait_seconds": 1, "shutdown_timeout": 15}
    before = given_back = 0
    for restart in range(1, 6):
        with bench.worker(definitions, **options) as worker:
            bench.until_ended(30 * restart)
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        total = len(bench.traffic.received)
        assert_adds_up(worker.last_line(), received=total - before)
        assert worker.last_line()["left"] == 0
        given_back += worker.last_line()["given_back"]
        before = total
    assert given_back, "no stop caught a message in hand"
    assert dead.stats().waiting == dead_fifo.stats().waiting == 0
    received, started = Counter(bench.traffic.received), Counter(bench.journal.started())
    assert received - started == bench.traffic.given_back, "a receive each, and no other is lost"
    until(lambda: set(started) <= set(ids), "nothing else")
    left = standard.stats().waiting + fifo.stats().waiting
    assert left == len(ids) - len(bench.journal.ended())
