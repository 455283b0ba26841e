"""Ten thousand jobs through kills and a proxy that breaks things: none lost, no group out of order.

Without `--full` there are a thousand. Each server is one that keeps order within the bounds that
the test names: ministack in batches, LocalStack message by message, since it unlocks a group when
part of a batch is given back.
"""

from __future__ import annotations

import itertools
import random
import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import breakages
import pytest
from bench import Bench, is_empty, job
from breakages import Mischief
from journal import assert_in_order
from processes import Process, serving, until

pytestmark = pytest.mark.timeout(1800)

WORKERS = 2
# How long a worker serves before it is killed, in seconds.
LIVES = (1.0, 2.0)
FAULTS = {
    "late": breakages.late(0.3),
    "unsent": breakages.unsent,
    "unanswered": breakages.unanswered,
    "reset midway": breakages.reset_midway,
    "cut short": breakages.cut_short,
    "cut in headers": breakages.cut_in_headers,
    "halved": breakages.halved,
    "silent": breakages.silent(1.5),
    "maintenance": breakages.maintenance,
    "nothing": breakages.nothing,
    "garbage": breakages.garbage,
    "error with 200": breakages.error_with_200,
    "bad gateway": breakages.bad_gateway,
    "throttled": breakages.throttled,
    "unavailable": breakages.unavailable,
}
CLAIM_SIZES: dict[str, dict[str, int]] = {"ministack": {"claim_size": 10}, "localstack": {}}


class Crew:
    """Workers of which one after the other is killed, and another takes its place."""

    def __init__(self, bench: Bench, definitions: dict[str, Any], *, chance: random.Random) -> None:
        self._url = bench.proxy.url
        options: dict[str, Any] = {"idle_wait_seconds": 2, "shutdown_timeout": 15}
        options["concurrency"] = 8
        # Every other worker has sync queues, every other one async ones.
        self._settings = itertools.cycle(
            bench.settings(definitions, setup={"kind": kind}, **options)
            for kind in ("sync", "async")
        )
        self._chance = chance
        self._doomed: dict[Process, float] = {}
        self.workers: list[Process] = []
        self.killed_at: dict[int, float] = {}

    def fill(self) -> None:
        while len(self.workers) < WORKERS:
            self.workers.append(serving(self._url, next(self._settings)))

    def kill_who_is_due(self) -> None:
        for worker in list(self.workers):
            assert worker.running, (worker.lines[-3:], worker.other_output)
            if worker not in self._doomed:
                if worker.of("worker_started"):
                    self._doomed[worker] = time.monotonic() + self._chance.uniform(*LIVES)
            elif time.monotonic() >= self._doomed[worker]:
                worker.signal(signal.SIGKILL)
                assert worker.wait() == -signal.SIGKILL
                self.killed_at[worker.id] = time.monotonic()
                self.workers.remove(worker)

    def stop(self) -> None:
        for worker in self.workers:
            worker.until_logged("worker_started", seconds=60)
            worker.signal(signal.SIGTERM)
        for worker in self.workers:
            assert worker.wait() == 0, worker.lines[-3:]


@contextmanager
def crew_of(bench: Bench, definitions: dict[str, Any], chance: random.Random) -> Generator[Crew]:
    crew = Crew(bench, definitions, chance=chance)
    try:
        yield crew
    finally:
        for worker in crew.workers:
            worker.end()


def assert_deleted_after_their_handlers(bench: Bench) -> None:
    """Of what the server was asked to delete each had succeeded by then."""
    first_end: dict[str, float] = {}
    for note in bench.journal.of("end"):
        first_end.setdefault(note.id, note.at)
    served = bench.served
    for one in served.deletes:
        for name in served.jobs(one):
            assert first_end[name] <= one.request.at, (name, one)


def test_nothing_is_lost_and_no_group_out_of_order_through_kills_and_broken_replies(
    each_bench: Bench,
    figure: Callable[[int, int], int],
    seed: int,
) -> None:
    bench, jobs = each_bench, figure(1_000, 10_000)
    # A kill locks the groups of what was in hand for their visibility timeout.
    groups, chance = figure(100, 200), random.Random(seed)
    standard, fifo = bench.queue("jobs"), bench.queue("ledger.fifo")
    colours = ("sync", "async")
    ids = bench.send(
        standard, [job(colours[n % 2], f"s-{n}", seconds=0.01) for n in range(jobs // 2)]
    )
    ids += bench.send(
        fifo,
        [
            job(colours[n % 2], f"g{n % groups}-{n}", group=f"g{n % groups}", seconds=0.01)
            for n in range(jobs // 2)
        ],
    )
    definitions = {
        "standard": {"name": standard.name, "visibility_timeout": 5},
        "fifo": {"name": fifo.name, "visibility_timeout": 5, **CLAIM_SIZES[bench.server]},
    }
    bench.proxy.intercept = mischief = Mischief(seed, share=0.04, most=jobs, faults=FAULTS)
    began = time.monotonic()
    with crew_of(bench, definitions, chance) as crew:
        while set(bench.journal.ended()) != set(ids):
            assert time.monotonic() < began + 1500, "not done in 25 minutes"
            crew.fill()
            crew.kill_who_is_due()
            time.sleep(0.1)
        crew.fill()
        until(lambda: is_empty(standard) and is_empty(fifo), "empty queues", seconds=30, pause=0.1)
        crew.stop()
    runs = bench.journal.runs()
    print(
        f"{bench.server}: {jobs} jobs in {len(runs)} runs and {time.monotonic() - began:.0f} s, "
        f"{len(crew.killed_at)} kills, {mischief.counts.total()} of "
        f"{len(bench.proxy.exchanges)} requests broken: {dict(mischief.counts)}"
    )
    assert_in_order(bench.journal, killed_at=crew.killed_at)
    assert_deleted_after_their_handlers(bench)
    assert len(crew.killed_at) >= jobs // 500
    assert len(mischief.counts) > len(FAULTS) / 2
    assert len(runs) < 1.3 * len(ids)
