"""A stop: what runs ends, what waits goes back, and the last line accounts for all of it."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, drain, is_empty, job
from processes import assert_adds_up, until
from sqs_proxy import Forward, Reply, Request

# A stop within seconds. And: all that is there is taken in hand at once, and kept.
QUICK: dict[str, Any] = {"idle_wait_seconds": 2, "shutdown_timeout": 15}
GREEDY: dict[str, Any] = {**QUICK, "claim_ahead": 60, "hold_limit": 60}

COLOURS = ("sync", "async")

each_kind = pytest.mark.parametrize("name", ["jobs", "jobs.fifo"])


def group_of(name: str, group: object) -> str | None:
    return str(group) if name.endswith(".fifo") else None


@each_kind
def test_s1_what_a_poll_brings_after_the_signal_is_given_back_in_one_call(
    bench: Bench, name: str
) -> None:
    queue = bench.queue(name)
    sent = threading.Event()

    def hold(request: Request, forward: Forward) -> Reply:
        if request.operation == "ReceiveMessage":
            assert sent.wait(20)
        return forward(request)

    bench.proxy.intercept = hold
    definition = {"name": queue.name, "claim_size": 10}
    with bench.worker({"q": definition}, concurrency=8, **QUICK) as worker:
        until(lambda: bench.proxy.waiting, "the long poll")
        worker.signal(signal.SIGTERM)
        worker.until_logged("worker_stopping")
        ids = bench.send(queue, [job("sync", f"j{n}", group=group_of(name, "g")) for n in range(3)])
        sent.set()
        assert worker.wait() == 0
    assert bench.journal.started() == []
    assert bench.traffic.received == ids
    (call,) = bench.traffic.give_backs
    assert call.request.operation == "ChangeMessageVisibilityBatch"
    assert sorted(bench.traffic.jobs(call)) == ids
    assert sorted(drain(queue)) == ids
    assert_adds_up(worker.last_line(), received=3)
    assert worker.last_line()["given_back"] == 3


def test_s2_not_one_receive_starts_after_the_signal(bench: Bench) -> None:
    queue = bench.queue("jobs")
    bench.send(queue, [job(COLOURS[n % 2], f"j{n}", seconds=1) for n in range(1000)])
    with bench.worker({"q": {"name": queue.name}}, concurrency=4, **QUICK) as worker:
        bench.until_started(10)
        at = worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    # The signal takes a moment to arrive. The slots fell free a second after it.
    late = [one for one in bench.traffic.receives if one.request.at > at + 0.5]
    assert not late
    assert_adds_up(worker.last_line(), received=len(bench.traffic.received))


@pytest.mark.parametrize(("name", "handler"), [("jobs", "async"), ("jobs.fifo", "sync")])
def test_s3_running_jobs_are_deleted_once_and_the_one_that_waits_is_given_back_once(
    bench: Bench, name: str, handler: str
) -> None:
    queue = bench.queue(name)
    bench.send(
        queue, [job(handler, f"j{n}", seconds=1.5, group=group_of(name, n)) for n in range(3)]
    )
    definition = {"name": queue.name, "claim_size": 10}
    with bench.worker({"q": definition}, concurrency=2, **GREEDY) as worker:
        bench.until_started(2)
        until(lambda: len(bench.traffic.received) == 3, "three in hand")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    started = bench.journal.started()
    (waiting,) = {"j0", "j1", "j2"} - set(started)
    assert sorted(bench.traffic.deleted) == sorted(started) == sorted(bench.journal.ended())
    assert bench.traffic.given_back == {waiting: 1}
    assert drain(queue) == [waiting]
    assert_adds_up(worker.last_line(), received=3)


def test_s4_at_any_instant_only_what_succeeded_is_deleted(bench: Bench) -> None:
    queue = bench.queue("ledger.fifo")
    ids = bench.send(
        queue, [job("async", f"j{n}", seconds=0.02, group=str(n % 5)) for n in range(400)]
    )
    received = 0
    for delay in (0.05, 0.17, 0.31, 0.53):
        with bench.worker({"q": {"name": queue.name}}, concurrency=4, **QUICK) as worker:
            time.sleep(delay)
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        total = len(bench.traffic.received)
        assert_adds_up(worker.last_line(), received=total - received)
        received = total
    deleted, ended = bench.traffic.deleted, bench.journal.ended()
    assert 0 < len(deleted) < 400
    assert sorted(deleted) == sorted(ended)
    assert sorted(drain(queue)) == sorted(set(ids) - set(deleted))


def test_s5_the_deletes_of_jobs_that_just_ended_are_flushed_in_one_call(
    bench: Bench, tmp_path: Path
) -> None:
    queue, first, second = bench.queue("jobs"), tmp_path / "first", tmp_path / "second"
    bench.send(queue, [job("sync", f"j{n}", gate=str(first)) for n in range(3)])
    bench.send(queue, [job("sync", "slow", gate=str(second))])
    with bench.worker({"q": {"name": queue.name}}, concurrency=4, **QUICK) as worker:
        bench.until_started(4)
        first.touch()
        bench.until_ended(3)
        worker.signal(signal.SIGTERM)
        worker.until_logged("worker_stopping")
        second.touch()
        assert worker.wait() == 0
    # Two calls may be answered in either order.
    assert sorted(sorted(bench.traffic.jobs(one)) for one in bench.traffic.deletes) == [
        ["j0", "j1", "j2"],
        ["slow"],
    ]
    assert is_empty(queue)
    assert_adds_up(worker.last_line(), received=4)


def test_s7_an_idle_worker_ends_with_its_polls_and_cuts_no_connection(bench: Bench) -> None:
    standard, fifo = bench.queue("jobs"), bench.queue("jobs.fifo")
    definitions = {"standard": {"name": standard.name}, "fifo": {"name": fifo.name}}
    options: dict[str, Any] = {**QUICK, "idle_wait_seconds": 3}
    with bench.worker(definitions, concurrency=8, **options) as worker:
        until(lambda: len(bench.proxy.waiting) == 2, "the long polls")
        polls = list(bench.proxy.waiting)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        ended = time.monotonic()
    # The server ends the polls; what is left is the time that the process takes to be gone.
    assert 3 <= ended - polls[0].at < 3 + 2
    assert {id(one.request) for one in bench.traffic.receives} == {id(poll) for poll in polls}
    time.sleep(0.1)  # the proxy's threads see the connections end
    assert bench.proxy.broken == []
    assert_adds_up(worker.last_line(), received=0)
