"""The suite that every backend passes, over queues in memory."""

from __future__ import annotations

from itertools import count

import pytest

from jobq.core import Queue
from jobq.core.memory import ManualClock, MemoryQueue, MemoryServer
from jobq.core.testing.conformance import (
    FifoConformance,
    MakeQueue,
    ManualTime,
    StandardConformance,
    Timeline,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def _maker(clock: ManualClock, suffix: str) -> MakeQueue:
    server = MemoryServer(clock=clock)
    numbers = count(1)

    def make(
        *,
        visibility_timeout: int = 30,
        dead_letter_queue: Queue | None = None,
        max_receive_count: int | None = None,
    ) -> Queue:
        assert dead_letter_queue is None or isinstance(dead_letter_queue, MemoryQueue)
        return MemoryQueue(
            f"queue-{next(numbers)}{suffix}",
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue,
            max_receive_count=max_receive_count,
            server=server,
        )

    return make


class TestMemoryStandard(StandardConformance):
    @pytest.fixture
    def make_queue(self, clock: ManualClock) -> MakeQueue:
        return _maker(clock, "")

    @pytest.fixture
    def timeline(self, clock: ManualClock) -> Timeline:
        return ManualTime(clock)


class TestMemoryFifo(FifoConformance):
    @pytest.fixture
    def make_queue(self, clock: ManualClock) -> MakeQueue:
        return _maker(clock, ".fifo")

    @pytest.fixture
    def timeline(self, clock: ManualClock) -> Timeline:
        return ManualTime(clock)
