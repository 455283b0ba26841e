"""In-memory queues by definition: the entry point `memory` of `jobq.backends`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from jobq.core.errors import ConfigurationError
from jobq.core.memory.queue import MemoryQueue
from jobq.core.memory.server import MemoryServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.core.definitions import QueueDefinition


class MemoryBackend:
    """Makes handles on the queues of a `MemoryServer`, which is the `client` of this backend.

    Queues made with one server and one name are one queue; a group has a server of its own unless
    it is given one, so two groups share nothing by accident.
    """

    def __call__(
        self, definition: QueueDefinition, *, client: Any = None, settings: Any = None
    ) -> MemoryQueue:
        """A queue by the definition's name, or by the last part of its URL."""
        server: MemoryServer | Callable[[], MemoryServer] | None = client
        if not (
            server is None or callable(server) or isinstance(cast("object", server), MemoryServer)
        ):
            raise ConfigurationError(
                f"the client of an in-memory queue is a MemoryServer, not {client!r}: "
                "pass client=MemoryServer(), or none"
            )
        name = definition.name or (definition.url or "").rstrip("/").rpartition("/")[2]
        default = 30 if definition.visibility_timeout is None else definition.visibility_timeout
        return MemoryQueue(name, visibility_timeout=default, server=server)

    def make_client(self, settings: Any = None) -> MemoryServer:
        return MemoryServer()


backend = MemoryBackend()
