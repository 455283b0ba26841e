"""Sends through boto3 and a proxy to ministack: lost replies, split batches, failed entries."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from bench import Bench, drain, job
from faults import both, is_send, refuse_entry_once
from processes import until
from sqs_proxy import Forward, Intercept, Reply, Request

from jobq.core import PublishBatchError, QueueGroup
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.common.queue import SqsQueue
from jobq.sqs.standard.queue import SDK

each_kind = pytest.mark.parametrize("name", ["jobs", "ledger.fifo"])
# A read timeout, and how long a reply has to be held back to miss it.
TIMEOUT_SECONDS = 1
LATE_SECONDS = 1.3


@contextmanager
def group_on(bench: Bench, queue: SqsQueue) -> Generator[QueueGroup]:
    """`q` is the queue, through the proxy, over a client that jobq made."""
    settings = SimpleNamespace(region=None, endpoint=bench.proxy.url, timeout=TIMEOUT_SECONDS)
    client = SDK.make_client(ClientOptions.of(settings))
    try:
        yield QueueGroup.build(client=client, queues={"q": {"name": queue.name}})
    finally:
        client.close()


def lose_first_reply() -> Intercept:
    """The server takes the first send; its reply comes when nobody waits for it any more."""
    lost = False

    def intercept(request: Request, forward: Forward) -> Reply:
        nonlocal lost
        reply = forward(request)
        if is_send(request) and not lost:
            lost = True
            time.sleep(LATE_SECONDS)
        return reply

    return intercept


def is_of(job_id: str) -> Callable[[dict[str, Any]], bool]:
    return lambda entry: json.loads(entry["MessageBody"])["payload"]["id"] == job_id


def sends(bench: Bench) -> list[Request]:
    return [one.request for one in bench.traffic.exchanges if is_send(one.request)]


def test_l4_a_send_that_times_out_and_is_sent_again_is_one_job(bench: Bench) -> None:
    queue = bench.queue("ledger.fifo")
    bench.proxy.intercept = lose_first_reply()
    with group_on(bench, queue) as queues:
        message_id = queues.enqueue("q", "sync", {"id": "j"}, message_group_id="g")
    until(lambda: bench.proxy.broken == [f"SendMessage {queue.name}"], "a client that is gone")
    assert len(sends(bench)) == 1, "the second one, whose reply arrived"
    leases = queue.claim_batch(10, wait=1)
    assert [lease.message_id for lease in leases] == [message_id]


def test_l4_a_batch_that_times_out_and_is_sent_again_is_one_job_for_each_item(
    bench: Bench,
) -> None:
    queue = bench.queue("ledger.fifo")
    bench.proxy.intercept = lose_first_reply()
    jobs = [job("sync", f"j{n}", group=f"g{n % 2}") for n in range(6)]
    with group_on(bench, queue) as queues:
        ids = queues.enqueue_batch("q", jobs)
    until(lambda: bench.proxy.broken == [f"SendMessageBatch {queue.name}"], "a client that is gone")
    assert len(set(ids)) == 6
    leases = queue.claim_batch(10, wait=1)
    assert sorted(lease.message_id for lease in leases) == sorted(ids)


def test_l4_the_same_arguments_enqueued_twice_are_two_jobs(bench: Bench) -> None:
    queue = bench.queue("ledger.fifo")
    same = job("sync", "j", group="g")
    with group_on(bench, queue) as queues:
        ids = {queues.enqueue("q", "sync", {"id": "j"}, message_group_id="g") for _ in range(2)}
        ids.update(queues.enqueue_batch("q", [same, same]))
    assert len(ids) == 4
    assert len(drain(queue)) == 4


@each_kind
def test_m3_a_large_batch_is_split_and_the_one_that_fails_is_named(bench: Bench, name: str) -> None:
    queue = bench.queue(name)
    text = "x" * 150_000
    jobs = [job("sync", f"j{n}", group=f"g{n}", text=text) for n in range(25)]
    bench.proxy.intercept = refuse_entry_once(is_send, is_of("j7"), "InvalidMessageContents")
    with group_on(bench, queue) as queues, pytest.raises(PublishBatchError) as raised:
        queues.enqueue_batch("q", jobs)
    results = raised.value.results
    assert [n for n, result in enumerate(results) if result.error] == [7]
    assert len({result.message_id for result in results}) == 25
    entries = [entry for request in sends(bench) for entry in request.entries]
    tried = [json.loads(entry["MessageBody"])["payload"]["id"] for entry in entries]
    assert sorted(tried) == sorted(f"j{n}" for n in range(25))
    for request in sends(bench):
        assert len(request.entries) <= 10
        assert sum(len(entry["MessageBody"].encode()) for entry in request.entries) <= 1_048_576
    assert len(sends(bench)) == 5
    assert sorted(drain(queue)) == sorted(f"j{n}" for n in range(25) if n != 7)


def test_o8_one_that_fails_and_was_overtaken_is_reported_and_not_sent_behind(
    bench: Bench,
) -> None:
    queue = bench.queue("ledger.fifo")
    bench.proxy.intercept = refuse_entry_once(is_send, is_of("g-2"), "InternalError", sender=False)
    with group_on(bench, queue) as queues, pytest.raises(PublishBatchError) as raised:
        queues.enqueue_batch("q", [job("sync", f"g-{n}", group="g") for n in (1, 2, 3)])
    assert [bool(result.error) for result in raised.value.results] == [False, True, False]
    assert "later message of group 'g'" in str(raised.value.results[1].error)
    assert drain(queue) == ["g-1", "g-3"]


def test_o8_those_that_fail_and_were_not_overtaken_are_sent_again_in_order(bench: Bench) -> None:
    queue = bench.queue("ledger.fifo")
    bench.proxy.intercept = both(
        refuse_entry_once(is_send, is_of("g-2"), "InternalError", sender=False),
        refuse_entry_once(is_send, is_of("g-3"), "InternalError", sender=False),
    )
    with group_on(bench, queue) as queues:
        ids = queues.enqueue_batch("q", [job("sync", f"g-{n}", group="g") for n in (1, 2, 3)])
    assert len(set(ids)) == 3
    assert drain(queue) == ["g-1", "g-2", "g-3"]
    assert [len(request.entries) for request in sends(bench)] == [3, 2]
