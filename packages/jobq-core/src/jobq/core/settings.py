"""Queues and connections from the environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from jobq.core import setting_keys as keys
from jobq.core.definitions import QueueDefinition
from jobq.core.errors import ConfigurationError
from jobq.core.limits import check_queue_name
from jobq.core.origins import masked
from jobq.core.retries import USUAL_MAX_DELAY_SECONDS, RetryPolicy
from jobq.core.setting_sources import examine

if TYPE_CHECKING:
    from jobq.core.setting_sources import Examined

_FIFO = ".fifo"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """What a backend is to connect with.

    `name` is "default" or the connection's, in lower case and with dashes. `backend` is "sqs",
    where the suffix of each queue picks FIFO or standard, or a backend's name. `endpoint` is one
    origin, and None is AWS's own address, whatever `AWS_ENDPOINT_URL` says. `timeout` bounds each
    request, and each look-up of credentials, in seconds.
    """

    name: str
    backend: str
    region: str | None
    endpoint: str | None
    timeout: float
    queue_prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says, checked. `visibility_timeout` is in seconds.

    `retry` is the outermost level of every retry policy, None where the environment says nothing.
    `sqs_problems` are what an SQS queue would fail at; a connection to SQS has none.
    """

    connection: ConnectionSettings
    visibility_timeout: float
    retry: RetryPolicy | None
    sqs_problems: tuple[str, ...] = ()

    def define(
        self,
        queues: Iterable[str] | Mapping[str, QueueDefinition | Mapping[str, Any] | str],
    ) -> dict[str, QueueDefinition]:
        """The definitions of a group's queues over this connection.

        `queues` are names, or a mapping to names, URLs and definitions. The prefix goes before each
        `name`, and before a `dead_letter` that is a name; over `sqs-fifo` both get the `.fifo` that
        they lack. A `url` and a queue made by hand stay as they are. What a definition says for
        itself (`backend`, `visibility_timeout`) counts before the environment.

        Raises `ConfigurationError`.
        """
        return {name: self._define(name, given) for name, given in _by_name(queues).items()}

    def _define(self, name: str, given: object) -> QueueDefinition:
        definition = _read(name, given)
        try:
            return self._place(definition)
        except ConfigurationError as error:
            raise ConfigurationError(f"queue {name!r}: {error}") from error

    def _place(self, definition: QueueDefinition) -> QueueDefinition:
        if definition.visibility_timeout is None:
            definition = replace(definition, visibility_timeout=self.visibility_timeout)
        if definition.queue is not None:
            return definition
        backend = definition.backend or self.connection.backend
        if backend in keys.SQS_BACKENDS and self.sqs_problems:
            raise ConfigurationError(f"it is of SQS, and {'; '.join(self.sqs_problems)}")
        name, url, target = definition.name, definition.url, definition.dead_letter
        return replace(
            definition,
            name=name and self._full_name(name, backend),
            url=url and self._checked_url(url, backend),
            dead_letter=target
            if not target or "://" in target
            else self._full_name(target, backend),
            backend=None if backend == keys.SQS else backend,
        )

    def _full_name(self, name: str, backend: str) -> str:
        full = f"{self.connection.queue_prefix}{name}"
        if backend == "sqs-fifo":
            full = f"{full.removesuffix(_FIFO)}{_FIFO}"
        if backend == "sqs-standard" and full.endswith(_FIFO):
            raise ConfigurationError(self._misfit(name, "is a FIFO queue's name", backend))
        if backend in (*keys.SQS_BACKENDS, "memory"):
            check_queue_name(full)
        return full

    def _checked_url(self, url: str, backend: str) -> str:
        fifo = url.endswith(_FIFO)
        if backend == "sqs-standard" and fifo:
            raise ConfigurationError(self._misfit(masked(url), "is a FIFO queue's URL", backend))
        if backend == "sqs-fifo" and not fifo:
            raise ConfigurationError(self._misfit(masked(url), "is no FIFO queue's URL", backend))
        return url

    def _misfit(self, address: str, what: str, backend: str) -> str:
        variable = keys.CONNECTION.variable(self.connection.name)
        return (
            f"{address!r} {what}, and its backend is {backend!r}: use another queue or backend; "
            f"with {variable}=sqs the suffix of each queue picks it"
        )


def read_settings(environ: Mapping[str, str], connection: str | None = None) -> Settings:
    """Read and check the settings of a connection; `connection` goes before what `environ` names.

    Blanks around a value don't count, and a value without anything else is as if it weren't set.
    A variable that begins with `JOBQ_`, means nothing and is much like one that does is refused:
    a misspelt prefix would lead to the queues of somebody else.

    Raises `ConfigurationError` for all that is wrong at once: each variable, its value, and what is
    allowed.
    """
    found = examine(environ, connection)
    problems = found.problems
    if len(problems) == 1:
        raise ConfigurationError(problems[0])
    if problems:
        raise ConfigurationError("\n- ".join([f"{len(problems)} settings are wrong:", *problems]))
    return _settings(found)


def _settings(found: Examined) -> Settings:
    attempts, delay = found.value(keys.MAX_ATTEMPTS), found.value(keys.RETRY_BASE_DELAY)
    retry = None
    if attempts is not None or delay is not None:
        # No variable sets the longest delay: what is usual must not cut a first one that is longer.
        longest = delay if delay is not None and delay > USUAL_MAX_DELAY_SECONDS else None
        retry = RetryPolicy(max_attempts=attempts, base_delay=delay, max_delay=longest)
    return Settings(
        connection=ConnectionSettings(
            name=found.connection or keys.DEFAULT_CONNECTION,
            backend=found.values[keys.CONNECTION.name],
            region=found.value(keys.SQS_REGION),
            endpoint=found.value(keys.SQS_ENDPOINT),
            timeout=found.values[keys.SQS_TIMEOUT.name],
            queue_prefix=found.value(keys.SQS_QUEUE_PREFIX) or "",
        ),
        visibility_timeout=found.values[keys.VISIBILITY_TIMEOUT.name],
        retry=retry,
        sqs_problems=found.sqs_problems,
    )


def _by_name(queues: object) -> dict[str, object]:
    if isinstance(queues, Mapping):
        return dict(cast("Mapping[str, object]", queues))
    if isinstance(queues, str | bytes) or not isinstance(queues, Iterable):
        raise ConfigurationError(
            "queues must be names, such as ['my-app-jobs'], or a mapping to names and definitions, "
            f"not {queues!r}"
        )
    names = list(cast("Iterable[object]", queues))
    for name in names:
        if not isinstance(name, str) or "://" in name:
            raise ConfigurationError(
                f"{name!r} is no queue's name: name what has no name in a mapping, such as "
                "{'default': {'url': …}}"
            )
    return {name: name for name in cast("list[str]", names)}


def _read(name: str, given: object) -> QueueDefinition:
    if isinstance(given, QueueDefinition):
        return given
    if isinstance(given, str):
        return QueueDefinition(url=given) if "://" in given else QueueDefinition(name=given)
    if isinstance(given, Mapping):
        return QueueDefinition.from_mapping(name, cast("Mapping[str, Any]", given))
    raise ConfigurationError(
        f"queue {name!r} must be a name, a URL or a mapping such as {{'name': 'my-app-jobs'}}, "
        f"not {given!r}"
    )
