"""In-memory queues by definition: the entry points `memory` of both groups of backends."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from jobq.core.errors import ConfigurationError
from jobq.core.memory.aio import AsyncMemoryQueue
from jobq.core.memory.queue import MemoryQueue
from jobq.core.memory.server import MemoryServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.core.definitions import QueueDefinition

Q = TypeVar("Q", MemoryQueue, AsyncMemoryQueue)


class Servers:
    """The servers of connections: one for each name, in each process."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str], MemoryServer] = {}

    def server(self, settings: Any) -> MemoryServer:
        """That of the connection `settings.name`, or a new one without settings."""
        if settings is None:
            return MemoryServer()
        return self._made.setdefault((os.getpid(), settings.name), MemoryServer())


class MemoryBackend(Generic[Q]):
    """Makes handles on the queues of a `MemoryServer`, which is the `client` of this backend.

    Queues made with one server and one name are one queue; a group has a server of its own unless
    it is given one, so two groups share nothing by accident. With `settings` all queues of that
    connection's `name` in this process are on one server, sync and async ones.

    A server belongs to no loop, so the loops of an async group share it.
    """

    def __init__(self, kind: type[Q], servers: Servers) -> None:
        self._kind = kind
        self._servers = servers

    def __call__(
        self, definition: QueueDefinition, *, client: Any = None, settings: Any = None
    ) -> Q:
        """A queue by the definition's name, or by the last part of its URL."""
        server: MemoryServer | Callable[[], MemoryServer] | None = client
        if server is None and settings is not None:
            server = partial(self.make_client, settings)
        given = cast("object", server)
        if not (server is None or callable(server) or isinstance(given, MemoryServer)):
            raise ConfigurationError(
                f"the client of an in-memory queue is a MemoryServer, not {client!r}: "
                "pass client=MemoryServer(), or none"
            )
        name = definition.name or (definition.url or "").rstrip("/").rpartition("/")[2]
        default = 30 if definition.visibility_timeout is None else definition.visibility_timeout
        return self._kind(name, visibility_timeout=default, server=server)

    def make_client(self, settings: Any = None) -> MemoryServer:
        return self._servers.server(settings)


_servers = Servers()
backend = MemoryBackend(MemoryQueue, _servers)
async_backend = MemoryBackend(AsyncMemoryQueue, _servers)
