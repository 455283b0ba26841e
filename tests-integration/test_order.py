"""FIFO groups through a real worker: in order, one at a time, whatever fails on the way."""

from __future__ import annotations

import signal
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from bench import Bench, job
from faults import both, is_delete, is_extension, refuse_entry_once, refuse_first
from journal import Run, assert_in_order
from processes import until

# All that is there is taken in hand at once, and kept.
GREEDY: dict[str, Any] = {
    "idle_wait_seconds": 2,
    "shutdown_timeout": 15,
    "claim_ahead": 60,
    "hold_limit": 60,
    "concurrency": 8,
}

COLOURS = ("sync", "async")


def names(bench: Bench, job_id: str) -> Callable[[dict[str, Any]], bool]:
    """Picks the entries that name a receipt of this job."""
    return lambda entry: entry["ReceiptHandle"] in bench.traffic.receipts(job_id)


def overlap(one: Run, other: Run) -> bool:
    assert one.end
    assert other.end
    return one.start.at < other.end.at and other.start.at < one.end.at


def test_o1_groups_run_in_order_inside_and_beside_one_another(bench: Bench) -> None:
    queue = bench.queue("ledger.fifo")
    handlers = {"a": "sync", "b": "async", "c": "sync"}
    ids = bench.send(
        queue,
        [job(handlers[g], f"{g}-{n}", seconds=0.1, group=g) for n in range(10) for g in handlers],
    )
    bench.serve_until_empty({"q": {"name": queue.name, "claim_size": 10}}, queue, **GREEDY)
    assert sorted(bench.journal.started()) == sorted(bench.journal.ended()) == sorted(ids)
    assert_in_order(bench.journal)
    groups = bench.journal.by_group()
    assert any(overlap(one, other) for one in groups["a"] for other in groups["b"] + groups["c"])


@pytest.mark.parametrize(
    ("handler", "retry"),
    [
        pytest.param("async", {}, id="left_to_its_timeout"),
        pytest.param("sync", {"base_delay": 1}, id="hidden_for_a_delay"),
    ],
)
def test_o2_a_message_that_comes_back_is_done_before_those_behind_it(
    bench: Bench, handler: str, retry: dict[str, Any]
) -> None:
    """In three groups beside one another: a handler fails, a delete fails, a lease is lost."""
    second = {"fails": {"fails": 1}, "delete": {}, "lease": {"seconds": 4}}
    queue = bench.queue("ledger.fifo")
    for n in range(1, 5):
        jobs = [
            job(handler, f"{g}-{n}", group=g, **(payload if n == 2 else {}))
            for g, payload in second.items()
        ]
        bench.send(queue, jobs)
    bench.proxy.intercept = both(
        refuse_entry_once(is_delete, names(bench, "delete-2"), "ReceiptHandleIsInvalid"),
        refuse_entry_once(is_extension, names(bench, "lease-2"), "ReceiptHandleIsInvalid"),
    )
    definition = {"name": queue.name, "claim_size": 10, "visibility_timeout": 3}
    worker = bench.serve_until_empty({"q": definition}, queue, retry=retry, **GREEDY)
    for group, runs in bench.journal.by_group().items():
        assert [run.start.id for run in runs] == [f"{group}-{n}" for n in (1, 2, 2, 3, 4)]
        assert not any(overlap(one, other) for one, other in pairwise(runs))
    outcomes = {line["outcome"] for line in worker.of("job_finished")}
    assert outcomes >= {"success", "retry", "delete_failed", "heartbeat_failed"}


def test_o3_a_group_beside_one_that_failed_is_done_in_the_same_pass(bench: Bench) -> None:
    queue = bench.queue("ledger.fifo")
    jobs = [
        job(COLOURS[n % 2], f"{g}-{n}", group=g, fails=1 if (g, n) == ("a", 0) else 0)
        for n in range(4)
        for g in "ab"
    ]
    bench.send(queue, jobs)
    definition = {"name": queue.name, "claim_size": 10}
    retry = {"base_delay": 2, "jitter": False}
    bench.serve_until_empty({"q": definition}, queue, retry=retry, **GREEDY)
    started = bench.journal.started()
    again = len(started) - 1 - started[::-1].index("a-0")
    assert [one for one in started[:again] if one.startswith("b")] == [f"b-{n}" for n in range(4)]
    assert [one for one in started if one.startswith("a")] == ["a-0", *(f"a-{n}" for n in range(4))]
    assert_in_order(bench.journal)


def test_o4_a_group_in_hand_for_longer_than_its_leases_runs_once_and_in_order(
    bench: Bench,
) -> None:
    queue = bench.queue("ledger.fifo")
    jobs = [job(COLOURS[n % 2], f"g-{n}", group="g", seconds=0.8) for n in range(8)]
    ids = bench.send(queue, jobs)
    definition = {"name": queue.name, "claim_size": 10, "visibility_timeout": 3}
    bench.serve_until_empty({"q": definition}, queue, **GREEDY)
    assert bench.traffic.received == bench.journal.started() == bench.journal.ended() == ids
    assert_in_order(bench.journal)


def test_o5_an_unknown_job_type_stalls_its_own_group_for_a_bounded_time(bench: Bench) -> None:
    queue = bench.queue("ledger.fifo")
    bench.send(queue, [job("nobody_knows", "a-0", group="a"), job("sync", "a-1", group="a")])
    bench.send(queue, [job("sync", f"b-{n}", group="b") for n in range(3)])
    definition = {"name": queue.name, "claim_size": 10}
    with bench.worker({"q": definition}, **GREEDY) as worker:
        until(lambda: len(bench.traffic.deleted) == 3, "the other group")
        until(lambda: bench.traffic.extensions, "the unknown one hidden")
        assert bench.journal.started() == ["b-0", "b-1", "b-2"]
        (line,) = [one for one in worker.of("job_finished") if "unknown" in one["outcome"]]
        assert (line["level"], line["job_type"]) == ("warning", "nobody_knows")
        (hidden,) = bench.traffic.extensions
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        assert bench.traffic.jobs(hidden) == ["a-0"]
        assert hidden.request.entries[0]["VisibilityTimeout"] == 300
    # What would end the stall in five minutes, or by the redrive policy: the message is gone.
    (receipt,) = bench.traffic.receipts("a-0")
    bench.client.delete_message(QueueUrl=hidden.request.body["QueueUrl"], ReceiptHandle=receipt)
    bench.serve_until_empty({"q": definition}, queue, **GREEDY)
    assert bench.journal.started() == ["b-0", "b-1", "b-2", "a-1"]


def test_o7_the_next_of_a_group_waits_until_the_delete_before_it_is_confirmed(
    bench: Bench,
) -> None:
    queue = bench.queue("ledger.fifo")
    ids = bench.send(queue, [job(COLOURS[n % 2], f"g-{n}", group="g") for n in range(1, 5)])
    is_second = names(bench, "g-2")
    bench.proxy.intercept = refuse_first(
        2,
        lambda request: is_delete(request) and any(map(is_second, request.entries)),
        "RequestThrottled",
    )
    definition = {"name": queue.name, "claim_size": 10, "visibility_timeout": 10}
    bench.serve_until_empty({"q": definition}, queue, **GREEDY)
    assert bench.traffic.received == bench.journal.started() == ids
    (confirmed,) = [one for one in bench.traffic.deletes if bench.traffic.confirmed(one) == ["g-2"]]
    third = bench.journal.runs()[2].start
    assert third.at > confirmed.request.at
    tries = [one for one in bench.traffic.deletes if bench.traffic.jobs(one) == ["g-2"]]
    assert [one.reply.status for one in tries] == [400, 400, 200]
