"""What a job costs: the requests that a worker and a producer make, counted on their way."""

from __future__ import annotations

from typing import Any

import pytest
from bench import Bench, job

from jobq.core import QueueGroup
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.standard.queue import SDK

BUSY: dict[str, Any] = {"concurrency": 10, "idle_wait_seconds": 2, "shutdown_timeout": 15}


def requests_per_job(bench: Bench, count: int) -> float:
    """Of all that was asked from the first receive to the last delete."""
    traffic = bench.traffic
    assert len(traffic.deleted) == count
    last = traffic.deletes[-1].answered_at
    first = traffic.receives[0].request.at
    cost = sum(first <= one.request.at <= last for one in traffic.exchanges) / count
    print(f"{cost:.3f} requests a job")
    return cost


def test_a_job_on_a_busy_standard_queue_costs_a_fifth_of_a_request(bench: Bench) -> None:
    queue = bench.queue("jobs")
    bench.send(queue, [job("sync", f"j{n}") for n in range(1000)])
    bench.serve_until_empty({"q": {"name": queue.name}}, queue, **BUSY)
    assert requests_per_job(bench, 1000) <= 0.22


@pytest.mark.parametrize(
    ("claim_size", "most"), [pytest.param({}, 2.0, id="one"), pytest.param(10, 1.2, id="ten")]
)
def test_a_job_on_a_busy_fifo_queue_costs_two_requests_or_with_larger_claims_hardly_one(
    bench: Bench, claim_size: Any, most: float
) -> None:
    queue = bench.queue("ledger.fifo")
    jobs = [job("sync", f"{n % 40}-{n}", group=str(n % 40)) for n in range(400)]
    bench.send(queue, jobs)
    definition = {"name": queue.name, **({"claim_size": claim_size} if claim_size else {})}
    bench.serve_until_empty({"q": definition}, queue, **BUSY)
    assert requests_per_job(bench, 400) <= most


@pytest.mark.parametrize("name", ["jobs", "jobs.fifo"])
def test_sending_in_batches_costs_a_tenth_of_a_request_a_message(bench: Bench, name: str) -> None:
    queue = bench.queue(name)
    client = SDK.make_client(ClientOptions(endpoint_url=bench.proxy.url))
    group = QueueGroup.build(client=client, queues={"q": {"name": queue.name}})
    group.enqueue_batch("q", [job("sync", f"j{n}", group=str(n % 7)) for n in range(1000)])
    client.close()
    assert len(bench.traffic.of("SendMessage", "SendMessageBatch")) <= 100
    assert len(bench.traffic.exchanges) <= 110
    assert queue.stats().waiting == 1000
