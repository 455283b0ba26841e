"""The queues that a worker serves, out of the groups it was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from jobq.core import AsyncQueueGroup, ConfigurationError, QueueGroup, UnknownQueueError
from jobq.core.middleware import hooks_of
from jobq.worker.dispatch import Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from contextlib import AbstractAsyncContextManager

    from jobq.core import AsyncQueue, Queue, QueueDefinition, RetryPolicy
    from jobq.core.middleware import Hook


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One queue under its name, with its definition, and its group's hooks and retry level."""

    name: str
    definition: QueueDefinition
    poll_hooks: tuple[Hook, ...] = ()
    consume_hooks: tuple[Hook, ...] = ()
    environment_retry: RetryPolicy | None = None

    @property
    def route(self) -> Route:
        return Route(
            hooks=self.consume_hooks,
            retry=self.definition.retry,
            environment_retry=self.environment_retry,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription(Served):
    """`open_dead_letter` asks where the queue's dead-letter queue is; None: there is none."""

    queue: Queue
    open_dead_letter: Callable[[], Queue | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncSubscription(Served):
    """The same for a queue of an async `group`, whose calls are for a loop that has entered it."""

    group: AbstractAsyncContextManager[object]
    open_queue: Callable[[], Awaitable[AsyncQueue]]
    open_dead_letter: Callable[[], Awaitable[AsyncQueue | None]]


AnySubscription: TypeAlias = Subscription | AsyncSubscription


def subscribe(
    groups: QueueGroup | AsyncQueueGroup | Sequence[QueueGroup | AsyncQueueGroup],
) -> tuple[AnySubscription, ...]:
    """All queues of one group or several, in their order. Raises `ConfigurationError`."""
    if isinstance(groups, QueueGroup | AsyncQueueGroup):
        groups = [groups]
    if not isinstance(groups, Sequence) or not groups:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"queues must be a QueueGroup, an AsyncQueueGroup or a list of them, not {groups!r}"
        )
    found: dict[str, AnySubscription] = {}
    for group in groups:
        for subscription in _of_group(group):
            if subscription.name in found:
                raise ConfigurationError(
                    f"two groups have a queue named {subscription.name!r}: the queues of one "
                    "worker need distinct names; rename one of them"
                )
            found[subscription.name] = subscription
    return tuple(found.values())


def loggable_payloads(subscriptions: Sequence[AnySubscription]) -> dict[str, frozenset[str]]:
    """The keys to mask, for each queue whose discarded payloads may be logged."""
    return {
        one.name: one.definition.sensitive for one in subscriptions if one.definition.log_payload
    }


def groups_of(
    subscriptions: Sequence[AnySubscription],
) -> dict[AbstractAsyncContextManager[object], str]:
    """The async groups that these are of, each with the names of its queues among them."""
    found: dict[AbstractAsyncContextManager[object], list[str]] = {}
    for one in subscriptions:
        if isinstance(one, AsyncSubscription):
            found.setdefault(one.group, []).append(one.name)
    return {group: "', '".join(names) for group, names in found.items()}


def choose(
    subscriptions: Sequence[AnySubscription], names: Sequence[str]
) -> tuple[AnySubscription, ...]:
    """Those of the given names, in the order of the names. Raises `UnknownQueueError`."""
    known = {subscription.name: subscription for subscription in subscriptions}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UnknownQueueError(
            f"no queue {', '.join(map(repr, unknown)) or 'chosen'}: "
            f"the worker has {', '.join(map(repr, known))}"
        )
    return tuple(known[name] for name in dict.fromkeys(names))


def _of_group(group: QueueGroup | AsyncQueueGroup) -> Iterable[AnySubscription]:
    if isinstance(group, QueueGroup):
        return _of_sync_group(group)
    if not isinstance(group, AsyncQueueGroup):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"queues must hold QueueGroups and AsyncQueueGroups, not {group!r}"
        )
    if group.publishes_only:
        raise ConfigurationError(
            f"the group of the queues {', '.join(map(repr, group.names))} was made from entered "
            "clients, so it only publishes, and a worker can't open its own from it: make it "
            "with session=aioboto3.Session() in place of client="
        )
    return _of_async_group(group)


def _of_sync_group(group: QueueGroup) -> Iterable[Subscription]:
    poll_hooks = hooks_of(group.middleware, "poll")
    consume_hooks = hooks_of(group.middleware, "consume")
    for name, definition in group.definitions.items():
        yield Subscription(
            name=name,
            queue=group.queue(name),
            definition=definition,
            poll_hooks=poll_hooks,
            consume_hooks=consume_hooks,
            open_dead_letter=partial(group.dead_letter_queue, name),
            environment_retry=group.retry,
        )


def _of_async_group(group: AsyncQueueGroup) -> Iterable[AsyncSubscription]:
    poll_hooks = hooks_of(group.middleware, "poll")
    consume_hooks = hooks_of(group.middleware, "consume")
    for name, definition in group.definitions.items():
        yield AsyncSubscription(
            name=name,
            group=group,
            definition=definition,
            poll_hooks=poll_hooks,
            consume_hooks=consume_hooks,
            open_queue=partial(_open_queue, group, name),
            open_dead_letter=partial(group.dead_letter_queue, name),
            environment_retry=group.retry,
        )


async def _open_queue(group: AsyncQueueGroup, name: str) -> AsyncQueue:
    """On a loop where the group is entered."""
    return group.queue(name)
