"""What a group knows of one queue before it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import TYPE_CHECKING, Any, TypeGuard

from jobq.core.errors import ConfigurationError
from jobq.core.limits import LARGEST_BATCH, LONGEST_VISIBILITY_SECONDS
from jobq.core.retries import RetryPolicy

if TYPE_CHECKING:
    from jobq.core.interfaces.queue import AsyncQueue, Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDefinition:
    """One queue of a group. Exactly one of `queue` (made by hand), `name` and `url` is given.

    `weight` is this queue's share of starts, `concurrency` a cap on the worker's slots that its
    jobs hold, `visibility_timeout` 1 to 43,200 s, `max_runtime_seconds` how long a job's lease is
    extended, `claim_size` (1 to 10) what every receive asks for, `dead_letter` a name or URL,
    `log_payload` whether the payload of a job that is discarded may be logged, and `sensitive` the
    keys that are masked in it, at every depth.
    Raises `ConfigurationError`.
    """

    queue: Queue | AsyncQueue | None = None
    name: str | None = None
    url: str | None = None
    weight: float = 1
    concurrency: int | None = None
    backend: str | None = None
    visibility_timeout: float | None = None
    max_runtime_seconds: float = 3600
    claim_size: int | None = None
    retry: RetryPolicy | None = None
    dead_letter: str | None = None
    log_payload: bool = False
    sensitive: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        given = [key for key in ("queue", "name", "url") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ConfigurationError(
                "a queue definition needs exactly one of 'queue', 'name' and 'url', "
                f"not {' and '.join(map(repr, given)) or 'none of them'}"
            )
        for key in ("name", "url", "backend", "dead_letter"):
            value = getattr(self, key)
            if value is not None and not (isinstance(value, str) and value):
                raise _refusal(key, value, "a non-empty string")
        _check_positive("weight", self.weight)
        _check_positive("max_runtime_seconds", self.max_runtime_seconds)
        _check_count("concurrency", self.concurrency)
        _check_count("claim_size", self.claim_size, most=LARGEST_BATCH)
        _check_visibility(self.visibility_timeout)
        _check_retry(self.retry)
        _check_dead_letter(self)
        if self.log_payload not in (True, False):
            raise _refusal("log_payload", self.log_payload, "True or False")
        object.__setattr__(self, "sensitive", _names(self.sensitive))

    @classmethod
    def from_mapping(cls, key: str, values: Mapping[str, Any]) -> QueueDefinition:
        """Read one entry of a group's `queues`; unknown keys are refused by name."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(map(str, set(values) - known))
        if unknown:
            raise ConfigurationError(
                f"queue {key!r}: unknown key {', '.join(map(repr, unknown))}; "
                f"known are {', '.join(sorted(known))}"
            )
        try:
            return cls(**values)
        except ConfigurationError as error:
            raise ConfigurationError(f"queue {key!r}: {error}") from error


def _names(sensitive: Iterable[object]) -> frozenset[str]:
    # A lone string is iterable too, and would mask its letters.
    if isinstance(sensitive, str | bytes) or not hasattr(sensitive, "__iter__"):
        raise _refusal("sensitive", sensitive, "a collection of payload keys")
    names: list[str] = []
    for name in sensitive:
        if not isinstance(name, str):
            raise _refusal("a key in sensitive", name, "a string, as in JSON")
        names.append(name)
    return frozenset(names)


def _check_dead_letter(definition: QueueDefinition) -> None:
    target = definition.dead_letter
    if target is not None and target in (definition.name, definition.url):
        raise _refusal("dead_letter", target, "another queue than the one that is defined")


def _check_retry(retry: object) -> None:
    if not (retry is None or isinstance(retry, RetryPolicy)):
        raise _refusal("retry", retry, "a RetryPolicy")


def _check_count(name: str, value: object, most: int | None = None) -> None:
    if value is None or (type(value) is int and 1 <= value <= (most or value)):
        return
    allowed = f"1 to {most}" if most else "at least 1"
    raise _refusal(name, value, f"a whole number, {allowed}")


def _check_positive(name: str, value: object) -> None:
    if not (_is_number(value) and value > 0):
        raise _refusal(name, value, "a number above 0")


def _check_visibility(value: object) -> None:
    if not (value is None or (_is_number(value) and 1 <= value <= LONGEST_VISIBILITY_SECONDS)):
        raise _refusal("visibility_timeout", value, f"1 to {LONGEST_VISIBILITY_SECONDS} seconds")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -inf < value < inf


def _refusal(name: str, value: object, allowed: str) -> ConfigurationError:
    return ConfigurationError(f"{name} must be {allowed}, not {value!r}")
