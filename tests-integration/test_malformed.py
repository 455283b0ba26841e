"""Messages that no handler can run, before a worker process, over ministack."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from bench import Bench, is_empty, job
from processes import until

from jobq.core import Message
from jobq.sqs.common.queue import SqsQueue

QUICK: dict[str, Any] = {"idle_wait_seconds": 2, "shutdown_timeout": 15}
MALFORMED = {
    "text": "hi",
    "an array": "[]",
    "null": "null",
    "deep": '{"job_type": "sync", "payload": ' + '{"a":' * 10_000 + "1" + "}" * 10_001,
    "a MiB of brackets": "[" * 1_048_576,
    "NaN": '{"job_type": "sync", "payload": {"id": "nan", "n": NaN}}',
    "another service's": json.dumps(
        {
            "Type": "Notification",
            "TopicArn": "arn:aws:sns:us-east-1:1:orders",
            "Message": '{"job_type": "sync", "payload": {"id": "inside"}}',
        }
    ),
}


def send_malformed(bench: Bench, queue: SqsQueue) -> None:
    """Each in a group of its own, where there are groups, and a good one behind each."""
    for n, body in enumerate(MALFORMED.values()):
        bench.send_body(queue, body, group=f"g{n}")
        bench.send(queue, [job("async" if n % 2 else "sync", f"behind-{n}", group=f"g{n}")])


@pytest.mark.parametrize("policy", ["delete", "leave", "dead_letter"])
def test_m1_malformed_messages_go_by_the_policy_and_the_good_ones_run(
    bench: Bench, policy: str
) -> None:
    """A group stays behind one that is left; every other message runs."""
    dead = {suffix: bench.queue(f"dead{suffix}") for suffix in ("", ".fifo")}
    standard, fifo = (
        bench.queue(f"jobs{suffix}", dead_letter_queue=target, max_receive_count=9)
        for suffix, target in dead.items()
    )
    for queue in (standard, fifo):
        send_malformed(bench, queue)
    bench.send(fifo, [job("sync", "elsewhere", group="elsewhere")])
    definitions = {
        name: {"name": queue.name, "visibility_timeout": 60, "claim_size": 10}
        for name, queue in (("standard", standard), ("fifo", fifo))
    }
    good = len(MALFORMED)
    runs = good + 1 + (0 if policy == "leave" else good)
    with bench.worker(definitions, concurrency=4, on_malformed=policy, **QUICK) as worker:
        bench.until_started(runs)
        until(lambda: len(worker.of("job_finished")) >= runs + 2 * good, "every end")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    told = [line for line in worker.of("job_finished") if line["outcome"] == "malformed"]
    assert len(told) == 2 * good
    assert all(line["level"] == "warning" and line["reason"] for line in told)
    assert worker.last_line()["refused"] == 2 * good
    assert len(bench.journal.started()) == len(bench.journal.ended()) == runs
    if policy == "leave":
        assert standard.stats().in_flight == good
        kept = fifo.stats()
        assert kept.waiting + kept.in_flight == 2 * good
        return
    assert is_empty(standard)
    assert is_empty(fifo)
    copies = sorted(MALFORMED.values()) if policy == "dead_letter" else []
    for target in dead.values():
        assert sorted(lease.body for lease in target.claim_batch(10)) == copies


def test_m2_an_unknown_job_type_is_counted_left_and_redriven(bench: Bench) -> None:
    """Five minutes are cut short from outside, where they can be: by the receipt."""
    dead = bench.queue("dead")
    queue = bench.queue("jobs", dead_letter_queue=dead, max_receive_count=2)
    body = json.dumps({"job_type": "nobody_knows", "payload": {"id": "u"}})
    queue.publish(Message(body))
    with bench.worker({"q": {"name": queue.name}}, **QUICK) as worker:
        for receive in (1, 2):
            until(lambda n=receive: len(bench.traffic.extensions) == n, "the message hidden")
            hidden = bench.traffic.extensions[-1].request
            assert [entry["VisibilityTimeout"] for entry in hidden.entries] == [300]
            bench.client.change_message_visibility(
                QueueUrl=hidden.body["QueueUrl"],
                ReceiptHandle=bench.traffic.receipts("u")[-1],
                VisibilityTimeout=0,
            )
        until(lambda: not is_empty(dead), "the dead letter")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    lines = [line for line in worker.of("job_finished") if line["job_type"] == "nobody_knows"]
    assert [(line["outcome"], line["level"]) for line in lines] == [
        ("unknown_job_type", "warning")
    ] * 2
    assert worker.last_line()["refused"] == 2
    assert bench.traffic.deleted == []
    lease = dead.claim(wait=1)
    assert lease is not None
    assert lease.body == body
