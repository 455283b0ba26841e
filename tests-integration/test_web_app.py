"""`examples/web_app.py` under load: a web app that sends jobs and works them off in one process."""

from __future__ import annotations

import http.client
import itertools
import signal
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest
from bench import Bench
from processes import Process, assert_adds_up, until
from programs import ROOT
from traffic import Traffic

from jobq.sqs.common.queue import SqsQueue
from jobq.sqs.fifo import SqsFifoQueue
from jobq.sqs.standard import SqsStandardQueue

# The example as it is, with log lines that a test can read.
APP = f"""
import runpy, structlog
structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.JSONRenderer(),
    ],
    logger_factory=structlog.WriteLoggerFactory(),
)
runpy.run_path({str(ROOT / "examples" / "web_app.py")!r}, run_name="__main__")
"""
CUSTOMERS = 6


class Shop:
    """Customers who sign up, one after the other, from several threads."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._names = itertools.count()
        self._closing = threading.Event()
        self.accepted: dict[str, str] = {}
        self.refused: list[int] = []
        self._threads = [threading.Thread(target=self._sign_up) for _ in range(CUSTOMERS)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._closing.set()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()

    def _sign_up(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        while not self._closing.is_set():
            customer = f"c{next(self._names)}"
            try:
                connection.request("POST", f"/customers/{customer}")
                response = connection.getresponse()
                body = response.read().decode()
            except (OSError, http.client.HTTPException):
                break  # the app is going down, and says so by not answering
            if response.status == 202:
                self.accepted[customer] = body.split('"')[3]
            else:
                self.refused.append(response.status)
        connection.close()


@contextmanager
def web_app(**environment: str) -> Generator[tuple[Process, int]]:
    """The running app, and the port on which it listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    app = Process("-c", APP, environment={**environment, "PORT": str(port)})
    try:
        until(lambda: _listens(port) or not app.running, "the app to listen", seconds=30)
        assert app.running, app.other_output
        yield app, port
    finally:
        app.end()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _counts(lines: list[dict[str, Any]], job_type: str) -> set[str]:
    return {
        line["message_id"]
        for line in lines
        if line["event"] == "job_finished"
        and line["job_type"] == job_type
        and line["outcome"] == "success"
    }


@pytest.fixture
def environment(bench: Bench) -> tuple[dict[str, str], list[SqsQueue]]:
    """What leads the app to two new queues of a local server, and these."""
    prefix = f"{uuid4().hex[:8]}-"
    queues: list[SqsQueue] = [
        SqsStandardQueue.create(f"{prefix}shop-mail", client=bench.client),
        SqsFifoQueue.create(f"{prefix}shop-ledger.fifo", client=bench.client),
    ]
    environment = {
        "JOBQ_CONNECTION": "sqs",
        "JOBQ_SQS_REGION": "us-east-1",
        "JOBQ_SQS_ENDPOINT": bench.proxy.url,
        "JOBQ_SQS_PLAINTEXT": "true",
        "JOBQ_SQS_QUEUE_PREFIX": prefix,
    }
    return environment, queues


def test_a_sigterm_under_load_loses_nothing(
    bench: Bench, environment: tuple[dict[str, str], list[SqsQueue]]
) -> None:
    settings, queues = environment
    lines: list[dict[str, Any]] = []
    with web_app(**settings) as (app, port):
        shop = Shop(port)
        until(lambda: len(shop.accepted) > 100, "a hundred customers", seconds=40)
        at = app.signal(signal.SIGTERM)
        assert app.wait() in (0, -signal.SIGTERM), app.other_output[-5:]
        assert time.monotonic() - at < 10
        shop.close()
        lines += app.lines
        assert_adds_up(app.last_line(), received=len(Traffic(bench.proxy.exchanges).received))
        assert app.last_line()["exit_code"] == 0
        assert app.last_line()["left"] == 0
    assert shop.refused == []

    with web_app(**settings) as (app, _):
        until(lambda: all(_is_empty(queue) for queue in queues), "the rest to be worked off")
        app.signal(signal.SIGTERM)
        app.wait()
        lines += app.lines

    assert set(shop.accepted.values()) <= _counts(lines, "welcome")
    booked = _counts(lines, "book")
    assert set(shop.accepted) <= {
        line["group_id"]
        for line in lines
        if line["event"] == "job_enqueued" and line["message_id"] in booked
    }


def test_in_memory_it_needs_no_server_at_all() -> None:
    with web_app(JOBQ_CONNECTION="memory") as (app, port):
        shop = Shop(port)
        until(lambda: len(_counts(app.lines, "book")) > 20, "twenty customers booked")
        app.signal(signal.SIGTERM)
        app.wait()
        shop.close()
        assert app.last_line()["exit_code"] == 0


def _is_empty(queue: SqsQueue) -> bool:
    stats = queue.stats()
    return stats.waiting == stats.in_flight == stats.delayed == 0
