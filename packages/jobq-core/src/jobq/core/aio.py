"""Named async queues that share clients and middleware, on each loop that enters them."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

from jobq.core.async_sending import AsyncSender
from jobq.core.backends import backend_name, find_async_backend
from jobq.core.clients import AsyncClientSource, ClientSource
from jobq.core.errors import ConfigurationError
from jobq.core.group_definitions import (
    check_requests,
    dead_letter_definition,
    find,
    read_definitions,
)
from jobq.core.interfaces.backend import AsyncClientMaker, ClientMaker
from jobq.core.job_requests import JobRequest
from jobq.core.loops import running_loop
from jobq.core.middleware import hooks_of
from jobq.core.parcels import Packing
from jobq.core.settings import read_settings

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from jobq.core.definitions import QueueDefinition
    from jobq.core.interfaces.backend import AsyncBackend
    from jobq.core.interfaces.queue import AsyncQueue
    from jobq.core.message import AttributeValue, QueueStats
    from jobq.core.middleware import JobMiddleware
    from jobq.core.retries import RetryPolicy
    from jobq.core.settings import ConnectionSettings, Settings


class AsyncQueueGroup:
    """Async queues under short names, with what a worker must know of each.

    `queues` maps each name to a `QueueDefinition` or a mapping of its fields. It is used inside
    `async with`, which opens its queues and clients for the running loop; loops that enter it at
    once have clients of their own, and one that enters it twice leaves it with the second exit.

    `session`, an `aioboto3.Session`, makes those clients, or `client` does: a callable that returns
    an async context manager of one. A group over an SDK client that was entered already only
    publishes, on the loop of that client; no worker takes it. Without any, the queues of each
    backend share a client of that backend's own. `settings` are what `from_env` reads: those
    clients are made by them.

    Building does no IO, so a group may be built at import and before a fork. Raises
    `ConfigurationError` and `BackendNotInstalledError`.
    """

    def __init__(
        self,
        queues: Mapping[str, QueueDefinition | Mapping[str, Any]],
        middleware: Sequence[JobMiddleware] = (),
        *,
        session: Any = None,
        client: Any = None,
        settings: Settings | None = None,
    ) -> None:
        self._definitions = read_definitions(queues, awaited=True)
        self._middleware = tuple(middleware)
        self._retry = settings.retry if settings else None
        hooks = hooks_of(self._middleware, "produce")
        self._packings = {name: Packing(name=name, hooks=hooks) for name in self._definitions}
        self._backends = _Backends(session, client, settings.connection if settings else None)
        for definition in self._definitions.values():
            if definition.queue is None:
                self._backends.find(definition)
        self._entries: dict[AbstractEventLoop, _Entry] = {}
        self._pid = os.getpid()

    @classmethod
    def build(
        cls,
        *,
        queues: Mapping[str, QueueDefinition | Mapping[str, Any]],
        session: Any = None,
        client: Any = None,
        middleware: Sequence[JobMiddleware] = (),
    ) -> Self:
        """A group whose queues are made here, over one session or client."""
        return cls(queues, middleware, session=session, client=client)

    @classmethod
    def from_env(
        cls,
        queues: Iterable[str] | Mapping[str, QueueDefinition | Mapping[str, Any] | str],
        *,
        connection: str | None = None,
        middleware: Sequence[JobMiddleware] = (),
    ) -> Self:
        """A group over the connection that the environment describes, by the keys `JOBQ_…`.

        `queues` are names, or a mapping to names, URLs and definitions. `connection` goes before
        the one that `JOBQ_CONNECTION_NAME` names. Raises `ConfigurationError`, which names the
        key, and `BackendNotInstalledError`.
        """
        settings = read_settings(os.environ, connection)
        return cls(settings.define(queues), middleware, settings=settings)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the queues, in the order they were given."""
        return tuple(self._definitions)

    @property
    def definitions(self) -> Mapping[str, QueueDefinition]:
        return MappingProxyType(self._definitions)

    @property
    def middleware(self) -> tuple[JobMiddleware, ...]:
        return self._middleware

    @property
    def retry(self) -> RetryPolicy | None:
        """The environment's retry policy, the outermost level; None for a group not from there."""
        return self._retry

    @property
    def publishes_only(self) -> bool:
        """Whether its client was made elsewhere, for one loop, so that no worker can have its own.

        Give it `session=` to be served by one.
        """
        return self._backends.bound

    def definition(self, name: str) -> QueueDefinition:
        """Raises `UnknownQueueError`."""
        return find(self._definitions, name)

    def queue(self, name: str) -> AsyncQueue:
        """The queue of the running loop.

        Raises `UnknownQueueError`, and `ConfigurationError` where that loop hasn't entered the
        group.
        """
        find(self._definitions, name)
        return self._here().queues[name]

    async def dead_letter_queue(self, name: str) -> AsyncQueue | None:
        """Where the messages of queue `name` go that are given up; the caller closes it.

        That is its definition's `dead_letter`, else what its redrive policy names, else None.
        Raises `UnknownQueueError`, `BackendError` where the policy can't be read, and
        `ConfigurationError` for a `dead_letter` beside a queue made by hand.
        """
        target = dead_letter_definition(name, self.definition(name))
        if target is None:
            return await self.queue(name).dead_letter_queue()
        return self._here().open(target)

    async def enqueue(
        self,
        queue: str,
        job_type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        correlation_fields: Mapping[str, Any] | None = None,
        message_group_id: str | None = None,
        message_deduplication_id: str | None = None,
        message_attributes: Mapping[str, AttributeValue] | None = None,
        delay_seconds: float = 0,
        max_attempts: int | None = None,
    ) -> str:
        """Send one job; returns its message id.

        `correlation_fields` hold JSON and turn up in the consumer's log lines. `delay_seconds` is 0
        to 900, on a FIFO queue 0. Raises `UnknownQueueError`, `InvalidMessageError`,
        `MessageTooLargeError`, `UnsupportedFeatureError` or `DelayTooLongError` before any call,
        `BackendError` after one, and what a produce hook raises.

        Raises `ConfigurationError` where the running loop hasn't entered the group. Hooks see a
        cancellation; whether a send that it met went out is not known.
        """
        request = JobRequest(
            job_type,
            payload,
            correlation_fields=correlation_fields,
            message_group_id=message_group_id,
            message_deduplication_id=message_deduplication_id,
            message_attributes=message_attributes,
            delay_seconds=delay_seconds,
            max_attempts=max_attempts,
        )
        return await self._sender(queue).send(request)

    async def enqueue_batch(self, queue: str, requests: Iterable[JobRequest]) -> list[str]:
        """Send any number of jobs in as few calls as the queue allows; returns the message ids.

        Every item is checked, and its produce hooks have run up to their `call_next`, before any is
        sent: what is raised until then is raised here, with nothing sent. Then all are tried, and
        where one fails `PublishBatchError` is raised, with one entry of `results` for each item.
        What a hook raises after its `call_next` is raised once every chain has ended.

        `async def` hooks cost a task an item, and run at once. A plain one holds one thread an
        item.
        """
        sender, batch = self._sender(queue), list(requests)
        check_requests(batch)
        return await sender.send_batch(batch)

    async def stats(self) -> dict[str, QueueStats]:
        """How many messages each queue holds; estimates on SQS. Raises `BackendError`."""
        return {name: await queue.stats() for name, queue in self._here().queues.items()}

    async def close(self) -> None:
        """Close what the group made: not a queue made by hand, nor a client that was passed.

        That is, on the running loop, however often that has entered it.
        """
        entry = self._entry()
        if entry is not None:
            await entry.leave(altogether=True)

    async def __aenter__(self) -> Self:
        await self._made_entry().enter()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        entry = self._entry()
        if entry is not None:
            await entry.leave()

    def _sender(self, name: str) -> AsyncSender:
        packing = find(self._packings, name)
        return AsyncSender(packing=packing, queue=self._here().queues[name])

    def _here(self) -> _Opened:
        entry = self._entry()
        if entry is None or entry.opened is None:
            where = "the running event loop" if running_loop() else "a thread without an event loop"
            raise ConfigurationError(
                f"{where} hasn't entered this AsyncQueueGroup: use it inside `async with queues:` "
                "on the loop that awaits it"
            )
        return entry.opened

    def _entry(self) -> _Entry | None:
        loop = running_loop()
        return None if loop is None or self._pid != os.getpid() else self._entries.get(loop)

    def _made_entry(self) -> _Entry:
        if self._pid != os.getpid():
            # What was entered before a fork belongs to the parent.
            self._entries, self._pid = {}, os.getpid()
        for loop in list(self._entries):
            if loop.is_closed():
                self._entries.pop(loop, None)
        made = _Entry(self._definitions, self._backends)
        return self._entries.setdefault(asyncio.get_running_loop(), made)


class _Backends:
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
            self._found[name] = backend = find_async_backend(name)
            if isinstance(backend, ClientMaker):
                make = partial(backend.make_client, self.settings)
                self._free[name] = ClientSource(make if self._client is None else self._client)
            elif self._client is not None and self._entered is None:
                # Also where it is called to open one: an address is refused here.
                source = AsyncClientSource(self._client)
                self._entered = None if callable(self._client) else source
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
            return self._entered or AsyncClientSource(self._client)
        backend = self._found[name]
        if isinstance(backend, AsyncClientMaker):
            return AsyncClientSource(
                partial(backend.open_client, self.settings, session=self._session)
            )
        return None


class _Opened:
    """The queues of a group on one loop, over the clients that they share there."""

    def __init__(self, backends: _Backends) -> None:
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


class _Entry:
    """How often one loop has entered a group, and what is open there meanwhile."""

    def __init__(self, definitions: Mapping[str, QueueDefinition], backends: _Backends) -> None:
        self.opened: _Opened | None = None
        self._definitions = definitions
        self._backends = backends
        self._turn = asyncio.Lock()
        self._times = 0

    async def enter(self) -> None:
        async with self._turn:
            if self.opened is None:
                opened = _Opened(self._backends)
                await opened.open_all(self._definitions)
                self.opened = opened
            self._times += 1

    async def leave(self, *, altogether: bool = False) -> None:
        async with self._turn:
            self._times = 0 if altogether else max(0, self._times - 1)
            if not self._times and self.opened is not None:
                opened, self.opened = self.opened, None
                await opened.close()
