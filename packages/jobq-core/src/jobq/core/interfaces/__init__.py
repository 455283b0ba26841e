"""The protocols that backends and middleware are written against."""

from jobq.core.interfaces.backend import Backend, ClientMaker
from jobq.core.interfaces.operations import Finding, MoveProgress, QueueOperations
from jobq.core.interfaces.queue import AsyncQueue, Connected, ConnectionInfo, Queue

__all__ = [
    "AsyncQueue",
    "Backend",
    "ClientMaker",
    "Connected",
    "ConnectionInfo",
    "Finding",
    "MoveProgress",
    "Queue",
    "QueueOperations",
]
