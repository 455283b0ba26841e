"""What an entry point in the group `jobq.backends`, or `jobq.async_backends`, names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from jobq.core.definitions import QueueDefinition
    from jobq.core.interfaces.queue import AsyncQueue, Queue


class Backend(Protocol):
    """Makes a queue from its definition, without IO.

    `client` is None, an SDK client, or a callable without arguments that makes one, once per
    process; a `ClientSource` is such a callable, shared by the queues of a group.
    """

    def __call__(
        self, definition: QueueDefinition, *, client: Any = None, settings: Any = None
    ) -> Queue: ...


@runtime_checkable
class ClientMaker(Protocol):
    """A backend that can also make the client which the queues of one group share."""

    def make_client(self, settings: Any = None) -> Any: ...


class AsyncBackend(Protocol):
    """Makes an async queue from its definition, without IO.

    `client` is None, an SDK client that was entered, or a callable without arguments that returns
    an async context manager of one; or an `AsyncClientSource` over either, shared by the queues of
    a group.
    """

    def __call__(
        self, definition: QueueDefinition, *, client: Any = None, settings: Any = None
    ) -> AsyncQueue: ...


@runtime_checkable
class AsyncClientMaker(Protocol):
    """An async backend that can also open the client which the queues of one group share on one
    loop; `session` is the SDK's, or None.
    """

    def open_client(
        self, settings: Any = None, *, session: Any = None
    ) -> AbstractAsyncContextManager[Any]: ...
