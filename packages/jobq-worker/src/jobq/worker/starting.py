"""What is asked and checked of the queues before a worker receives."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from jobq.core import BackendError, ConfigurationError, JobqError, QueueNotFoundError
from jobq.worker.asked import AskedAsyncQueue, AskedQueue
from jobq.worker.ends import Ends
from jobq.worker.engine.backoff import backoff
from jobq.worker.engine.config import QueueConfig
from jobq.worker.faults import as_jobq_error
from jobq.worker.polls import AsyncSource, Source
from jobq.worker.subscriptions import Subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from jobq.core import AsyncQueue, Queue, QueueInfo
    from jobq.core.interfaces import ConnectionInfo
    from jobq.worker.asked import Asked
    from jobq.worker.ends import Warn
    from jobq.worker.entered import Entered
    from jobq.worker.handlers import Handler
    from jobq.worker.loops import WorkerLoop
    from jobq.worker.options import Options
    from jobq.worker.subscriptions import AnySubscription

    AnyAsked: TypeAlias = AskedQueue | AskedAsyncQueue

TRIES = 10
# Beside the polls of a queue, a worker deletes and extends its messages.
SETTLING_CONNECTIONS = 2


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What the queues turned out to be: for the engine, for the receives and for what is given up.

    Whoever runs with it closes the dead-letter queues.
    """

    configs: tuple[QueueConfig, ...]
    sources: Mapping[str, Source]
    dead_letters: Mapping[str, Queue]
    async_sources: Mapping[str, AsyncSource]
    async_dead_letters: Mapping[str, AsyncQueue]


class Starting:
    """Reads each queue's settings. `pause` sleeps for so many seconds; `random` returns 0 to 1.

    `groups` are entered before, and async queues are asked on `loop`.
    """

    def __init__(
        self,
        options: Options,
        *,
        warn: Warn,
        pause: Callable[[float], object],
        random: Callable[[], float],
        groups: Sequence[Entered] = (),
        loop: WorkerLoop | None = None,
    ) -> None:
        self._options = options
        self._warn = warn
        self._pause = pause
        self._random = random
        self._groups = groups
        self._loop = loop

    def prepare(
        self, subscriptions: Sequence[AnySubscription], handlers: Mapping[str, Handler]
    ) -> Prepared:
        """Retries what is worth it, ten times a queue.

        Raises `ConfigurationError` for settings that can't work, and `BackendError` for a queue
        that is missing, denied, or doesn't answer.
        """
        for group in self._groups:
            self._enter(group)
        queues = {one.name: self._open(one) for one in subscriptions}
        infos = {one.name: self._describe(one, queues[one.name]) for one in subscriptions}
        configs = tuple(
            self._config(one, queues[one.name], infos[one.name]) for one in subscriptions
        )
        found = {name: queue.connection() for name, queue in queues.items()}
        connections = {name: one for name, one in found.items() if one is not None}
        dead_letters: dict[str, AnyAsked] = {}
        for one in subscriptions:
            ends, info = Ends(one, handlers, self._options), infos[one.name]
            if info is not None:
                ends.warn_of_what_never_comes(info, self._warn)
            if (reason := ends.need_dead_letters()) is not None:
                queue = queues[one.name]
                dead_letters[one.name] = self._open_dead_letter(one.name, queue, reason)
        self._check_connections(configs, connections, dead_letters)
        return _prepared(subscriptions, configs, queues, connections, dead_letters)

    def _enter(self, group: Entered) -> None:
        try:
            self._ask(group.names, group.enter)
        except BackendError as error:
            raise _unusable(group.names, error) from error

    def _open(self, subscription: AnySubscription) -> AnyAsked:
        if isinstance(subscription, Subscription):
            return AskedQueue(subscription.queue, subscription.open_dead_letter)
        if self._loop is None:
            raise ConfigurationError(
                f"queue {subscription.name!r} is an async one, and no loop is there for it: "
                "use a Worker, or a QueueGroup"
            )
        queue = self._loop.wait(subscription.open_queue)
        return AskedAsyncQueue(queue, subscription.open_dead_letter, loop=self._loop)

    def _describe(self, subscription: AnySubscription, queue: Asked) -> QueueInfo | None:
        """The queue's own settings; None where they may not be read, and needn't be."""
        name = subscription.name
        try:
            return self._ask(name, queue.describe)
        except BackendError as error:
            if error.denied and not error.retryable:
                return self._without_settings(subscription, error)
            raise _unusable(name, error) from error

    def _ask(self, name: str, call: Callable[[], Answer]) -> Answer:
        """Try ten times what may succeed yet; raises the last `BackendError`."""
        for attempt in range(1, TRIES + 1):
            try:
                return call()
            except BackendError as error:
                missing = isinstance(error, QueueNotFoundError)
                if missing or not error.retryable or attempt == TRIES:
                    raise
                self._back_off(name, attempt, error)
            except JobqError:
                raise
            except Exception as raised:
                raise as_jobq_error(raised, f"reading queue {name!r}") from raised
        raise AssertionError("unreachable")

    def _back_off(self, name: str, attempt: int, error: BackendError) -> None:
        seconds = backoff(attempt, random=self._random())
        self._warn(
            "queue_not_reached",
            queue=name,
            failures=attempt,
            again_in_seconds=round(seconds, 1),
            error=str(error),
        )
        self._pause(seconds)

    def _without_settings(self, subscription: AnySubscription, error: BackendError) -> None:
        name = subscription.name
        if subscription.definition.visibility_timeout is None:
            raise ConfigurationError(
                f"queue {name!r}: its settings can't be read: {error}. Where reading them is all "
                "that is denied (sqs:GetQueueAttributes), its definition may set "
                "'visibility_timeout' instead"
            ) from error
        self._warn(
            "queue_settings_denied",
            queue=name,
            error=str(error),
            effect="its redrive policy is unknown: a message on its last receive has no precedence",
        )

    def _config(
        self, subscription: AnySubscription, queue: Asked, info: QueueInfo | None
    ) -> QueueConfig:
        name, definition = subscription.name, subscription.definition
        capabilities = queue.capabilities
        visibility = definition.visibility_timeout
        if visibility is None:
            visibility = 0 if info is None else info.visibility_timeout
        if not visibility:
            raise ConfigurationError(
                f"queue {name!r} has a visibility timeout of 0 seconds, so its messages are never "
                "hidden: set 'visibility_timeout' (1 to 43200) in its definition"
            )
        return QueueConfig(
            name=name,
            ordered=capabilities.ordered,
            visibility=visibility,
            weight=definition.weight,
            cap=definition.concurrency,
            max_runtime=definition.max_runtime_seconds,
            claim_size=definition.claim_size,
            largest_batch=capabilities.largest_batch,
            longest_visibility=capabilities.longest_visibility,
            max_receive_count=None if info is None else info.max_receive_count,
        )

    def _open_dead_letter(self, name: str, queue: AnyAsked, reason: str) -> AnyAsked:
        """The dead-letter queue of a queue that needs one for the `reason` given."""
        try:
            target = self._ask(name, queue.open_dead_letter)
            if target is None:
                raise ConfigurationError(
                    f"queue {name!r} has no dead-letter queue, and {reason}: name one as "
                    "'dead_letter' in its definition, or give the queue a redrive policy"
                )
            if target.capabilities.ordered and not queue.capabilities.ordered:
                # It would refuse each copy that has no group, and nothing would be given up.
                raise ConfigurationError(
                    f"queue {name!r} is a standard queue and its dead-letter queue a FIFO one, "
                    f"which takes no message without a group, and {reason}: name a standard queue "
                    "as 'dead_letter' in its definition"
                )
            self._check_dead_letter(name, target)
        except BackendError as error:
            if error.retryable:
                raise _unusable(name, error) from error
            raise ConfigurationError(
                f"queue {name!r}: its dead-letter queue can't be used, and {reason}: {error}"
            ) from error
        return target

    def _check_dead_letter(self, name: str, queue: Asked) -> None:
        try:
            # From now on its own size limit counts for what is sent to it.
            self._ask(name, queue.describe)
        except BackendError as error:
            # Whoever may send to a queue need not be allowed to read its settings.
            if error.retryable or not error.denied:
                raise

    def _check_connections(
        self,
        configs: Sequence[QueueConfig],
        connections: Mapping[str, ConnectionInfo],
        dead_letters: Mapping[str, Asked],
    ) -> None:
        wait = self._options.idle_wait_seconds
        needed: dict[Hashable, int] = defaultdict(int)
        for config in configs:
            connection = connections.get(config.name)
            if connection is None:
                continue
            timeout = connection.read_timeout
            if timeout is not None and timeout <= wait:
                raise ConfigurationError(
                    f"queue {config.name!r}: its client's read timeout is {timeout:g} s, not above "
                    f"the long poll of {wait:g} s (idle_wait_seconds), which would never end in an "
                    "answer: raise read_timeout in the client's Config, or lower idle_wait_seconds"
                )
            needed[connection.client] += SETTLING_CONNECTIONS
            needed[connection.client] += config.polls_at_once(self._options.concurrency)
        for queue in dead_letters.values():
            if (connection := queue.connection()) is not None:
                needed[connection.client] += 1
        pools = {one.client: one.max_connections for one in connections.values()}
        for client, size in pools.items():
            if size is not None and size < needed[client]:
                self._warn(
                    "connection_pool_too_small",
                    max_connections=size,
                    needed=needed[client],
                    remedy=f"set max_pool_connections={needed[client]} in the client's Config",
                )


def _prepared(
    subscriptions: Sequence[AnySubscription],
    configs: tuple[QueueConfig, ...],
    queues: Mapping[str, AnyAsked],
    connections: Mapping[str, ConnectionInfo],
    dead_letters: Mapping[str, AnyAsked],
) -> Prepared:
    sources: dict[str, Source] = {}
    async_sources: dict[str, AsyncSource] = {}
    for one in subscriptions:
        name, asked, hooks = one.name, queues[one.name], one.poll_hooks
        timeout = connections[name].read_timeout if name in connections else None
        if isinstance(asked, AskedQueue):
            sources[name] = Source(queue=asked.queue, hooks=hooks, timeout=timeout)
        else:
            async_sources[name] = AsyncSource(queue=asked.queue, hooks=hooks, timeout=timeout)
    return Prepared(
        configs=configs,
        sources=sources,
        dead_letters={
            name: one.queue for name, one in dead_letters.items() if isinstance(one, AskedQueue)
        },
        async_sources=async_sources,
        async_dead_letters={
            name: one.queue
            for name, one in dead_letters.items()
            if isinstance(one, AskedAsyncQueue)
        },
    )


def _unusable(name: str, error: BackendError) -> BackendError:
    kind = QueueNotFoundError if isinstance(error, QueueNotFoundError) else BackendError
    return kind(
        f"queue {name!r} can't be served: {error}",
        retryable=error.retryable,
        throttled=error.throttled,
        denied=error.denied,
        code=error.code,
    )
