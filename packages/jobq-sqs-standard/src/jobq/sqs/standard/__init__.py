"""jobq on SQS standard queues."""

from typing import TYPE_CHECKING, Any

from jobq.sqs.standard.backend import backend
from jobq.sqs.standard.queue import SqsStandardQueue

if TYPE_CHECKING:
    from jobq.sqs.standard.aio import AsyncSqsStandardQueue

__all__ = ["AsyncSqsStandardQueue", "SqsStandardQueue", "backend"]


def __getattr__(name: str) -> Any:
    """Aioboto3 comes with `AsyncSqsStandardQueue`, where somebody asks for that.

    Raises `BackendNotInstalledError` where it isn't installed.
    """
    if name == "AsyncSqsStandardQueue":
        from jobq.sqs.standard import aio

        return aio.AsyncSqsStandardQueue
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
