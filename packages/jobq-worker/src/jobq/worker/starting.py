"""What is asked and checked of the queues before a worker receives."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from jobq.core import BackendError, ConfigurationError, QueueNotFoundError
from jobq.core.interfaces import Connected
from jobq.worker.engine.config import QueueConfig
from jobq.worker.faults import as_jobq_error
from jobq.worker.polls import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from jobq.core import QueueInfo, RetryPolicy
    from jobq.core.interfaces import ConnectionInfo
    from jobq.worker.handlers import Handler
    from jobq.worker.options import Options
    from jobq.worker.subscriptions import Subscription

TRIES = 10
LONGEST_PAUSE_SECONDS = 30.0
# Beside the polls of a queue, a worker deletes and extends its messages.
SETTLING_CONNECTIONS = 2


class Warn(Protocol):
    """Takes an event's name and its fields."""

    def __call__(self, event: str, **fields: Any) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What the queues turned out to be: for the engine, and for the receives."""

    configs: tuple[QueueConfig, ...]
    sources: Mapping[str, Source]


class Starting:
    """Reads each queue's settings. `pause` sleeps for so many seconds; `random` returns 0 to 1."""

    def __init__(
        self,
        options: Options,
        *,
        warn: Warn,
        pause: Callable[[float], object],
        random: Callable[[], float],
    ) -> None:
        self._options = options
        self._warn = warn
        self._pause = pause
        self._random = random

    def prepare(
        self, subscriptions: Sequence[Subscription], handlers: Mapping[str, Handler]
    ) -> Prepared:
        """Retries what is worth it, ten times a queue.

        Raises `ConfigurationError` for settings that can't work, and `BackendError` for a queue
        that is missing, denied, or doesn't answer.
        """
        self._check_policies(subscriptions, handlers)
        infos = {one.name: self._describe(one) for one in subscriptions}
        configs = tuple(self._config(one, infos[one.name]) for one in subscriptions)
        connections = {
            one.name: one.queue.connection()
            for one in subscriptions
            if isinstance(one.queue, Connected)
        }
        self._check_connections(configs, connections)
        sources = {
            one.name: Source(
                queue=one.queue,
                hooks=one.poll_hooks,
                timeout=connections[one.name].read_timeout if one.name in connections else None,
            )
            for one in subscriptions
        }
        return Prepared(configs=configs, sources=sources)

    def _check_policies(
        self, subscriptions: Sequence[Subscription], handlers: Mapping[str, Handler]
    ) -> None:
        if self._options.on_malformed == "dead_letter":
            raise ConfigurationError(
                "on_malformed='dead_letter' is not available yet: use 'delete' or 'leave'"
            )
        policies: list[tuple[str, RetryPolicy | None]] = [("the worker", self._options.retry)]
        policies += [(f"queue {one.name!r}", one.definition.retry) for one in subscriptions]
        policies += [(f"job type {name!r}", handler.retry) for name, handler in handlers.items()]
        for owner, policy in policies:
            if policy is not None and policy.when_exhausted not in (None, "redrive"):
                raise ConfigurationError(
                    f"the retry policy of {owner} has when_exhausted={policy.when_exhausted!r}, "
                    "which is not available yet: use 'redrive'"
                )

    def _describe(self, subscription: Subscription) -> QueueInfo | None:
        """The queue's own settings; None where they may not be read, and needn't be."""
        name = subscription.name
        for attempt in range(1, TRIES + 1):
            try:
                return subscription.queue.describe()
            except BackendError as error:
                if not (error.retryable or error.denied) or isinstance(error, QueueNotFoundError):
                    raise _unusable(name, error) from error
                if error.denied and not error.retryable:
                    return self._without_settings(subscription, error)
                if attempt == TRIES:
                    raise _unusable(name, error) from error
                seconds = min(LONGEST_PAUSE_SECONDS, 2.0 ** (attempt - 1))
                seconds *= 0.5 + self._random() / 2
                self._warn(
                    "queue_not_reached",
                    queue=name,
                    failures=attempt,
                    again_in_seconds=round(seconds, 1),
                    error=str(error),
                )
                self._pause(seconds)
            except Exception as raised:
                raise as_jobq_error(raised, f"reading queue {name!r}") from raised
        raise AssertionError("unreachable")

    def _without_settings(self, subscription: Subscription, error: BackendError) -> None:
        name = subscription.name
        if subscription.definition.visibility_timeout is None:
            raise ConfigurationError(
                f"queue {name!r}: its settings can't be read: {error}. Where reading them is all "
                "that is denied (sqs:GetQueueAttributes), its definition may set "
                "'visibility_timeout' instead"
            ) from error
        self._warn("queue_settings_denied", queue=name, error=str(error))

    def _config(self, subscription: Subscription, info: QueueInfo | None) -> QueueConfig:
        name, definition = subscription.name, subscription.definition
        capabilities = subscription.queue.capabilities
        visibility = definition.visibility_timeout
        if visibility is None:
            visibility = 0 if info is None else info.visibility_timeout
        if not visibility:
            raise ConfigurationError(
                f"queue {name!r} has a visibility timeout of 0 seconds, so its messages are never "
                "hidden: set 'visibility_timeout' (1 to 43200) in its definition"
            )
        if info is not None and info.max_receive_count is None:
            self._warn(
                "no_redrive_policy",
                queue=name,
                remedy="a job that always fails comes back until its message expires: "
                "give the queue a redrive policy with a dead-letter queue",
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

    def _check_connections(
        self, configs: Sequence[QueueConfig], connections: Mapping[str, ConnectionInfo]
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
        pools = {one.client: one.max_connections for one in connections.values()}
        for client, size in pools.items():
            if size is not None and size < needed[client]:
                self._warn(
                    "connection_pool_too_small",
                    max_connections=size,
                    needed=needed[client],
                    remedy=f"set max_pool_connections={needed[client]} in the client's Config",
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
