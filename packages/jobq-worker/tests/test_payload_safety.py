"""Payloads are never logged, by an application either that hasn't configured its log."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

SECRET = "4242 4242 4242"

# Every line that carries a traceback, each from frames that hold the payload.
PROGRAM = """
import contextlib
from jobq.core import JobMiddleware, NonRetryableError, QueueGroup
from jobq.core.memory import MemoryQueue
from jobq.worker import Worker
from jobq.worker.polls import Polls

class Failing(JobMiddleware):
    def consume(self, job, call_next):
        payload = job.payload
        call_next(job)
        raise RuntimeError("the consume hook broke")

    def poll(self, call_next):
        payload = handed_out
        if call_next():
            raise RuntimeError("the poll hook broke")
        return 0

def fails(payload):
    card = payload["card"]
    raise NonRetryableError("the handler broke")

async def fails_async(payload):
    card = payload["card"]
    raise NonRetryableError("the async handler broke")

def succeeds(payload):
    return None

def crashes(self, command, payload=None):
    payload = handed_out
    raise RuntimeError("the worker broke")

handed_out = {"card": "4242 " * 2 + "4242"}
queues = QueueGroup({"jobs": {"queue": MemoryQueue("jobs")}}, [Failing()])
handlers = {"fails": fails, "fails_async": fails_async, "succeeds": succeeds}
for job_type in handlers:
    queues.enqueue("jobs", job_type, handed_out)
Worker(queues, handlers).run(burst=True)
Polls.receive = crashes
with contextlib.suppress(SystemExit):
    Worker(queues, handlers).run()
"""


def test_no_traceback_shows_the_payloads_in_its_frames() -> None:
    if importlib.util.find_spec("rich") is None:
        pytest.skip("without rich, structlog's own tracebacks are plain")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    written = done.stdout + done.stderr
    assert done.returncode == 0, written
    for event, message in [
        ("job_failed", "NonRetryableError: the handler broke"),
        ("job_failed", "NonRetryableError: the async handler broke"),
        ("consume_hook_failed", "RuntimeError: the consume hook broke"),
        ("poll_hook_failed", "RuntimeError: the poll hook broke"),
        ("worker_crashed", "RuntimeError: the worker broke"),
    ]:
        assert event in written
        assert f"{message}\n" in written
    assert "Traceback (most recent call last):" in written
    assert SECRET not in written
