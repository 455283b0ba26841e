"""What an entry point in the group `jobq.backends` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from jobq.core.definitions import QueueDefinition
    from jobq.core.interfaces.queue import Queue


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
