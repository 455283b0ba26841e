"""Whom a worker asks and when: what idle queues cost, how soon they are served, what goes back."""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from bench import Bench, bench_on, job
from moto_server import moto_process
from processes import Process, until

from jobq.sqs.common.queue import SqsQueue

WEIGHTS = {"critical": 5, "default": 3, "low": 1}


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """Wakes a standard queue's poll within milliseconds of a send."""
    with (
        moto_process() as url,
        bench_on(url, tmp_path_factory.mktemp("moto"), server="moto") as bench,
    ):
        yield bench


@pytest.fixture(scope="module")
def idle_queues(moto: Bench) -> dict[str, SqsQueue]:
    return {name: moto.queue(name) for name in WEIGHTS}


@pytest.fixture(scope="module", autouse=True)
def idle_worker(moto: Bench, idle_queues: dict[str, SqsQueue]) -> Iterator[Process]:
    """It idles while the other tests of this module run."""
    definitions = {
        name: {"name": idle_queues[name].name, "weight": WEIGHTS[name]} for name in WEIGHTS
    }
    with moto.worker(definitions, concurrency=2) as worker:
        yield worker


def test_p10_nothing_is_given_back_twice_by_a_worker_of_one_slot_for_twenty_queues(
    bench: Bench,
) -> None:
    """The times are a tenth of the defaults: a `hold_limit` of 2 s, jobs of up to 3 s."""
    chance = random.Random(20)
    queues: dict[str, Any] = {}
    for n in range(20):
        dead = bench.queue(f"dead{n}")
        queue = bench.queue(f"q{n}", dead_letter_queue=dead, max_receive_count=3)
        lengths = [chance.choice((0.5, 1.0, 3.0)) for _ in range(5)]
        bench.send(queue, [job("sync", f"q{n}-{i}", seconds=s) for i, s in enumerate(lengths)])
        queues[f"q{n}"] = {"name": queue.name, "visibility_timeout": 20}
    options: dict[str, Any] = {"hold_limit": 2, "idle_wait_seconds": 1, "shutdown_timeout": 5}
    with bench.worker(queues, concurrency=1, **options) as worker:
        bench.until_started(20, seconds=60)
        before_stop = bench.traffic
        assert worker.running
    # Twenty messages came with the first polls, and all but a few of them had to go back.
    assert sum(before_stop.given_back.values()) > 5
    assert max(before_stop.given_back.values()) == 1
    assert max(Counter(before_stop.received).values()) <= 2
    started = bench.journal.started()
    assert len({one.partition("-")[0] for one in started}) > 10


def test_p7_an_idle_queue_is_asked_three_times_a_minute(moto: Bench, idle_worker: Process) -> None:
    """At once, after 20 s and after 40 s: the next would be a minute after the first."""
    until(lambda: moto.traffic.receives, "a first poll to end", seconds=25)
    first = min(one.request.at for one in moto.traffic.receives)
    time.sleep(max(0, first + 41 - time.monotonic()))
    begun = Counter(
        request.queue
        for request in [one.request for one in moto.traffic.receives] + moto.proxy.waiting
        if request.operation == "ReceiveMessage" and request.at < first + 41
    )
    assert list(begun.values()) == [3, 3, 3]
    waits = [one.answered_at - one.request.at for one in moto.traffic.receives]
    assert min(waits) > 19.5
    assert {one.request.entries[0]["MaxNumberOfMessages"] for one in moto.traffic.receives} == {1}


def all_polled(bench: Bench, queues: dict[str, SqsQueue]) -> bool:
    polled = {request.queue for request in bench.proxy.waiting}
    return polled == {queue.name for queue in queues.values()}


def test_a_job_on_the_least_weighted_of_three_idle_queues_starts_at_once(
    moto: Bench, idle_worker: Process, idle_queues: dict[str, SqsQueue]
) -> None:
    delays: list[float] = []
    for n in range(9):
        until(lambda: all_polled(moto, idle_queues), "a poll of every queue")
        sent_at = time.monotonic()
        moto.send(idle_queues["low"], [job("sync", f"j{n}")])
        moto.until_started(n + 1)
        delays.append(moto.journal.of("start")[n].at - sent_at)
        until(lambda n=n: len(moto.traffic.deleted) == n + 1, "its delete")
    print("ms from the send to the start:", sorted(round(1000 * delay) for delay in delays))
    assert statistics.median(delays) < 0.05
