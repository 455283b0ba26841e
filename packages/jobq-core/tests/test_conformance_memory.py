"""The suite that every backend passes, over queues in memory."""

from __future__ import annotations

from itertools import count

import pytest

from jobq.core.memory import ManualClock, MemoryQueue, MemoryServer
from jobq.core.testing.conformance import (
    FifoConformance,
    MakeQueue,
    ManualTime,
    StandardConformance,
    Timeline,
)


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer(clock=ManualClock())


def _maker(server: MemoryServer, suffix: str) -> MakeQueue:
    numbers = count(1)

    def make(*, visibility_timeout=30, dead_letter_queue=None, max_receive_count=None):
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
    def make_queue(self, server: MemoryServer) -> MakeQueue:
        return _maker(server, "")

    @pytest.fixture
    def timeline(self, server: MemoryServer) -> Timeline:
        return ManualTime(server.clock)


class TestMemoryFifo(FifoConformance):
    @pytest.fixture
    def make_queue(self, server: MemoryServer) -> MakeQueue:
        return _maker(server, ".fifo")

    @pytest.fixture
    def timeline(self, server: MemoryServer) -> Timeline:
        return ManualTime(server.clock)
