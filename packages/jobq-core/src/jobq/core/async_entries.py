"""What an async group has open on each loop: its queues, and the clients that they share there."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from jobq.core.backends import backend_name, find_async_backend
from jobq.core.clients import AsyncClientSource, ClientSource
from jobq.core.errors import ConfigurationError
from jobq.core.interfaces.backend import AsyncClientMaker, ClientMaker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobq.core.definitions import QueueDefinition
    from jobq.core.interfaces.backend import AsyncBackend
    from jobq.core.interfaces.queue import AsyncQueue
    from jobq.core.settings import ConnectionSettings


class AsyncBackends:
    """The backends of a group, and the clients of those whose clients belong to no loop."""

    def __init__(self, session: Any, client: Any, settings: ConnectionSettings | None) -> None:
        if session is not None and client is not None:
            raise ConfigurationError(
                "session= and client= were both given: a group opens its clients with one of them"
            )
        self.settings = settings
        self._session = session
        self._client = client
        self._found: dict[str, AsyncBackend] = {}
        self._free: dict[str, ClientSource] = {}
        self._entered: AsyncClientSource | None = None

    @property
    def bound(self) -> bool:
        """Whether a queue stands on a client that was entered before it was given."""
        return self._entered is not None

    def find(self, definition: QueueDefinition) -> tuple[str, AsyncBackend]:
        name = backend_name(definition)
        if name not in self._found:
            backend = find_async_backend(name)
            if isinstance(backend, ClientMaker):
                make = partial(backend.make_client, self.settings)
                self._free[name] = ClientSource(make if self._client is None else self._client)
            elif self._client is not None and self._entered is None:
                # Also where it is called to open one: an address is refused here.
                source = AsyncClientSource(self._client)
                self._entered = None if callable(self._client) else source
            # Last: a loop that finds it here finds its client, too.
            self._found[name] = backend
        return name, self._found[name]

    def owner(self, name: str) -> str:
        """Whose client the queues of a backend stand on: a client that was given has no owner."""
        return name if self._client is None or name in self._free else ""

    def source(self, name: str) -> ClientSource | AsyncClientSource | None:
        """What the queues of a backend share on the running loop: a new one, unless it is bound to
        a loop or to none.
        """
        if name in self._free:
            return self._free[name]
        if self._client is not None:
            return self._entered or AsyncClientSource(self._client, reopens=False)
        backend = self._found[name]
        if isinstance(backend, AsyncClientMaker):
            open_client = partial(backend.open_client, self.settings, session=self._session)
            return AsyncClientSource(open_client, reopens=False)
        return None


class Opened:
    """The queues of a group on one loop, over the clients that they share there."""

    def __init__(self, backends: AsyncBackends) -> None:
        self.queues: dict[str, AsyncQueue] = {}
        self._backends = backends
        self._sources: dict[str, ClientSource | AsyncClientSource | None] = {}
        self._stack = AsyncExitStack()

    async def open_all(self, definitions: Mapping[str, QueueDefinition]) -> None:
        """Make the queues and open their clients, or leave nothing open."""
        async with self._stack as stack:
            for name, definition in definitions.items():
                if definition.queue is not None:
                    self.queues[name] = cast("AsyncQueue", definition.queue)
                    continue
                self.queues[name] = queue = self.open(definition)
                stack.push_async_callback(queue.close)
            for source in self._sources.values():
                if isinstance(source, AsyncClientSource):
                    await source()
            self._stack = stack.pop_all()

    def open(self, definition: QueueDefinition) -> AsyncQueue:
        """A queue for the caller to close."""
        name, backend = self._backends.find(definition)
        owner = self._backends.owner(name)
        if owner not in self._sources:
            self._sources[owner] = source = self._backends.source(name)
            if isinstance(source, AsyncClientSource):
                self._stack.push_async_callback(source.close)
        return backend(definition, client=self._sources[owner], settings=self._backends.settings)

    async def close(self) -> None:
        await self._stack.aclose()


class Entry:
    """How often one loop has entered a group, and what is open there meanwhile."""

    def __init__(self, definitions: Mapping[str, QueueDefinition], backends: AsyncBackends) -> None:
        self.opened: Opened | None = None
        self._definitions = definitions
        self._backends = backends
        self._turn = asyncio.Lock()
        self._times = 0

    async def enter(self) -> None:
        async with self._turn:
            if self.opened is None:
                opened = Opened(self._backends)
                await opened.open_all(self._definitions)
                self.opened = opened
            self._times += 1

    async def leave(self, *, altogether: bool = False) -> None:
        async with self._turn:
            self._times = 0 if altogether else max(0, self._times - 1)
            if not self._times and self.opened is not None:
                opened, self.opened = self.opened, None
                await opened.close()
