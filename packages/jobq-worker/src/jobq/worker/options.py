"""A worker's settings, checked when it is made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, TypedDict, get_args

from jobq.core import ConfigurationError, RetryPolicy
from jobq.worker.engine.config import EngineConfig, OnBrokenQueue, OnMalformed, Polling
from jobq.worker.engine.polling import BURST_WAIT_SECONDS

if TYPE_CHECKING:
    from jobq.worker.engine.config import QueueConfig

# ReceiveMessage: WaitTimeSeconds is 0 to 20.
LONGEST_POLL_SECONDS = 20


class WorkerOptions(TypedDict, total=False):
    """The keyword arguments of `Worker`, for those that pass them on."""

    concurrency: int
    polling: Polling
    idle_wait_seconds: float
    retry: RetryPolicy | None
    on_malformed: OnMalformed
    on_broken_queue: OnBrokenQueue
    claim_ahead: float
    hold_limit: float
    shutdown_timeout: float
    health_file: str | PathLike[str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `Worker` takes besides queues and handlers. Raises `ConfigurationError`."""

    concurrency: int = 1
    polling: Polling = "weighted"
    idle_wait_seconds: float = 20
    retry: RetryPolicy | None = None
    on_malformed: OnMalformed = "delete"
    on_broken_queue: OnBrokenQueue = "back_off"
    claim_ahead: float = 1
    hold_limit: float = 20
    shutdown_timeout: float = 25
    health_file: str | PathLike[str] | None = None

    def __post_init__(self) -> None:
        _whole("concurrency", self.concurrency)
        _choice("polling", self.polling, get_args(Polling))
        _choice("on_malformed", self.on_malformed, get_args(OnMalformed))
        _choice("on_broken_queue", self.on_broken_queue, get_args(OnBrokenQueue))
        _seconds("idle_wait_seconds", self.idle_wait_seconds, least=1, most=LONGEST_POLL_SECONDS)
        _seconds("claim_ahead", self.claim_ahead, least=0)
        _seconds("hold_limit", self.hold_limit, least=0)
        _seconds("shutdown_timeout", self.shutdown_timeout, least=0)
        if self.shutdown_timeout <= self.idle_wait_seconds:
            raise ConfigurationError(
                f"shutdown_timeout must be above idle_wait_seconds ({self.idle_wait_seconds!r}), "
                f"not {self.shutdown_timeout!r}: a stop awaits the long poll that is out; raise "
                "the one or lower the other"
            )
        if self.retry is not None and not isinstance(self.retry, RetryPolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"retry must be a RetryPolicy, not {self.retry!r}")
        _path("health_file", self.health_file)

    def engine_config(self, queues: tuple[QueueConfig, ...], *, burst: bool) -> EngineConfig:
        """What of these settings the engine decides by."""
        # A shorter receive says nothing about a queue, and a burst would never end.
        shortest = BURST_WAIT_SECONDS if burst else 0
        return EngineConfig(
            queues=queues,
            concurrency=self.concurrency,
            polling=self.polling,
            idle_wait=max(self.idle_wait_seconds, shortest),
            claim_ahead=self.claim_ahead,
            hold_limit=self.hold_limit,
            shutdown_timeout=self.shutdown_timeout,
            on_malformed=self.on_malformed,
            on_broken_queue=self.on_broken_queue,
            burst=burst,
        )


def _path(name: str, value: object) -> None:
    if value is not None and not (isinstance(value, str | PathLike) and value != ""):
        raise ConfigurationError(f"{name} must be the path of a file, not {value!r}")


def _whole(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError(f"{name} must be a whole number of at least 1, not {value!r}")


def _choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigurationError(
            f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}"
        )


def _seconds(name: str, value: object, *, least: float, most: float = math.inf) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
    if not good or value == math.inf:
        allowed = f"{least} to {most}" if most < math.inf else f"{least} or more"
        raise ConfigurationError(f"{name} must be {allowed} seconds, not {value!r}")
