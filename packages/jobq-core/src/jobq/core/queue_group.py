"""Named queues that share clients and middleware."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, cast

from jobq.core.backends import backend_name, find_backend
from jobq.core.clients import ClientSource
from jobq.core.group_definitions import (
    check_requests,
    dead_letter_definition,
    find,
    read_definitions,
)
from jobq.core.interfaces.backend import ClientMaker
from jobq.core.job_requests import JobRequest
from jobq.core.middleware import hooks_of
from jobq.core.parcels import Packing
from jobq.core.sending import Sender
from jobq.core.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from jobq.core.definitions import QueueDefinition
    from jobq.core.interfaces.backend import Backend
    from jobq.core.interfaces.queue import Queue
    from jobq.core.message import AttributeValue, QueueStats
    from jobq.core.middleware import JobMiddleware
    from jobq.core.retries import RetryPolicy
    from jobq.core.settings import ConnectionSettings, Settings


class QueueGroup:
    """Sync queues under short names, with what a worker must know of each.

    `queues` maps each name to a `QueueDefinition` or a mapping of its fields. `client` is an SDK
    client or a callable that makes one; all queues of the group share it. Without one, the queues
    of each backend share a client of that backend's own. `settings` are what `from_env` reads:
    those clients are made by them. A client is made once per process, and anew only while no
    credentials were found.

    Building does no IO, so a group may be built at import and before a fork. Raises
    `ConfigurationError` and `BackendNotInstalledError`.
    """

    def __init__(
        self,
        queues: Mapping[str, QueueDefinition | Mapping[str, Any]],
        middleware: Sequence[JobMiddleware] = (),
        *,
        client: Any = None,
        settings: Settings | None = None,
    ) -> None:
        self._definitions = read_definitions(queues, awaited=False)
        self._middleware = tuple(middleware)
        hooks = hooks_of(self._middleware, "produce")
        self._retry = settings.retry if settings else None
        maker = _QueueMaker(client, settings.connection if settings else None)
        self._queues = {name: maker.make(one) for name, one in self._definitions.items()}
        self._made, self._sources = maker.made, maker.sources
        self._maker = maker
        self._senders = {
            name: Sender(packing=Packing(name=name, hooks=hooks), queue=queue)
            for name, queue in self._queues.items()
        }

    @classmethod
    def build(
        cls,
        *,
        queues: Mapping[str, QueueDefinition | Mapping[str, Any]],
        client: Any = None,
        middleware: Sequence[JobMiddleware] = (),
    ) -> Self:
        """A group whose queues are made here, over one client."""
        return cls(queues, middleware, client=client)

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
        return tuple(self._queues)

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

    def definition(self, name: str) -> QueueDefinition:
        """Raises `UnknownQueueError`."""
        return find(self._definitions, name)

    def queue(self, name: str) -> Queue:
        """Raises `UnknownQueueError`."""
        return find(self._queues, name)

    def dead_letter_queue(self, name: str) -> Queue | None:
        """Where the messages of queue `name` go that are given up; the caller closes it.

        That is its definition's `dead_letter`, else what its redrive policy names, else None.
        Raises `UnknownQueueError`, `BackendError` where the policy can't be read, and
        `ConfigurationError` for a `dead_letter` beside a queue made by hand.
        """
        target = dead_letter_definition(name, self.definition(name))
        return self.queue(name).dead_letter_queue() if target is None else self._maker.open(target)

    def enqueue(
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
        return find(self._senders, queue).send(request)

    def enqueue_batch(self, queue: str, requests: Iterable[JobRequest]) -> list[str]:
        """Send any number of jobs in as few calls as the queue allows; returns the message ids.

        Every item is checked, and its produce hooks have run up to their `call_next`, before any is
        sent: what is raised until then is raised here, with nothing sent. Then all are tried, and
        where one fails `PublishBatchError` is raised, with one entry of `results` for each item.
        What a hook raises after its `call_next` is raised once every chain has ended.

        `async def` hooks cost nothing more here. A plain one holds one thread an item.
        """
        sender, batch = find(self._senders, queue), list(requests)
        check_requests(batch)
        return sender.send_batch(batch)

    def stats(self) -> dict[str, QueueStats]:
        """How many messages each queue holds; estimates on SQS. Raises `BackendError`."""
        return {name: queue.stats() for name, queue in self._queues.items()}

    def close(self) -> None:
        """Close what the group made: not a queue made by hand, nor a client that was passed."""
        with ExitStack() as stack:
            for source in self._sources:
                stack.callback(source.close)
            for queue in self._made:
                stack.callback(queue.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        self.close()


class _QueueMaker:
    """Makes queues over one client, or over one for each backend that can make its own."""

    def __init__(self, client: Any, settings: ConnectionSettings | None) -> None:
        self._settings = settings
        self.made: list[Queue] = []
        self.sources: list[ClientSource] = []
        self._given = None if client is None else ClientSource(client)
        self._backends: dict[str, tuple[Backend, ClientSource | None]] = {}

    def make(self, definition: QueueDefinition) -> Queue:
        if definition.queue is not None:
            return cast("Queue", definition.queue)
        queue = self.open(definition)
        self.made.append(queue)
        return queue

    def open(self, definition: QueueDefinition) -> Queue:
        """A queue for the caller to close."""
        backend, client = self._backend(backend_name(definition))
        return backend(definition, client=client, settings=self._settings)

    def _backend(self, name: str) -> tuple[Backend, ClientSource | None]:
        if name not in self._backends:
            backend = find_backend(name)
            client = self._given
            if client is None and isinstance(backend, ClientMaker):
                client = ClientSource(partial(backend.make_client, self._settings))
                self.sources.append(client)
            self._backends[name] = (backend, client)
        return self._backends[name]
