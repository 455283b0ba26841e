"""Named queues that share clients and middleware."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from jobq.core.backends import backend_name, find_backend
from jobq.core.clients import ClientSource
from jobq.core.definitions import QueueDefinition
from jobq.core.errors import ConfigurationError, InvalidMessageError, UnknownQueueError
from jobq.core.interfaces.backend import ClientMaker
from jobq.core.job_requests import JobRequest
from jobq.core.middleware import hooks_of
from jobq.core.sending import Sender

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from jobq.core.interfaces.backend import Backend
    from jobq.core.interfaces.queue import Queue
    from jobq.core.message import AttributeValue, QueueStats
    from jobq.core.middleware import JobMiddleware


T = TypeVar("T")


class QueueGroup:
    """Sync queues under short names, with what a worker must know of each.

    `queues` maps each name to a `QueueDefinition` or a mapping of its fields. `client` is an SDK
    client or a callable that makes one, called once per process; all queues of the group share it.
    Without one, the queues of each backend share a client of that backend's own.

    Building does no IO, so a group may be built at import and before a fork. Raises
    `ConfigurationError` and `BackendNotInstalledError`.
    """

    def __init__(
        self,
        queues: Mapping[str, QueueDefinition | Mapping[str, Any]],
        middleware: Sequence[JobMiddleware] = (),
        *,
        client: Any = None,
    ) -> None:
        self._definitions = _read_definitions(queues)
        self._middleware = tuple(middleware)
        hooks = hooks_of(self._middleware, "produce")
        maker = _QueueMaker(client)
        self._queues = {name: maker.make(one) for name, one in self._definitions.items()}
        self._made, self._sources = maker.made, maker.sources
        self._maker = maker
        self._senders = {
            name: Sender(name=name, queue=queue, hooks=hooks)
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

    def definition(self, name: str) -> QueueDefinition:
        """Raises `UnknownQueueError`."""
        return self._find(self._definitions, name)

    def queue(self, name: str) -> Queue:
        """Raises `UnknownQueueError`."""
        return self._find(self._queues, name)

    def dead_letter_queue(self, name: str) -> Queue | None:
        """Where the messages of queue `name` go that are given up; the caller closes it.

        That is its definition's `dead_letter`, else what its redrive policy names, else None.
        Raises `UnknownQueueError`, `BackendError` where the policy can't be read, and
        `ConfigurationError` for a `dead_letter` beside a queue made by hand.
        """
        queue, definition = self.queue(name), self.definition(name)
        if definition.dead_letter is None:
            return queue.dead_letter_queue()
        if definition.queue is not None:
            raise ConfigurationError(
                f"queue {name!r} was made by hand, so dead_letter={definition.dead_letter!r} can't "
                "be opened over its connection: give it a redrive policy instead, or define the "
                "queue by 'name' or 'url'"
            )
        return self._maker.open(_definition_of(definition.dead_letter, definition.backend))

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
        return self._find(self._senders, queue).send(request)

    def enqueue_batch(self, queue: str, requests: Iterable[JobRequest]) -> list[str]:
        """Send any number of jobs in as few calls as the queue allows; returns the message ids.

        Every item is checked, and its produce hooks have run up to their `call_next`, before any is
        sent: what is raised until then is raised here, with nothing sent. Then all are tried, and
        where one fails `PublishBatchError` is raised, with one entry of `results` for each item.
        What a hook raises after its `call_next` is raised once every chain has ended.

        `async def` hooks cost nothing more here. A plain one holds one thread an item.
        """
        sender, batch = self._find(self._senders, queue), list(requests)
        for position, request in enumerate(batch):
            if not isinstance(request, JobRequest):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidMessageError(
                    f"item {position} of the batch is of type {type(request).__name__}: "
                    "enqueue_batch takes JobRequests"
                )
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

    def _find(self, where: Mapping[str, T], name: str) -> T:
        try:
            return where[name]
        except (KeyError, TypeError):
            raise UnknownQueueError(
                f"no queue {name!r} in this group: it holds {', '.join(map(repr, where))}"
            ) from None


def _read_definitions(
    queues: Mapping[str, QueueDefinition | Mapping[str, Any]],
) -> dict[str, QueueDefinition]:
    if not isinstance(queues, Mapping) or not queues:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"queues must map at least one name to a definition, such as "
            f"{{'default': {{'name': 'my-app-jobs'}}}}, not {queues!r}"
        )
    definitions: dict[str, QueueDefinition] = {}
    owners: dict[object, str] = {}
    for name, given in queues.items():
        definition = _read_definition(name, given)
        _check_sync(name, definition)
        address = definition.name or definition.url or id(definition.queue)
        first = owners.setdefault(address, name)
        if first != name:
            raise ConfigurationError(
                f"queues {first!r} and {name!r} are the same queue, {address!r}: "
                "give it one name in the group"
            )
        definitions[name] = definition
    return definitions


def _read_definition(name: object, given: object) -> QueueDefinition:
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"a queue's name in its group must be text, not {name!r}")
    if isinstance(given, QueueDefinition):
        return given
    if isinstance(given, Mapping):
        return QueueDefinition.from_mapping(name, cast("Mapping[str, Any]", given))
    raise ConfigurationError(
        f"queue {name!r} must be a mapping such as {{'name': 'my-app-jobs'}}, not {given!r}"
    )


def _definition_of(name_or_url: str, backend: str | None) -> QueueDefinition:
    if "://" in name_or_url:
        return QueueDefinition(url=name_or_url, backend=backend)
    return QueueDefinition(name=name_or_url, backend=backend)


def _check_sync(name: str, definition: QueueDefinition) -> None:
    queue = definition.queue
    if queue is None:
        return
    publish = getattr(queue, "publish", None)
    if not callable(publish):
        raise ConfigurationError(f"queue {name!r}: {queue!r} is no Queue")
    if inspect.iscoroutinefunction(publish):
        raise ConfigurationError(
            f"queue {name!r}: {type(queue).__name__} is an async queue, and a QueueGroup holds "
            "sync ones: use its sync twin"
        )


class _QueueMaker:
    """Makes queues over one client, or over one for each backend that can make its own."""

    def __init__(self, client: Any) -> None:
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
        return backend(definition, client=client)

    def _backend(self, name: str) -> tuple[Backend, ClientSource | None]:
        if name not in self._backends:
            backend = find_backend(name)
            client = self._given
            if client is None and isinstance(backend, ClientMaker):
                client = ClientSource(backend.make_client)
                self.sources.append(client)
            self._backends[name] = (backend, client)
        return self._backends[name]
