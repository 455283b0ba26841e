"""Lines that are written for the runner, whatever the output does."""

import threading
import time
from contextvars import copy_context
from typing import Any

import structlog
from working import Lines, lease, until

from jobq.worker.dispatch import Record
from jobq.worker.engine.commands import JobEnded, Notice
from jobq.worker.reporting import Reporting


def test_lines_come_in_order_with_the_fields_of_their_jobs(lines: Lines) -> None:
    with structlog.contextvars.bound_contextvars(release="r1"):
        reporting = Reporting(context=copy_context(), sensitive={})
        with structlog.contextvars.bound_contextvars(message_id="m-1", trace_id="t"):
            ran = Record({"message_id": "m-1"}, context=copy_context())
    unrun = Record({"message_id": "m-2", "reason": "not JSON"})
    reporting.say("info", "worker_started")
    reporting.write(
        [
            JobEnded("jobs", lease(), ran, "success", 0.0126),
            JobEnded("jobs", lease(), unrun, "malformed"),
            JobEnded("jobs", lease(), ran, "delete_failed", 1, "success"),
            Notice("warning", "receive_failed", {"queue": "jobs"}),
        ]
    )
    reporting.close(timeout=5)
    finished = {"event": "job_finished", "release": "r1"}
    first = {**finished, "message_id": "m-1", "trace_id": "t"}
    assert list(lines) == [
        {"event": "worker_started", "level": "info", "release": "r1"},
        {**first, "level": "info", "outcome": "success", "duration_ms": 13},
        {
            **finished,
            "level": "warning",
            "outcome": "malformed",
            "message_id": "m-2",
            "reason": "not JSON",
        },
        {
            **first,
            "level": "error",
            "outcome": "delete_failed",
            "processing_outcome": "success",
            "duration_ms": 1000,
        },
        {"event": "receive_failed", "level": "warning", "queue": "jobs", "release": "r1"},
    ]


def test_a_blocked_output_blocks_neither_writing_nor_the_end(lines: Lines) -> None:
    blocked = threading.Event()

    def block(*_: Any) -> Any:
        blocked.wait(10)
        raise structlog.DropEvent

    structlog.configure(processors=[block])
    reporting = Reporting(context=copy_context(), sensitive={})
    began = time.monotonic()
    for _ in range(1000):
        reporting.say("info", "busy")
    reporting.close(timeout=0.1)
    assert time.monotonic() - began < 2
    blocked.set()
    until(lambda: not any(one.name == "jobq-log" for one in threading.enumerate()))


def test_a_line_that_cannot_be_written_takes_no_other_along(lines: Lines) -> None:
    reporting = Reporting(context=copy_context(), sensitive={})
    reporting.write([Notice("info", "bad", {"event": "twice"}), Notice("info", "good", {})])
    reporting.close(timeout=5)
    assert [line["event"] for line in lines] == ["good"]
