"""What a group knows of one queue before it is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from jobq.core.errors import LONGEST_VISIBILITY_SECONDS, ConfigurationError

if TYPE_CHECKING:
    from jobq.core.interfaces.queue import AsyncQueue, Queue
    from jobq.core.retries import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDefinition:
    """One queue of a group. Exactly one of `queue` (made by hand), `name` and `url` is given.

    `weight` is this queue's share of starts, `concurrency` a cap on the worker's slots that its
    jobs hold, `visibility_timeout` 1 to 43,200 s, `max_runtime_seconds` how long a job's lease is
    extended, `claim_size` (1 to 10) what every receive asks for, `dead_letter` a name or URL,
    `sensitive` the payload keys that are masked wherever a payload may be logged.
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
    sensitive: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        given = [key for key in ("queue", "name", "url") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ConfigurationError(
                "a queue definition needs exactly one of 'queue', 'name' and 'url', "
                f"not {' and '.join(map(repr, given)) or 'none of them'}"
            )
        _check("weight", self.weight, self.weight > 0, "more than 0")
        _check("concurrency", self.concurrency, (self.concurrency or 1) >= 1, "at least 1")
        _check(
            "visibility_timeout",
            self.visibility_timeout,
            self.visibility_timeout is None
            or 1 <= self.visibility_timeout <= LONGEST_VISIBILITY_SECONDS,
            f"1 to {LONGEST_VISIBILITY_SECONDS} seconds",
        )
        _check(
            "max_runtime_seconds",
            self.max_runtime_seconds,
            self.max_runtime_seconds > 0,
            "more than 0 seconds",
        )
        _check(
            "claim_size",
            self.claim_size,
            self.claim_size is None or 1 <= self.claim_size <= 10,
            "1 to 10 messages",
        )

    @classmethod
    def from_mapping(cls, key: str, values: Mapping[str, Any]) -> QueueDefinition:
        """Read one entry of a group's `queues`; unknown keys are refused by name."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ConfigurationError(
                f"queue {key!r}: unknown key {', '.join(map(repr, unknown))}; "
                f"known are {', '.join(sorted(known))}"
            )
        try:
            return cls(**{**values, "sensitive": frozenset(values.get("sensitive", ()))})
        except ConfigurationError as error:
            raise ConfigurationError(f"queue {key!r}: {error}") from error


def _check(name: str, value: object, good: bool, allowed: str) -> None:
    if not good:
        raise ConfigurationError(f"{name} must be {allowed}, not {value!r}")
