"""The suite that every backend passes, over queues in memory."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from jobq.core import Queue
from jobq.core.memory import AsyncMemoryQueue, ManualClock, MemoryQueue, MemoryServer
from jobq.core.testing.conformance import (
    FifoConformance,
    LoopThread,
    MakeQueue,
    ManualTime,
    StandardConformance,
    SyncView,
    Timeline,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    with LoopThread() as loop:
        yield loop


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


def _async_maker(clock: ManualClock, suffix: str, loop: LoopThread) -> MakeQueue:
    server = MemoryServer(clock=clock)
    numbers = count(1)

    def make(
        *,
        visibility_timeout: int = 30,
        dead_letter_queue: Queue | None = None,
        max_receive_count: int | None = None,
    ) -> Queue:
        dead = dead_letter_queue.queue if isinstance(dead_letter_queue, SyncView) else None
        assert dead is None or isinstance(dead, AsyncMemoryQueue)
        queue = AsyncMemoryQueue(
            f"queue-{next(numbers)}{suffix}",
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead,
            max_receive_count=max_receive_count,
            server=server,
        )
        return SyncView(queue, loop)

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


class TestAsyncMemoryStandard(StandardConformance):
    @pytest.fixture
    def make_queue(self, clock: ManualClock, loop: LoopThread) -> MakeQueue:
        return _async_maker(clock, "", loop)

    @pytest.fixture
    def timeline(self, clock: ManualClock) -> Timeline:
        return ManualTime(clock)


class TestAsyncMemoryFifo(FifoConformance):
    @pytest.fixture
    def make_queue(self, clock: ManualClock, loop: LoopThread) -> MakeQueue:
        return _async_maker(clock, ".fifo", loop)

    @pytest.fixture
    def timeline(self, clock: ManualClock) -> Timeline:
        return ManualTime(clock)
