"""Named async queues that share clients and middleware, on each loop that enters them."""

from __future__ import annotations

import asyncio
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from jobq.core.async_entries import AsyncBackends, Entry, Opened
from jobq.core.async_sending import AsyncSender
from jobq.core.errors import ConfigurationError
from jobq.core.group_definitions import (
    check_requests,
    dead_letter_definition,
    find,
    read_definitions,
)
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
    from jobq.core.interfaces.queue import AsyncQueue
    from jobq.core.message import AttributeValue, QueueStats
    from jobq.core.middleware import JobMiddleware
    from jobq.core.retries import RetryPolicy
    from jobq.core.settings import Settings


class AsyncQueueGroup:
    """Async queues under short names, with what a worker must know of each.

    `queues` maps each name to a `QueueDefinition` or a mapping of its fields. It is used inside
    `async with`, which opens its queues and clients for the running loop; loops that enter it at
    once have clients of their own, and one that enters it twice leaves it with the second exit. A
    call that is out then is cut, and raises: what it asked for may have been done all the same.
    Opening clients takes time, so enter once for the life of a program, not for each request.

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
        self._backends = AsyncBackends(session, client, settings.connection if settings else None)
        for definition in self._definitions.values():
            if definition.queue is None:
                self._backends.find(definition)
        self._entries: dict[AbstractEventLoop, Entry] = {}
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
        """Open queues and clients on the running loop, if it hasn't entered the group yet.

        Raises `ConfigurationError` where a client can't be made, and `BackendError` where looking
        up its credentials failed. Nothing stays open then, and it may be tried again.
        """
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

    def _here(self) -> Opened:
        entry = self._entry()
        if entry is None or entry.opened is None:
            where = "the running event loop" if running_loop() else "a thread without an event loop"
            raise ConfigurationError(
                f"{where} hasn't entered this AsyncQueueGroup: use it inside `async with queues:` "
                "on the loop that awaits it"
            )
        return entry.opened

    def _entry(self) -> Entry | None:
        loop = running_loop()
        return None if loop is None or self._pid != os.getpid() else self._entries.get(loop)

    def _made_entry(self) -> Entry:
        if self._pid != os.getpid():
            # What was entered before a fork belongs to the parent.
            self._entries, self._pid = {}, os.getpid()
        for loop in list(self._entries):
            if loop.is_closed():
                self._entries.pop(loop, None)
        made = Entry(self._definitions, self._backends)
        return self._entries.setdefault(asyncio.get_running_loop(), made)
