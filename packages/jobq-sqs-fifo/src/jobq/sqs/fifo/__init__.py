"""jobq on SQS FIFO queues."""

from typing import TYPE_CHECKING, Any

from jobq.sqs.fifo.backend import backend
from jobq.sqs.fifo.queue import SqsFifoQueue

if TYPE_CHECKING:
    from jobq.sqs.fifo.aio import AsyncSqsFifoQueue

__all__ = ["AsyncSqsFifoQueue", "SqsFifoQueue", "backend"]


def __getattr__(name: str) -> Any:
    """Aioboto3 comes with `AsyncSqsFifoQueue`, where somebody asks for that.

    Raises `BackendNotInstalledError` where it isn't installed.
    """
    if name == "AsyncSqsFifoQueue":
        from jobq.sqs.fifo import aio

        return aio.AsyncSqsFifoQueue
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
