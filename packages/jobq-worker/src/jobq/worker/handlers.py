"""Which function runs for which job type."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, TypeAlias

from jobq.core import ConfigurationError, RetryPolicy

HandlerFunction: TypeAlias = Callable[[Any], Any]
"""Takes the payload; sync or async."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A function for one job type, with what it wants otherwise than its queue and its worker.

    `max_runtime_seconds` is how long the lease of one of its jobs is extended. A sync function that
    returns an awaitable has it awaited. Raises `ConfigurationError`.
    """

    function: HandlerFunction
    _: KW_ONLY
    retry: RetryPolicy | None = None
    max_runtime_seconds: float | None = None
    is_async: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        body = _body_of(self.function)
        if body is None:
            raise ConfigurationError(
                f"a handler must be callable with the payload, not {self.function!r}"
            )
        if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
            raise ConfigurationError(
                f"handler {self.function!r} is a generator: calling it runs none of its code, "
                "so every job would succeed undone; return instead of yield"
            )
        if not _takes_a_payload(self.function):
            raise ConfigurationError(
                f"handler {self.function!r} can't be called with the payload alone: "
                "give it one parameter that needs no other"
            )
        if self.retry is not None and not isinstance(self.retry, RetryPolicy):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(
                f"retry of handler {self.function!r} must be a RetryPolicy, not {self.retry!r}"
            )
        if self.max_runtime_seconds is not None and not _is_above_0(self.max_runtime_seconds):
            raise ConfigurationError(
                f"max_runtime_seconds of handler {self.function!r} must be a number above 0, "
                f"not {self.max_runtime_seconds!r}"
            )
        object.__setattr__(self, "is_async", inspect.iscoroutinefunction(body))


def handler_table(handlers: Mapping[str, HandlerFunction | Handler]) -> dict[str, Handler]:
    """A `Handler` for each job type. Raises `ConfigurationError` naming the job type."""
    if not isinstance(handlers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(
            f"handlers must be a mapping of job types to functions, not {handlers!r}"
        )
    if not handlers:
        raise ConfigurationError(
            "handlers is empty: a worker needs a function for at least one job type, "
            'such as {"send_email": send_email}'
        )
    return {job_type: _handler(job_type, given) for job_type, given in handlers.items()}


def _handler(job_type: str, given: HandlerFunction | Handler) -> Handler:
    if not isinstance(job_type, str) or not job_type:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"a job type is a non-empty string, not {job_type!r}")
    if isinstance(given, Handler):
        return given
    try:
        return Handler(given)
    except ConfigurationError as error:
        raise ConfigurationError(f"job type {job_type!r}: {error}") from error


def _takes_a_payload(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind({})
    except TypeError:
        return False
    except ValueError:  # a builtin whose signature nobody knows
        return True
    return True


def _is_above_0(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _body_of(function: object) -> Callable[..., Any] | None:
    """The function whose code a call runs: behind partials, and `__call__` of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    if not callable(function):
        return None
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    return type(function).__call__
