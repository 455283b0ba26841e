"""Half a minute of one worker process before ministack: of its queues one is refused, one is gone,
one has nothing to give, and one's job fails again and again; the others are served all the while.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from bench import Bench, bench_on, is_empty, job
from processes import Process, until
from sqs_proxy import Exchange, Forward, Reply, Request, refusal

from jobq.sqs.common.queue import SqsQueue

NAMES = ("skewed", "gone", "limited", "nothing.fifo", "failing", "good", "good.fifo")
STREAM = 60
NOTHING_SECONDS = 8


def signature_expired() -> Reply:
    """As SQS answers a machine whose clock is behind."""
    code = "InvalidSignatureException"
    return Reply(
        403,
        {
            "__type": f"com.amazon.coral.service#{code}",
            "message": "Signature expired: 20261130T100000Z is now earlier than 20261130T101000Z",
        },
        {"content-type": "application/x-amz-json-1.0"},
    )


@dataclass
class Faults:
    """What becomes of the receives of some queues, by the queue's name at its end."""

    began: float = field(default_factory=time.monotonic)
    left: dict[str, int] = field(default_factory=lambda: {"-skewed": 5, "-limited": 3})
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, request: Request, forward: Forward) -> Reply:
        if request.operation == "ReceiveMessage":
            if self._spend(request, "-skewed"):
                return signature_expired()
            if self._spend(request, "-limited"):
                return refusal("OverLimit", status=403)
            early = request.at < self.began + NOTHING_SECONDS
            if request.queue.endswith("-nothing.fifo") and early:
                return Reply(200, {})
        return forward(request)

    def _spend(self, request: Request, name: str) -> bool:
        with self.lock:
            if not request.queue.endswith(name) or not self.left[name]:
                return False
            self.left[name] -= 1
            return True


@dataclass(frozen=True)
class Seen:
    """What came of it. `sent` is when each job of the stream was sent, `back_at` when the deleted
    queue was made again.
    """

    bench: Bench
    worker: Process
    queues: dict[str, SqsQueue]
    began: float
    sent: dict[str, float]
    back_at: float
    exit_code: int

    def receives(self, name: str) -> list[Exchange]:
        return self.bench.traffic.of("ReceiveMessage", queue=self.queues[name].name)

    def lines(self, name: str, event: str) -> list[dict[str, Any]]:
        return [line for line in self.worker.of(event) if line.get("queue") == name]

    def ends(self, name: str) -> list[float]:
        ended = [note for note in self.bench.journal.of("end") if note.queue == name]
        return [note.at for note in ended]


def is_done(bench: Bench, *ids: str) -> Callable[[], bool]:
    return lambda: set(ids) <= set(bench.traffic.deleted)


@pytest.fixture(scope="module")
def seen(ministack: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with bench_on(ministack, tmp_path_factory.mktemp("backoff")) as bench:
        queues = {name: bench.queue(name) for name in NAMES}
        definitions = {name: {"name": queue.name} for name, queue in queues.items()}
        faults = bench.proxy.intercept = Faults()
        options: dict[str, Any] = {
            "concurrency": 6,
            "idle_wait_seconds": 2,
            "shutdown_timeout": 15,
            "retry": {"base_delay": 1, "jitter": False},
        }
        bench.send(queues["failing"], [job("async", "failing", fails=4)])
        for name in ("skewed", "limited", "nothing.fifo"):
            bench.send(queues[name], [job("sync", name, group="g")])
        with bench.worker(definitions, **options) as worker:
            gone = queues["gone"]
            until(lambda: bench.traffic.of("ReceiveMessage", queue=gone.name), "a first receive")
            url = bench.client.get_queue_url(QueueName=gone.name)["QueueUrl"]
            bench.client.delete_queue(QueueUrl=url)
            sent: dict[str, float] = {}
            for n in range(STREAM):
                name = "good.fifo" if n % 2 else "good"
                sent[f"good{n}"] = time.monotonic()
                bench.send(queues[name], [job("sync", f"good{n}", group=f"g{n}")])
                time.sleep(0.1)
            until(lambda: len(worker.of("receive_failed")) >= 3, "warnings of three queues")
            back_at = time.monotonic()
            bench.client.create_queue(QueueName=gone.name)
            bench.send(gone, [job("async", "gone")])
            done = ("skewed", "gone", "limited", "nothing.fifo", "failing")
            until(is_done(bench, *done), "what was held up", seconds=60)
            worker.signal(signal.SIGTERM)
            code = worker.wait()
        yield Seen(
            bench=bench,
            worker=worker,
            queues=queues,
            began=faults.began,
            sent=sent,
            back_at=back_at,
            exit_code=code,
        )


def test_c5_five_signatures_that_fail_are_one_warning_and_the_worker_goes_on(seen: Seen) -> None:
    statuses = [one.reply.status for one in seen.receives("skewed")]
    assert statuses[:6] == [403] * 5 + [200]
    (line,) = seen.lines("skewed", "receive_failed")
    assert line["level"] == "warning"
    assert "clock" in line["error"]
    assert seen.bench.journal.started().count("skewed") == 1
    assert seen.exit_code == 0


def test_p3_a_queue_that_is_gone_costs_a_few_calls_and_a_line_and_is_served_when_it_is_back(
    seen: Seen,
) -> None:
    missing = [one for one in seen.receives("gone") if one.reply.status == 400]
    assert 2 <= len(missing) <= 8
    for before, after in pairwise(missing):
        assert after.request.at - before.request.at > 0.45
    (line,) = seen.lines("gone", "receive_failed")
    assert "create the queue" in line["error"]
    (served_at,) = seen.ends("gone")
    assert served_at - seen.back_at < 60
    # The jobs of the others, sent ten a second meanwhile, are done as they come.
    ends = {note.id: note.at for note in seen.bench.journal.of("end")}
    delays = [ends[one] - at for one, at in seen.sent.items()]
    assert len(delays) == STREAM
    assert max(delays) < 3


def test_p8_over_the_in_flight_limit_receives_back_off_and_the_job_runs_once(seen: Seen) -> None:
    polls = seen.receives("limited")
    assert [one.reply.status for one in polls[:4]] == [403, 403, 403, 200]
    gaps = [after.request.at - before.answered_at for before, after in pairwise(polls[:4])]
    assert [gap >= least for gap, least in zip(gaps, (0.5, 1, 2), strict=True)] == [True] * 3
    assert seen.bench.journal.started().count("limited") == 1


def test_p8_a_queue_that_answers_with_nothing_and_at_once_is_not_asked_without_pause(
    seen: Seen,
) -> None:
    early = [
        one
        for one in seen.receives("nothing.fifo")
        if one.request.at < seen.began + NOTHING_SECONDS and not one.reply.messages
    ]
    assert 2 <= len(early) <= NOTHING_SECONDS + 2
    assert seen.bench.journal.started().count("nothing.fifo") == 1


def test_m4_a_job_that_fails_four_times_comes_back_after_1_2_4_and_8_seconds(seen: Seen) -> None:
    starts = [note.at for note in seen.bench.journal.of("start") if note.id == "failing"]
    gaps = [after - before for before, after in pairwise(starts)]
    assert len(gaps) == 4
    for gap, delay in zip(gaps, (1, 2, 4, 8), strict=True):
        # ministack looks for what has become visible now and then, and a long poll may be out.
        assert delay - 0.1 <= gap <= delay + 3.5
    outcomes = [line["outcome"] for line in seen.lines("failing", "job_finished")]
    assert outcomes == ["retry"] * 4 + ["success"]
    assert is_empty(seen.queues["failing"])
