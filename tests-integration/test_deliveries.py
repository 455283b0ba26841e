"""Batches of deletes through a worker, boto3 and a proxy to ministack, entry by entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench import Bench, is_empty, job
from faults import both, is_delete, refuse_entry_once
from processes import until
from sqs_proxy import Forward, Intercept, Reply, Request

# Handlers that await the same time on one loop end together, and so are deleted together.
GREEDY: dict[str, Any] = {
    "idle_wait_seconds": 2,
    "shutdown_timeout": 15,
    "claim_ahead": 60,
    "hold_limit": 60,
}


def names(bench: Bench, job_id: str) -> Callable[[dict[str, Any]], bool]:
    return lambda entry: entry["ReceiptHandle"] in bench.traffic.receipts(job_id)


def deliver_twice(bench: Bench) -> Intercept:
    """Give the first full reply one of its messages once more, with another receipt."""
    done = False

    def intercept(request: Request, forward: Forward) -> Reply:
        nonlocal done
        reply = forward(request)
        if done or request.operation != "ReceiveMessage" or len(reply.messages) < 9:
            return reply
        done = True
        url = request.body["QueueUrl"]
        bench.client.change_message_visibility(
            QueueUrl=url, ReceiptHandle=reply.messages[3]["ReceiptHandle"], VisibilityTimeout=0
        )
        again = bench.client.receive_message(
            QueueUrl=url,
            VisibilityTimeout=request.body["VisibilityTimeout"],
            MessageSystemAttributeNames=["All"],
            WaitTimeSeconds=5,
        )["Messages"]
        return replace(reply, body={**reply.body, "Messages": [*reply.messages, *again]})

    return intercept


def test_l2_a_message_received_twice_at_once_runs_once_and_all_are_deleted_in_one_call(
    bench: Bench,
) -> None:
    queue = bench.queue("jobs")
    ids = bench.send(queue, [job("async", f"j{n}", seconds=0.5) for n in range(9)])
    bench.proxy.intercept = deliver_twice(bench)
    definition = {"name": queue.name, "claim_size": 10}
    bench.serve_until_empty({"q": definition}, queue, concurrency=10, **GREEDY)
    assert len(bench.traffic.received) == 10
    assert sorted(bench.journal.started()) == sorted(bench.journal.ended()) == sorted(ids)
    (call,) = bench.traffic.deletes
    assert sorted(bench.traffic.jobs(call)) == sorted(ids)
    assert len({entry["Id"] for entry in call.request.entries}) == 9


def test_l3_of_a_delete_batch_one_entry_is_retried_one_logged_and_the_others_stand(
    bench: Bench,
) -> None:
    queue = bench.queue("jobs")
    ids = bench.send(queue, [job("async", f"j{n}", seconds=1) for n in range(25)])
    bench.proxy.intercept = both(
        refuse_entry_once(is_delete, names(bench, "j3"), "InternalError", sender=False),
        refuse_entry_once(is_delete, names(bench, "j4"), "InvalidParameterValue"),
    )
    definition = {"name": queue.name, "claim_size": 10}
    with bench.worker({"q": definition}, concurrency=25, **GREEDY) as worker:
        until(lambda: len(bench.traffic.deleted) == 24, "24 deletes")
        until(lambda: len(worker.of("job_finished")) == 25, "25 ends")
    traffic = bench.traffic
    assert sorted(bench.journal.ended()) == sorted(ids)
    assert sorted(traffic.deleted) == sorted(set(ids) - {"j4"})
    tried = [job_id for call in traffic.deletes for job_id in traffic.jobs(call)]
    assert sorted(tried) == sorted([*ids, "j3"])
    assert sorted(len(call.request.entries) for call in traffic.deletes) == [1, 5, 10, 10]
    failed = [line for line in worker.of("job_finished") if line["outcome"] != "success"]
    assert [(line["outcome"], line["processing_outcome"]) for line in failed] == [
        ("delete_failed", "success")
    ]
    assert not is_empty(queue)
