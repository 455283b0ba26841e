"""The program under test: `python serving.py SETTINGS` runs a worker, as an application would.

SETTINGS is JSON: `queues` (their definitions), `options` (the worker's), `journal` (a path), and
`host`: "run", "cancel", "threads" or a start method of `multiprocessing` (see `hosting.py`), with
`count` workers for the latter two. May have the `kind` of its queues ("sync" or "async"), `poll`, a
hook's name and what it takes, and `read_timeout` (seconds) of the client. Log lines go to stdout,
one JSON object each.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import hosting
import structlog
from hooks import HOOKS
from journal import Journal

from jobq.core import AsyncQueueGroup, JobContext, QueueGroup, RetryPolicy, current_job
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.standard.queue import SDK
from jobq.worker import Worker

Payload = dict[str, Any]
# How many workers of a process have one group among them.
SHARING = 5


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
    fails = payload.get("fails")
    if fails and receive_count <= fails:
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
        # A line is one write: processes share the output.
        logger_factory=structlog.WriteLoggerFactory(sys.stdout),
        cache_logger_on_first_use=True,
    )


def make_group(settings: dict[str, Any]) -> QueueGroup | AsyncQueueGroup:
    hooks = [HOOKS[name](*arguments) for name, *arguments in settings.get("poll", ())]
    if settings.get("kind") == "async":
        return AsyncQueueGroup.build(queues=settings["queues"], middleware=hooks)
    client = None
    if "read_timeout" in settings:
        config = {**ClientOptions().config, "read_timeout": settings["read_timeout"]}
        client = partial(SDK.make_client, ClientOptions(config=config))
    return QueueGroup.build(client=client, queues=settings["queues"], middleware=hooks)


def make_worker(
    settings: dict[str, Any], group: QueueGroup | AsyncQueueGroup | None = None
) -> Worker:
    handlers = Handlers(Journal(Path(settings["journal"])))
    options = dict(settings["options"])
    if "retry" in options:
        options["retry"] = RetryPolicy(**options["retry"])
    return Worker(
        group or make_group(settings),
        {"sync": handlers.sync, "async": handlers.aio, "blocking": handlers.blocking},
        **options,
    )


def serve(settings: dict[str, Any], group: QueueGroup | AsyncQueueGroup | None = None) -> None:
    """All that a child process does."""
    _log_as_json()
    make_worker(settings, group).run()


def main(settings: dict[str, Any]) -> None:
    _log_as_json()
    make = partial(make_worker, settings)
    match settings["host"]:
        case "run":
            hosting.run(make)
        case "cancel":
            hosting.cancel(make)
        case "threads":
            # Some make a client of their own at the same moment, some share one.
            groups = [make_group(settings) for _ in range(0, settings["count"], SHARING)]
            hosting.threads(
                [make_worker(settings, groups[n // SHARING]) for n in range(settings["count"])]
            )
        case "fork":
            # What a process has used before it forks serves its children as well.
            group = make_group(settings)
            group.stats()
            hosting.processes(serve, (settings, group), method="fork", count=settings["count"])
        case method:
            hosting.processes(serve, (settings,), method=method, count=settings["count"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
