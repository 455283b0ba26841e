"""A worker process that gives up jobs and is killed on the way, over ministack."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

from bench import Bench, is_empty, job
from faults import is_delete, is_send
from processes import until
from sqs_proxy import Forward, Reply, Request, refusal

from jobq.sqs.common.queue import SqsQueue

SUFFIXES = ("", ".fifo")


class Holding:
    """Holds back some requests; the server never sees them."""

    def __init__(self, concerns: Callable[[Request], bool]) -> None:
        self._concerns = concerns
        self.held: list[str] = []
        self.released = threading.Event()

    def __call__(self, request: Request, forward: Forward) -> Reply:
        if self.released.is_set() or not self._concerns(request):
            return forward(request)
        self.held.append(request.queue)
        self.released.wait(30)
        return refusal("ServiceUnavailable", status=503)


def test_m5_killed_around_the_send_a_message_is_dead_lettered_once_or_twice_and_never_lost(
    bench: Bench,
) -> None:
    """Of each kind one message is killed before its copy is sent, one before it is deleted."""
    dead: dict[str, SqsQueue] = {}
    queues: dict[str, SqsQueue] = {}
    for suffix in SUFFIXES:
        for when in ("send", "delete"):
            dead[f"{when}{suffix}"] = bench.queue(f"dead-{when}{suffix}")
            queues[f"{when}{suffix}"] = bench.queue(
                f"{when}{suffix}",
                dead_letter_queue=dead[f"{when}{suffix}"],
                max_receive_count=9,
            )
    for name, queue in queues.items():
        handler = "async" if name.endswith(".fifo") else "sync"
        bench.send(queue, [job(handler, name, fails=99, group="g")])
    before_send = {dead[f"send{suffix}"].name for suffix in SUFFIXES}
    before_delete = {queues[f"delete{suffix}"].name for suffix in SUFFIXES}
    holding = bench.proxy.intercept = Holding(
        lambda request: (
            (is_send(request) and request.queue in before_send)
            or (is_delete(request) and request.queue in before_delete)
        )
    )
    definitions = {
        name: {"name": queue.name, "visibility_timeout": 4} for name, queue in queues.items()
    }
    options: dict[str, Any] = {
        "concurrency": 4,
        "idle_wait_seconds": 2,
        "shutdown_timeout": 15,
        "retry": {"max_attempts": 1, "when_exhausted": "dead_letter"},
    }
    with bench.worker(definitions, **options) as worker:
        until(lambda: set(holding.held) == before_send | before_delete, "all four held")
        worker.signal(signal.SIGKILL)
        assert worker.wait() == -signal.SIGKILL
        holding.released.set()
    assert {name: queue.stats().waiting for name, queue in dead.items()} == {
        **{f"send{suffix}": 0 for suffix in SUFFIXES},
        **{f"delete{suffix}": 1 for suffix in SUFFIXES},
    }
    bench.serve_until_empty(definitions, *queues.values(), **options)
    # What was sent twice is there twice, but where the dead-letter queue deduplicates.
    assert {name: queue.stats().waiting for name, queue in dead.items()} == {
        "send": 1,
        "send.fifo": 1,
        "delete": 2,
        "delete.fifo": 1,
    }
    assert all(not is_empty(queue) for queue in dead.values())
    assert sorted(bench.journal.started()) == sorted(list(queues) * 2)
