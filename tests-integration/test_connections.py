"""The connections of one process to ministack: enough for all that is out at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from bench import Bench, job
from processes import until

VISIBILITY = 3


def test_c1_extensions_are_answered_within_a_second_beside_twelve_polls_and_twenty_jobs(
    bench: Bench,
) -> None:
    """The client is one that jobq made; one slot is free, so that every queue is polled."""
    queues = [bench.queue(f"q{n}{'.fifo' if n % 3 == 0 else ''}") for n in range(12)]
    ids: list[str] = []
    for queue, handler in ((queues[0], "async"), (queues[11], "sync")):
        jobs = [job(handler, f"{handler}{n}", seconds=5, group=f"g{n}") for n in range(10)]
        ids += bench.send(queue, jobs)
    definitions = {
        queue.name: {"name": queue.name, "visibility_timeout": VISIBILITY} for queue in queues
    }
    options: dict[str, Any] = {"idle_wait_seconds": 5, "concurrency": 21}
    with bench.worker(definitions, **options) as worker:
        bench.until_started(20)
        until(
            lambda: {one.queue for one in bench.proxy.waiting} == {one.name for one in queues},
            "a long poll of every queue",
        )
        bench.until_ended(20)
        until(lambda: len(bench.traffic.deleted) == 20, "the deletes")
    traffic = bench.traffic
    assert sorted(bench.journal.started()) == sorted(traffic.received) == sorted(ids)
    leased: dict[str, list[float]] = {one: [] for one in ids}
    for exchange in [*traffic.receives, *traffic.extensions]:
        messages = exchange.reply.messages or exchange.request.entries
        for receipt in {message.get("ReceiptHandle") for message in messages}:
            for one in ids:
                if receipt in traffic.receipts(one):
                    leased[one].append(exchange.answered_at)
    for times in leased.values():
        assert len(times) >= 4
        for before, after in pairwise(sorted(times)):
            assert after - before <= VISIBILITY / 3 + 1
    said = "".join(worker.other_output) + "".join(map(str, worker.lines))
    assert "pool" not in said
