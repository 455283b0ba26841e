"""A process that stood still past its visibility timeouts acts on none of its leases."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest
from bench import Bench, job
from processes import until

VISIBILITY = 2


@pytest.mark.parametrize(("name", "handler"), [("jobs", "async"), ("ledger.fifo", "sync")])
def test_a_suspended_worker_starts_and_deletes_nothing_that_ran_out_meanwhile(
    bench: Bench, name: str, handler: str
) -> None:
    queue = bench.queue(name)
    grouped = name.endswith(".fifo")
    ids = bench.send(
        queue,
        [job(handler, f"j{n}", seconds=2, group=str(n) if grouped else None) for n in range(8)],
    )
    definition = {"name": queue.name, "claim_size": 10, "visibility_timeout": VISIBILITY}
    options: dict[str, Any] = {"idle_wait_seconds": 1, "shutdown_timeout": 15}
    greedy: dict[str, Any] = {"claim_ahead": 60, "hold_limit": 60, **options}
    with bench.worker({"q": definition}, concurrency=2, **greedy) as worker:
        bench.until_started(2)
        until(lambda: len(bench.traffic.received) == 8, "all in hand")
        worker.signal(signal.SIGSTOP)
        time.sleep(VISIBILITY + 1)
        # Somebody else's by now, every one of them.
        taken = [lease for _ in range(4) for lease in queue.claim_batch(10, visibility=60)]
        assert len(taken) == len(ids)
        before = bench.journal.started()
        resumed = worker.signal(signal.SIGCONT)
        time.sleep(1)
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    assert bench.journal.started() == before
    stale = [
        one
        for one in (*bench.traffic.deletes, *bench.traffic.extensions, *bench.traffic.give_backs)
        if one.request.at > resumed
    ]
    assert stale == []
    assert {line["outcome"] for line in worker.of("job_finished")} <= {
        "heartbeat_failed",
        "released",
    }
    assert all(result.error is None for result in queue.ack_batch(taken))
