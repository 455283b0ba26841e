"""Queues by definition: what the entry points of both backends are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jobq.core import ConfigurationError
from jobq.sqs.common import addresses
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.common.connection import Connection
from jobq.sqs.common.queue import SqsQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.core import QueueDefinition
    from jobq.sqs.common.sdk import Sdk

Q = TypeVar("Q", bound=SqsQueue)


def address_of(definition: QueueDefinition, *, fifo: bool) -> str:
    """The definition's URL as it is, or its name in full. Raises `ConfigurationError`."""
    if definition.url is not None:
        return definition.url
    if definition.name is not None:
        return addresses.full_name(definition.name, fifo=fifo)
    raise ConfigurationError("an SQS queue's definition needs a 'name' or a 'url'")


class SqsBackend(Generic[Q]):
    """Makes queues of one kind, and the client that the queues of a group share, without IO.

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
        connection = Connection(self._sdk, client, ClientOptions.of(settings))
        return self._queue(address, client=connection)

    def make_client(self, settings: Any = None) -> Any:
        """A client of one attempt a request, with a pool for 256 calls at once."""
        return self._sdk.client(ClientOptions.of(settings))
