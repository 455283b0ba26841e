"""Nothing that arrives ends a worker, or is asked for again at the speed of the network."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import breakages
import pytest
from bench import Bench, is_empty, job
from breakages import answered_with
from faults import DELETES, EXTENSIONS
from processes import until
from sqs_proxy import Forward, Intercept, Reply, Request, Wire

ANSWERS: dict[str, Intercept] = {
    "html": breakages.maintenance,
    "html-as-json": answered_with(breakages.HTML),
    "empty": breakages.nothing,
    "binary": breakages.garbage,
    "truncated": breakages.halved,
    "cut-in-headers": breakages.cut_in_headers,
    "moved": breakages.moved,
    "error-with-200": breakages.error_with_200,
    "bad-gateway": breakages.bad_gateway,
    "throttled": breakages.throttled,
    "null": answered_with(b"null"),
    "list": answered_with(b"[]"),
    "string": answered_with(b'"Messages"'),
    "deep": answered_with(b"[" * 100_000),
    "no-list": answered_with(b'{"Messages": "none", "Successful": 5, "Failed": {"a": 1}}'),
    "nulls": answered_with(b'{"Messages": [null, null], "Successful": [null], "Failed": [null]}'),
    "strings": answered_with(b'{"Messages": ["a"], "Successful": ["0"], "Failed": ["0"]}'),
    "empty-ones": answered_with(b'{"Messages": [{}, {}], "Successful": [{}], "Failed": [{}]}'),
    "error-of-numbers": answered_with(b'{"__type": 5, "message": {"a": 1}}', status=400),
    "error-of-nothing": answered_with(b"", status=400),
}
OPTIONS: dict[str, Any] = {"idle_wait_seconds": 1, "shutdown_timeout": 15}


class ByQueue:
    """Answers so many of an operation's requests badly, each queue's in its own way."""

    def __init__(self, operations: tuple[str, ...], ways: dict[str, Intercept], times: int) -> None:
        self._operations = operations
        self._ways = ways
        self._left = dict.fromkeys(ways, times)
        self.at: dict[str, list[float]] = {name: [] for name in ways}

    def __call__(self, request: Request, forward: Forward) -> Reply | Wire:
        name = request.queue
        if request.operation not in self._operations or not self._left.get(name):
            return forward(request)
        self._left[name] -= 1
        self.at[name].append(request.at)
        return self._ways[name](request, forward)


@pytest.mark.parametrize("kind", ["", ".fifo"], ids=["standard", "fifo"])
def test_a_receive_that_is_answered_badly_backs_off_and_its_queue_is_served_again(
    bench: Bench, kind: str
) -> None:
    queues = {name: bench.queue(f"{name}{kind}") for name in ANSWERS}
    for name, queue in queues.items():
        bench.send(queue, [job("sync", name, group="g" if kind else None)])
    ways = {queues[name].name: ANSWERS[name] for name in ANSWERS}
    bench.proxy.intercept = bad = ByQueue(("ReceiveMessage",), ways, times=2)
    definitions = {
        name: {"name": queue.name, "visibility_timeout": 3} for name, queue in queues.items()
    }
    with bench.worker(definitions, concurrency=4, **OPTIONS) as worker:
        until(lambda: all(map(is_empty, queues.values())), "every queue served", pause=0.1)
        assert worker.running
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    assert sorted(set(bench.journal.ended())) == sorted(ANSWERS)
    for name, (first, second) in bad.at.items():
        assert second - first > 0.49, name
        served = [one.request.at for one in bench.traffic.of("ReceiveMessage", queue=name)]
        assert served[2] - second > 0.99, name
    assert {line["queue"] for line in worker.of("receive_failed")} == set(ANSWERS)
    assert worker.of("worker_crashed") == []


def test_deletes_and_extensions_that_are_answered_badly_are_tried_again(bench: Bench) -> None:
    """Of every second queue a FIFO one."""
    kinds = cycle(["", ".fifo"])
    queues = {name: bench.queue(f"{name}{next(kinds)}") for name in ANSWERS}
    for name, queue in queues.items():
        group = "g" if queue.name.endswith(".fifo") else None
        bench.send(queue, [job("async", name, seconds=2.5, group=group)])
    ways = {queues[name].name: ANSWERS[name] for name in ANSWERS}
    bench.proxy.intercept = bad = ByQueue((*DELETES, *EXTENSIONS), ways, times=2)
    definitions = {
        name: {"name": queue.name, "visibility_timeout": 6} for name, queue in queues.items()
    }
    with bench.worker(definitions, concurrency=len(queues), **OPTIONS) as worker:
        until(lambda: all(map(is_empty, queues.values())), "empty queues", seconds=40, pause=0.1)
        assert worker.running
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    assert sorted(bench.journal.started()) == sorted(bench.journal.ended()) == sorted(ANSWERS)
    assert all(len(at) == 2 for at in bad.at.values())
    assert worker.of("worker_crashed") == []


def test_settings_that_are_answered_badly_are_asked_for_again_at_start(bench: Bench) -> None:
    ways = {
        name: ANSWERS[name] for name in ("html", "empty", "binary", "truncated", "null", "nulls")
    }
    queues = {name: bench.queue(name) for name in ways}
    by_queue = {queues[name].name: ways[name] for name in ways}
    bench.proxy.intercept = bad = ByQueue(("GetQueueAttributes",), by_queue, times=1)
    client = bench.client
    definitions = {
        name: {"url": client.get_queue_url(QueueName=queue.name)["QueueUrl"]}
        for name, queue in queues.items()
    }
    with bench.worker(definitions, **OPTIONS) as worker:
        assert len(worker.of("queue_not_reached")) == len(ways)
        assert all(bad.at.values())


Change = Callable[[dict[str, Any]], Any]
MESSAGES: dict[str, Change] = {
    "null": lambda message: None,
    "nothing in it": lambda message: {},
    "no id": lambda message: {**message, "MessageId": None},
    "a number for an id": lambda message: {**message, "MessageId": 5},
    "no receipt": lambda message: {**message, "ReceiptHandle": None},
    "no body": lambda message: {**message, "Body": None},
    "an object for a body": lambda message: {**message, "Body": {"secret": "s3cr3t"}},
    "a count of words": lambda message: attributed(message, ApproximateReceiveCount="many"),
    "a count of 5,000 digits": lambda message: attributed(
        message, ApproximateReceiveCount="9" * 5000
    ),
    "an endless time": lambda message: attributed(message, SentTimestamp="9" * 400),
    "an object for a group": lambda message: attributed(message, MessageGroupId={"a": 1}),
    "an attribute without a type": lambda message: {
        **message,
        "MessageAttributes": {"max_attempts": {"StringValue": "1"}},
    },
    "a list for an attribute": lambda message: {
        **message,
        "MessageAttributes": {"max_attempts": {"DataType": "Number", "StringValue": ["1"]}},
    },
}
# Odd, and still a message that can be run.
TAKEN: dict[str, Change] = {
    "a count of 30 digits": lambda message: attributed(message, ApproximateReceiveCount="9" * 30),
    "a count below nothing": lambda message: attributed(message, ApproximateReceiveCount="-7"),
    "a time before all": lambda message: attributed(message, SentTimestamp="-99999999999999"),
    "no attributes": lambda message: {**message, "Attributes": None},
    "strange attributes": lambda message: attributed(message, Strange=[1, {"a": None}]),
    "attempts that are none": lambda message: {
        **message,
        "MessageAttributes": {"max_attempts": {"DataType": "Number", "StringValue": "1e99"}},
    },
}


def attributed(message: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**message, "Attributes": {**message["Attributes"], **changes}}


def test_a_message_that_can_not_be_read_is_left_and_those_beside_it_are_served(
    bench: Bench,
) -> None:
    """Each comes readable again once its visibility timeout is over."""
    queue = bench.queue("jobs")
    names = [*MESSAGES, *TAKEN]
    bench.send(queue, [job("sync", "good"), *(job("sync", name) for name in names)])
    left = MESSAGES | TAKEN
    spoiled: list[str] = []

    def spoil(request: Request, forward: Forward) -> Reply:
        reply = forward(request)
        if request.operation != "ReceiveMessage" or not reply.messages:
            return reply
        return replace(reply, body={"Messages": [once(message) for message in reply.messages]})

    def once(message: dict[str, Any]) -> Any:
        for name in list(left):
            if f'"{name}"' in message["Body"]:
                spoiled.append(name)
                return left.pop(name)(message)
        return message

    bench.proxy.intercept = spoil
    definition = {"name": queue.name, "visibility_timeout": 3, "claim_size": 10}
    with bench.worker({"q": definition}, concurrency=4, **OPTIONS) as worker:
        until(lambda: is_empty(queue), "an empty queue", pause=0.1)
        assert worker.running
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    assert sorted(spoiled) == sorted(names)
    assert sorted(set(bench.journal.ended())) == sorted(["good", *names])
    assert bench.served.deleted.count("good") == 1
    again = {note.id for note in bench.journal.of("start") if note.receive_count == 2}
    assert again >= set(MESSAGES)
    assert not again & set(TAKEN)
    assert len(worker.of("message_unreadable")) > 0
    assert "s3cr3t" not in str(worker.lines)
    assert worker.of("worker_crashed") == []


def test_signals_that_are_no_stop_change_nothing(bench: Bench) -> None:
    queue = bench.queue("jobs")
    ids = bench.send(queue, [job("async" if n % 2 else "sync", f"j{n}") for n in range(200)])
    harmless = (signal.SIGWINCH, signal.SIGCHLD, signal.SIGPIPE, signal.SIGURG, signal.SIGCONT)
    with bench.worker({"q": {"name": queue.name}}, concurrency=4, **OPTIONS) as worker:
        for n in range(100):
            worker.signal(harmless[n % len(harmless)])
            time.sleep(0.005)
        until(lambda: is_empty(queue), "an empty queue", pause=0.1)
        assert worker.running
        assert worker.of("worker_stopping") == []
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    assert sorted(bench.journal.started()) == sorted(ids)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_that_nobody_handles_ends_the_process_and_loses_nothing(
    bench: Bench, number: signal.Signals
) -> None:
    queue = bench.queue("jobs")
    bench.send(queue, [job("sync", "j", seconds=5)])
    definition = {"name": queue.name, "visibility_timeout": 2}
    with bench.worker({"q": definition}, **OPTIONS) as worker:
        bench.until_started(1)
        worker.signal(number)
        assert worker.wait() == -number
    assert bench.traffic.deleted == []
    assert queue.claim(visibility=30, wait=10) is not None
