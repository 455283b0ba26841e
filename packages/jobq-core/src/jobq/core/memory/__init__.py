"""Queues in memory, standard and FIFO, with SQS's own rules and a clock that can be moved."""

from jobq.core.memory.aio import AsyncMemoryQueue
from jobq.core.memory.backend import MemoryBackend, async_backend, backend
from jobq.core.memory.clock import Clock, ManualClock, SystemClock
from jobq.core.memory.queue import MemoryQueue
from jobq.core.memory.server import MemoryServer

__all__ = [
    "AsyncMemoryQueue",
    "Clock",
    "ManualClock",
    "MemoryBackend",
    "MemoryQueue",
    "MemoryServer",
    "SystemClock",
    "async_backend",
    "backend",
]
