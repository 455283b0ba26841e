"""The protocols that backends and middleware are written against."""

from jobq.core.interfaces.backend import AsyncBackend, AsyncClientMaker, Backend, ClientMaker
from jobq.core.interfaces.operations import (
    AsyncQueueOperations,
    Finding,
    MoveProgress,
    QueueOperations,
)
from jobq.core.interfaces.queue import (
    AsyncConnected,
    AsyncQueue,
    Connected,
    ConnectionInfo,
    Queue,
)

__all__ = [
    "AsyncBackend",
    "AsyncClientMaker",
    "AsyncConnected",
    "AsyncQueue",
    "AsyncQueueOperations",
    "Backend",
    "ClientMaker",
    "Connected",
    "ConnectionInfo",
    "Finding",
    "MoveProgress",
    "Queue",
    "QueueOperations",
]
