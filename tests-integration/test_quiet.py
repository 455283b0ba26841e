"""What a worker process costs while it can do nothing, over ministack: next to no CPU."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, bench_on, job
from programs import run

SECONDS = 10
PROGRAM = """
import asyncio, json, sys, threading, time
import structlog
from jobq.core import JobMiddleware, QueueGroup
from jobq.worker import Worker

url, queue, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
spent = []

def cpu_of(wait):
    before = time.process_time()
    wait()
    spent.append(time.process_time() - before)

class Pause(JobMiddleware):
    polls = 0
    began = None

    def poll(self, call_next):
        self.polls += 1
        if self.began is None:
            self.began = time.process_time(), time.monotonic()
        elif time.monotonic() - self.began[1] > seconds:
            spent.append(time.process_time() - self.began[0])
            worker.stop()
        return 0

def sync(payload):
    cpu_of(lambda: time.sleep(seconds))
    worker.stop()

async def aio(payload):
    before = time.process_time()
    await asyncio.sleep(seconds)
    spent.append(time.process_time() - before)
    worker.stop()

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
pause = Pause()
queues = QueueGroup.build(
    queues={"q": {"name": queue}}, middleware=[pause] if sys.argv[4:] else []
)
worker = Worker(queues, {"sync": sync, "async": aio}, idle_wait_seconds=1, shutdown_timeout=5)
worker.run()
print(json.dumps({"cpu": spent[0], "polls": pause.polls}))
"""


def spent_by(bench: Bench, folder: Path, queue: str, *more: str) -> dict[str, Any]:
    ended = run(
        *("python", "-c", PROGRAM, bench.proxy.url, queue, str(SECONDS), *more),
        folder=folder,
        more={"AWS_ENDPOINT_URL_SQS": bench.proxy.url},
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def seen(
    ministack: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[dict[str, Any], int]]:
    """Three processes at once, each with its queue: what each spent, and how often it received."""
    folder = tmp_path_factory.mktemp("quiet")
    with bench_on(ministack, folder) as bench, ThreadPoolExecutor() as threads:
        queues = {kind: bench.queue(kind) for kind in ("sync", "async", "paused")}
        for kind in ("sync", "async"):
            bench.send(queues[kind], [job(kind, f"{kind}{n}") for n in range(30)])
        spent = {
            kind: threads.submit(
                spent_by, bench, folder, queue.name, *(["pause"] if kind == "paused" else [])
            )
            for kind, queue in queues.items()
        }
        return {
            kind: (
                one.result(),
                sum(
                    exchange.request.queue == queues[kind].name
                    for exchange in bench.traffic.receives
                ),
            )
            for kind, one in spent.items()
        }


@pytest.mark.parametrize("handler", ["sync", "async"])
def test_p1_while_one_job_runs_and_others_wait_less_than_1_percent_of_a_core_is_used(
    seen: dict[str, tuple[dict[str, Any], int]], handler: str
) -> None:
    spent, receives = seen[handler]
    assert spent["cpu"] < 0.01 * SECONDS
    assert receives == 1


def test_p2_paused_by_a_poll_hook_it_uses_less_than_a_fifth_of_a_second_in_ten(
    seen: dict[str, tuple[dict[str, Any], int]],
) -> None:
    spent, receives = seen["paused"]
    assert spent["cpu"] < 0.2
    assert spent["polls"] <= SECONDS + 3
    assert receives == 0
