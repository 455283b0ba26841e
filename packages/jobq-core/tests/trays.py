"""A queue that keeps what it was sent, and hooks of both colours that tell what they saw."""

import contextvars
from collections.abc import Sequence
from typing import Any

import pytest

from jobq.core import (
    Capabilities,
    Job,
    JobMiddleware,
    JobqError,
    Message,
    PublishResult,
    QueueGroup,
)


class Tray:
    """A queue that keeps what was sent, call by call, and fails where it is told to."""

    operations = None

    def __init__(self, *, fifo: bool = False, largest: int = 1_048_576) -> None:
        self.calls: list[list[Message]] = []
        self.failing: dict[str, JobqError] = {}
        self.closed = 0
        self.capabilities = Capabilities(
            ordered=fifo,
            delays=not fifo,
            priorities=False,
            largest_batch=10,
            largest_message=largest,
            longest_visibility=43_200,
        )

    @property
    def sent(self) -> list[Message]:
        return [message for call in self.calls for message in call]

    def publish(self, message: Message) -> str:
        self.calls.append([message])
        error = self._error(message)
        if error is not None:
            raise error
        return f"id-{len(self.sent) - 1}"

    def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        first = len(self.sent)
        self.calls.append(list(messages))
        return [
            PublishResult(error=error)
            if (error := self._error(message)) is not None
            else PublishResult(f"id-{first + at}")
            for at, message in enumerate(messages)
        ]

    def close(self) -> None:
        self.closed += 1

    def _error(self, message: Message) -> JobqError | None:
        return next((error for word, error in self.failing.items() if word in message.body), None)


def group(tray: Tray, *middleware: JobMiddleware) -> QueueGroup:
    return QueueGroup({"default": {"queue": tray}}, middleware)


WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


class PlainTrace(JobMiddleware):
    """Marks each job with what its context held, and keeps what came back."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def produce(self, job: Job, call_next: Any) -> Any:
        n = job.payload.get("n")
        self.events.append(("in", n, WHO.get()))
        WHO.set(f"job {n}")
        job.trace_headers["traceparent"] = f"trace-{n}"
        if job.payload.get("refuse"):
            raise PermissionError(f"job {n}")
        if job.payload.get("answer"):
            return f"answer-{n}"
        try:
            message_id = call_next(job)
        except BaseException as error:
            self.events.append(("failed", n, type(error).__name__, WHO.get()))
            raise
        self.events.append(("out", n, message_id, WHO.get()))
        if job.payload.get("late"):
            raise PermissionError(f"late {n}")
        return message_id


class AsyncTrace(PlainTrace):
    async def produce(self, job: Job, call_next: Any) -> Any:
        n = job.payload.get("n")
        self.events.append(("in", n, WHO.get()))
        WHO.set(f"job {n}")
        job.trace_headers["traceparent"] = f"trace-{n}"
        if job.payload.get("refuse"):
            raise PermissionError(f"job {n}")
        if job.payload.get("answer"):
            return f"answer-{n}"
        try:
            message_id = await call_next(job)
        except BaseException as error:
            self.events.append(("failed", n, type(error).__name__, WHO.get()))
            raise
        self.events.append(("out", n, message_id, WHO.get()))
        if job.payload.get("late"):
            raise PermissionError(f"late {n}")
        return message_id


both_colours = pytest.mark.parametrize("trace", [PlainTrace, AsyncTrace])
