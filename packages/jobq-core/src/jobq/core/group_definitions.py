"""The definitions that a group is given, read and checked."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from jobq.core.definitions import QueueDefinition
from jobq.core.errors import ConfigurationError, InvalidMessageError, UnknownQueueError
from jobq.core.job_requests import JobRequest

T = TypeVar("T")


def read_definitions(
    queues: Mapping[str, QueueDefinition | Mapping[str, Any]], *, awaited: bool
) -> dict[str, QueueDefinition]:
    """The queues of a group, whose queues made by hand are all async, or all sync.

    Raises `ConfigurationError`.
    """
    if not isinstance(queues, Mapping) or not queues:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"queues must map at least one name to a definition, such as "
            f"{{'default': {{'name': 'my-app-jobs'}}}}, not {queues!r}"
        )
    definitions: dict[str, QueueDefinition] = {}
    owners: dict[object, str] = {}
    for name, given in queues.items():
        definition = _read_definition(name, given)
        _check_colour(name, definition, awaited=awaited)
        address = definition.name or definition.url or id(definition.queue)
        first = owners.setdefault(address, name)
        if first != name:
            raise ConfigurationError(
                f"queues {first!r} and {name!r} are the same queue, {address!r}: "
                "give it one name in the group"
            )
        definitions[name] = definition
    return definitions


def find(where: Mapping[str, T], name: str) -> T:
    """Raises `UnknownQueueError`."""
    try:
        return where[name]
    except (KeyError, TypeError):
        raise UnknownQueueError(
            f"no queue {name!r} in this group: it holds {', '.join(map(repr, where))}"
        ) from None


def dead_letter_definition(name: str, definition: QueueDefinition) -> QueueDefinition | None:
    """That of the queue that the definition names as its `dead_letter`, if it names one.

    Raises `ConfigurationError` for one beside a queue made by hand.
    """
    target = definition.dead_letter
    if target is None:
        return None
    if definition.queue is not None:
        raise ConfigurationError(
            f"queue {name!r} was made by hand, so dead_letter={target!r} can't "
            "be opened over its connection: give it a redrive policy instead, or define the "
            "queue by 'name' or 'url'"
        )
    if "://" in target:
        return QueueDefinition(url=target, backend=definition.backend)
    return QueueDefinition(name=target, backend=definition.backend)


def check_requests(requests: list[JobRequest]) -> None:
    """Raise `InvalidMessageError` for a batch of anything else."""
    for position, request in enumerate(requests):
        if not isinstance(request, JobRequest):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidMessageError(
                f"item {position} of the batch is of type {type(request).__name__}: "
                "enqueue_batch takes JobRequests"
            )


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


def _check_colour(name: str, definition: QueueDefinition, *, awaited: bool) -> None:
    queue = definition.queue
    if queue is None:
        return
    kind = type(queue).__name__
    publish = getattr(queue, "publish", None)
    if not callable(publish):
        raise ConfigurationError(
            f"queue {name!r}: {queue!r} is no {'AsyncQueue' if awaited else 'Queue'}"
        )
    if inspect.iscoroutinefunction(publish) == awaited:
        return
    if awaited:
        raise ConfigurationError(
            f"queue {name!r}: {kind} is a sync queue, and an AsyncQueueGroup holds async ones: "
            "use its async twin, or put it into a QueueGroup"
        )
    raise ConfigurationError(
        f"queue {name!r}: {kind} is an async queue, and a QueueGroup holds sync ones: "
        "use its sync twin, or put it into an AsyncQueueGroup"
    )
