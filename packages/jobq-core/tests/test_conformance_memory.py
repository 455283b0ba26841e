"""The suite that every backend passes, over queues in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jobq.core.memory import AsyncMemoryQueue, ManualClock, MemoryQueue, MemoryServer
from jobq.core.testing.conformance import (
    FifoConformance,
    LoopThread,
    MakeQueue,
    ManualTime,
    StandardConformance,
    Timeline,
    async_queue_maker,
    queue_maker,
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


def _maker(clock: ManualClock, *, fifo: bool) -> MakeQueue:
    return queue_maker(MemoryQueue, fifo=fifo, server=MemoryServer(clock=clock))


def _async_maker(clock: ManualClock, loop: LoopThread, *, fifo: bool) -> MakeQueue:
    server = MemoryServer(clock=clock)
    return async_queue_maker(AsyncMemoryQueue, loop, fifo=fifo, server=server)


class TestMemoryStandard(StandardConformance):
    @pytest.fixture
    def make_queue(self, clock: ManualClock) -> MakeQueue:
        return _maker(clock, fifo=False)

    @pytest.fixture
    def timeline(self, clock: ManualClock) -> Timeline:
        return ManualTime(clock)


class TestMemoryFifo(FifoConformance):
    @pytest.fixture
    def make_queue(self, clock: ManualClock) -> MakeQueue:
        return _maker(clock, fifo=True)

    @pytest.fixture
    def timeline(self, clock: ManualClock) -> Timeline:
        return ManualTime(clock)


class TestAsyncMemoryStandard(StandardConformance):
    @pytest.fixture
    def make_queue(self, clock: ManualClock, loop: LoopThread) -> MakeQueue:
        return _async_maker(clock, loop, fifo=False)

    @pytest.fixture
    def timeline(self, clock: ManualClock) -> Timeline:
        return ManualTime(clock)


class TestAsyncMemoryFifo(FifoConformance):
    @pytest.fixture
    def make_queue(self, clock: ManualClock, loop: LoopThread) -> MakeQueue:
        return _async_maker(clock, loop, fifo=True)

    @pytest.fixture
    def timeline(self, clock: ManualClock) -> Timeline:
        return ManualTime(clock)
