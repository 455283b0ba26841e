"""Heartbeats: what is in hand stays in hand, however long and however rudely its handler runs."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
from bench import Bench, job
from faults import both, is_delete, is_extension, refuse_first
from processes import assert_adds_up, until
from sqs_proxy import Forward, Reply, Request, refusal

QUICK: dict[str, Any] = {"idle_wait_seconds": 2, "shutdown_timeout": 15}


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_l8_handlers_that_sleep_for_three_visibility_timeouts_run_once(
    bench: Bench, kind: str
) -> None:
    """`blocking` is an async handler that calls `time.sleep`, and so blocks its loop."""
    standard, fifo = bench.queue("jobs"), bench.queue("jobs.fifo")
    ids = bench.send(standard, [job("blocking", "blocking", seconds=6.5)])
    ids += bench.send(standard, [job("async", "behind the blocking one")])
    ids += bench.send(fifo, [job("sync", "sync", seconds=6.5, group="g")])
    definitions = {
        "standard": {"name": standard.name, "visibility_timeout": 2},
        "fifo": {"name": fifo.name, "visibility_timeout": 2},
    }
    setup = {"kind": kind}
    bench.serve_until_empty(definitions, standard, fifo, concurrency=3, setup=setup, **QUICK)
    assert sorted(bench.traffic.received) == sorted(ids)
    assert sorted(bench.journal.started()) == sorted(bench.journal.ended()) == sorted(ids)
    assert sorted(bench.traffic.deleted) == sorted(ids)


def test_l7_ten_in_hand_are_each_received_once_and_extended_in_one_call_a_tick(
    bench: Bench,
) -> None:
    queue = bench.queue("jobs")
    ids = bench.send(
        queue, [job("sync" if n % 2 else "blocking", f"j{n}", seconds=0.8) for n in range(10)]
    )
    definition = {"name": queue.name, "visibility_timeout": 3, "claim_size": 10}
    greedy = {**QUICK, "claim_ahead": 30, "hold_limit": 60}
    bench.serve_until_empty({"q": definition}, queue, **greedy)
    traffic = bench.traffic
    assert sorted(traffic.received) == sorted(bench.journal.started()) == sorted(ids)
    assert sorted(traffic.deleted) == sorted(ids)
    assert traffic.given_back == {}
    ticks = (traffic.deletes[-1].answered_at - traffic.receives[0].answered_at) / (3 / 3)
    assert ticks / 2 <= len(traffic.extensions) <= ticks + 1
    assert max(len(one.request.entries) for one in traffic.extensions) >= 9


def test_l1_a_job_due_in_two_hours_waits_in_its_queue(bench: Bench) -> None:
    """After its first run neither the process nor its heartbeat know of it any more."""
    standard, fifo = bench.queue("jobs"), bench.queue("jobs.fifo")
    ids = bench.send(standard, [job("async", "s", fails=1)])
    ids += bench.send(fifo, [job("sync", "f", fails=1, group="g")])
    definitions = {
        "standard": {"name": standard.name, "visibility_timeout": 2},
        "fifo": {"name": fifo.name, "visibility_timeout": 2},
    }
    retry = {"base_delay": 7200, "max_delay": 7200, "jitter": False}
    with bench.worker(definitions, retry=retry, concurrency=2, **QUICK) as worker:
        until(lambda: len(worker.of("job_finished")) == 2, "two ends")
        time.sleep(2.5)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    changes = bench.traffic.of("ChangeMessageVisibility", "ChangeMessageVisibilityBatch")
    seconds = [entry["VisibilityTimeout"] for one in changes for entry in one.request.entries]
    assert seconds == [7200, 7200]
    assert sorted(bench.traffic.received) == sorted(bench.journal.started()) == sorted(ids)
    assert [line["outcome"] for line in worker.of("job_finished")] == ["retry", "retry"]
    assert_adds_up(worker.last_line(), received=2)
    assert worker.last_line()["started"] == 2


def test_l9_jobs_whose_first_two_extensions_are_throttled_run_once(bench: Bench) -> None:
    standard, fifo = bench.queue("jobs"), bench.queue("jobs.fifo")
    ids = bench.send(standard, [job("sync", "s", seconds=4)])
    ids += bench.send(fifo, [job("async", "f", seconds=4, group="g")])
    bench.proxy.intercept = both(
        *(
            refuse_first(
                2,
                lambda request, name=queue.name: is_extension(request) and request.queue == name,
                "RequestThrottled",
            )
            for queue in (standard, fifo)
        )
    )
    definitions = {
        "standard": {"name": standard.name, "visibility_timeout": 3},
        "fifo": {"name": fifo.name, "visibility_timeout": 3},
    }
    bench.serve_until_empty(definitions, standard, fifo, concurrency=2, **QUICK)
    for queue in (standard, fifo):
        tried = [one for one in bench.traffic.extensions if one.request.queue == queue.name]
        assert [one.reply.status for one in tried[:3]] == [400, 400, 200]
    assert sorted(bench.traffic.received) == sorted(bench.traffic.deleted) == sorted(ids)
    assert sorted(bench.journal.started()) == sorted(ids)


def test_l12_jobs_whose_deletes_are_throttled_past_their_leases_run_once(bench: Bench) -> None:
    standard, fifo = bench.queue("jobs"), bench.queue("jobs.fifo")
    bench.send(standard, [job("sync", "s")])
    bench.send(fifo, [job("async", "f", group="g")])
    refused_until = time.monotonic() + 60

    def refuse(request: Request, forward: Forward) -> Reply:
        nonlocal refused_until
        if not is_delete(request):
            return forward(request)
        refused_until = min(refused_until, time.monotonic() + 3)
        late = time.monotonic() > refused_until
        return forward(request) if late else refusal("RequestThrottled")

    bench.proxy.intercept = refuse
    definitions = {
        "standard": {"name": standard.name, "visibility_timeout": 2},
        "fifo": {"name": fifo.name, "visibility_timeout": 2},
    }
    bench.serve_until_empty(definitions, standard, fifo, concurrency=2, **QUICK)
    traffic = bench.traffic
    assert len(traffic.deletes) >= 4
    assert {job for one in traffic.extensions for job in traffic.jobs(one)} == {"f", "s"}
    assert sorted(traffic.received) == sorted(traffic.deleted) == ["f", "s"]
    assert sorted(bench.journal.started()) == ["f", "s"]


def test_l13_a_role_that_may_not_delete_runs_jobs_once_and_claims_no_more(bench: Bench) -> None:
    standard, fifo = bench.queue("jobs"), bench.queue("jobs.fifo")
    for kind, queue in (("s", standard), ("f", fifo)):
        bench.send(
            queue, [job(("sync", "async")[n % 2], f"{kind}{n}", group=f"g{n}") for n in range(40)]
        )
    bench.proxy.intercept = refuse_first(1000, is_delete, "AccessDeniedException", status=403)
    definitions = {
        "standard": {"name": standard.name, "visibility_timeout": 2},
        "fifo": {"name": fifo.name, "visibility_timeout": 2},
    }
    with bench.worker(definitions, **QUICK) as worker:
        until(lambda: len(worker.of("queue_closed")) == 2, "both queues closed")
        received = len(bench.traffic.received)
        refused: dict[str, float] = {}
        for one in bench.traffic.deletes:
            refused.setdefault(one.request.queue, one.answered_at)
        time.sleep(3)
        assert worker.running
    started = bench.journal.started()
    assert len(started) == len(set(started)) < 80
    late = [
        one for one in bench.traffic.receives if one.request.at > refused[one.request.queue] + 0.5
    ]
    assert not late
    assert len(bench.traffic.received) <= received + 10
    assert bench.traffic.deleted == []
