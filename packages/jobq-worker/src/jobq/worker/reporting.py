"""Log lines on the runner's behalf: a blocked output must not delay a heartbeat."""

from __future__ import annotations

import contextlib
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from jobq.core.logs import get_logger
from jobq.worker.engine.commands import JobDiscarded, JobEnded, Notice, Outcome
from jobq.worker.payloads import payload_text, size_of
from jobq.worker.pools import spawn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextvars import Context

    from jobq.worker.dispatch import Record

    Line: TypeAlias = JobEnded | JobDiscarded | Notice

    Level: TypeAlias = Literal["info", "warning", "error", "critical"]

_LEVELS: dict[Outcome, Level] = {
    "success": "info",
    "retry": "info",
    "released": "info",
    "delete": "warning",
    "exhausted": "warning",
    "malformed": "warning",
    "unknown_job_type": "warning",
    "heartbeat_failed": "warning",
    "delete_failed": "error",
}


class Lines:
    """Writes lines at once. `context` has the application's own log fields.

    `sensitive` holds, for each queue whose discarded payloads may be logged, the keys to mask.
    """

    def __init__(self, *, context: Context, sensitive: Mapping[str, frozenset[str]]) -> None:
        from structlog.contextvars import bind_contextvars

        self._sensitive = sensitive
        self._bind = bind_contextvars
        self._context = context
        self._jobs = get_logger("jobq.job").bind()
        self._worker = get_logger("jobq.worker")

    def write(self, lines: Sequence[Line]) -> None:
        for line in lines:
            # A log that can't be written costs nothing but itself.
            with contextlib.suppress(Exception):
                self._write(line)

    def _write(self, line: Line) -> None:
        if isinstance(line, Notice):
            getattr(self._worker, line.level)(line.event, **line.fields)
            return
        record: Record = line.job
        # A copy: an abandoned handler may be in its own still.
        context = (record.context or self._context).copy()
        if record.context is None:
            context.run(self._bind, **record.fields)
        if isinstance(line, JobDiscarded):
            context.run(self._jobs.warning, "job_discarded", **self._discarded(line))
        else:
            write = getattr(self._jobs, _LEVELS[line.outcome])
            context.run(write, "job_finished", **_finished(line))

    def _discarded(self, line: JobDiscarded) -> dict[str, Any]:
        lease = line.lease
        fields: dict[str, Any] = {"group_id": lease.group_id, "size_bytes": size_of(lease)}
        sensitive = self._sensitive.get(line.queue)
        if sensitive is not None:
            fields["payload"] = payload_text(lease.body, sensitive)
        return fields


def _finished(line: JobEnded) -> dict[str, Any]:
    fields: dict[str, Any] = {"outcome": line.outcome}
    if line.seconds is not None:
        fields["duration_ms"] = round(line.seconds * 1000)
    if line.processing_outcome is not None:
        fields["processing_outcome"] = line.processing_outcome
    return fields


class Reporting:
    """Writes lines in order, in a daemon thread; what it is made with is as for `Lines`."""

    def __init__(self, *, context: Context, sensitive: Mapping[str, frozenset[str]]) -> None:
        self._writer = Lines(context=context, sensitive=sensitive)
        self._lines: SimpleQueue[Sequence[Line] | threading.Event] = SimpleQueue()
        spawn(self._write_all, name="jobq-log", context=context)

    def write(self, lines: Sequence[Line]) -> None:
        """Have these written; returns at once."""
        self._lines.put(lines)

    def say(self, level: Level, event: str, **fields: Any) -> None:
        """Have one line about the worker written; returns at once."""
        self._lines.put((Notice(level, event, fields),))

    def close(self, *, timeout: float) -> None:
        """End the thread once all is written, `timeout` seconds at most."""
        written = threading.Event()
        self._lines.put(written)
        written.wait(timeout)

    def _write_all(self) -> None:
        while not isinstance(lines := self._lines.get(), threading.Event):
            self._writer.write(lines)
        lines.set()
