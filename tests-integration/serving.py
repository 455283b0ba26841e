"""The program under test: `python serving.py SETTINGS` runs a worker, as an application would.

SETTINGS is JSON: `queues` (their definitions), `options` (the worker's), `journal` (a path), and
`host`: "run", or "cancel" for an event loop of the program's own, which cancels `run_async` when
SIGTERM comes. Log lines go to stdout, one JSON object each.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
from journal import Journal

from jobq.core import JobContext, QueueGroup, RetryPolicy, current_job
from jobq.worker import Worker

Payload = dict[str, Any]


class Handlers:
    """A payload has an `id`, and may have `seconds` (how long), `gate` (a path that the sync one
    waits for) and `fails` (how many receives are to raise).
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def sync(self, payload: Payload) -> None:
        with self._noted(payload):
            time.sleep(_duration(payload))
            _await_gate(payload.get("gate"))

    async def aio(self, payload: Payload) -> None:
        with self._noted(payload):
            await asyncio.sleep(_duration(payload))

    async def blocking(self, payload: Payload) -> None:
        with self._noted(payload):
            time.sleep(_duration(payload))  # noqa: ASYNC251 - what it is for

    @contextmanager
    def _noted(self, payload: Payload) -> Generator[None]:
        job = _context().job
        about: Any = {
            "queue": job.queue,
            "group": job.group_id,
            "receive_count": job.receive_count,
        }
        self._journal.write("start", payload["id"], **about)
        done = False
        try:
            yield
            _fail_if_asked(payload, job.receive_count)
            done = True
        finally:
            self._journal.write("end" if done else "raise", payload["id"], **about)


def _fail_if_asked(payload: Payload, receive_count: int) -> None:
    if receive_count <= payload.get("fails", 0):
        raise RuntimeError(f"{payload['id']} fails")


def _context() -> JobContext:
    context = current_job()
    assert context is not None
    return context


def _duration(payload: Payload) -> float:
    return payload.get("seconds", 0)


def _await_gate(path: str | None) -> None:
    while path is not None and not Path(path).exists():
        time.sleep(0.002)


def _log_as_json() -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )


async def _run_until_cancelled(worker: Worker) -> None:
    task = asyncio.ensure_future(worker.run_async())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        structlog.get_logger().info("cancelled")


def main(settings: dict[str, Any]) -> None:
    _log_as_json()
    handlers = Handlers(Journal(Path(settings["journal"])))
    options = dict(settings["options"])
    if "retry" in options:
        options["retry"] = RetryPolicy(**options["retry"])
    worker = Worker(
        QueueGroup.build(queues=settings["queues"]),
        {"sync": handlers.sync, "async": handlers.aio, "blocking": handlers.blocking},
        **options,
    )
    if settings["host"] == "cancel":
        asyncio.run(_run_until_cancelled(worker))
    else:
        worker.run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
