"""What the flows are driven with here: a script of replies, and a clock that pauses move."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from jobq.core import Capabilities
from jobq.core.limits import FIFO
from jobq.sqs.common.calls import Call, Flow, drive
from jobq.sqs.common.queue_calls import QueueCalls

# How long an example takes says something about the machine, which may be busy.
settings.register_profile("jobq", deadline=None)
settings.load_profile("jobq")

T = TypeVar("T")
Step = dict[str, Any] | BaseException | Callable[[Call], dict[str, Any]]


class Script:
    """Answers calls with the next step: a reply, an error to raise, or a function of the call."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.calls: list[Call] = []
        self.pauses: list[float] = []
        self.now = 1000.0

    def queue(self, url: str = "https://sqs/1/q", *, capabilities: Capabilities) -> QueueCalls:
        numbers = iter(range(10**6))
        return QueueCalls(
            url,
            capabilities=capabilities,
            clock=lambda: self.now,
            jitter=lambda: 0.5,
            new_id=lambda: f"id-{next(numbers)}",
        )

    def fifo(self) -> QueueCalls:
        return self.queue("https://sqs/1/q.fifo", capabilities=FIFO)

    def run(self, flow: Flow[T], steps: Iterable[Step] = ()) -> T:
        """Drive it over these steps; all of them must be used."""
        self.steps += steps
        result = drive(flow, send=self.send, sleep=self.sleep)
        assert not self.steps
        return result

    def send(self, call: Call) -> dict[str, Any]:
        self.calls.append(call)
        step = self.steps.pop(0)
        if isinstance(step, BaseException):
            raise step
        return step(call) if callable(step) else step

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    @property
    def operations(self) -> list[str]:
        return [call.operation for call in self.calls]


@pytest.fixture
def script() -> Script:
    return Script()
