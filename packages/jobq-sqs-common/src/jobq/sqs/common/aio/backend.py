"""Async queues by definition: what the async entry points of both backends are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jobq.sqs.common.aio.connection import AsyncConnection, open_client
from jobq.sqs.common.aio.queue import AsyncSqsQueue
from jobq.sqs.common.backend import address_of
from jobq.sqs.common.client import ClientOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from jobq.core import QueueDefinition
    from jobq.sqs.common.sdk import Sdk

Q = TypeVar("Q", bound=AsyncSqsQueue)


class AsyncSqsBackend(Generic[Q]):
    """Makes async queues of one kind, without IO, and opens the client that the queues of a group
    share on one loop.

    `settings` is None, or a connection's: `region`, `endpoint` and `timeout` (seconds).
    """

    def __init__(self, queue: Callable[..., Q], *, sdk: Sdk, fifo: bool) -> None:
        self._queue = queue
        self._sdk = sdk
        self._fifo = fifo

    def __call__(
        self, definition: QueueDefinition, *, client: Any = None, settings: Any = None
    ) -> Q:
        """A queue by the definition's name, looked up on first use, or by its URL, used as it is.

        A FIFO queue's name that lacks `.fifo` gets it.
        """
        address = address_of(definition, fifo=self._fifo)
        connection = AsyncConnection(self._sdk, client, ClientOptions.of(settings))
        return self._queue(address, client=connection)

    def open_client(
        self, settings: Any = None, *, session: Any = None
    ) -> AbstractAsyncContextManager[Any]:
        """A client of one attempt a request, with a pool for 256 calls at once, on the loop where
        it is entered. `session`, an `aioboto3.Session`, says how to find region and credentials.
        """
        return open_client(self._sdk, ClientOptions.of(settings), session=session)
