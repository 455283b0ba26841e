"""What may be a handler, and whether it is async."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from jobq.core import ConfigurationError, RetryPolicy
from jobq.worker import Handler
from jobq.worker.handlers import handler_table


def plain(payload: Any) -> None: ...


async def awaited(payload: Any) -> None: ...


def returns_awaitable(payload: Any) -> Any:
    return awaited(payload)


class Methods:
    def plain(self, payload: Any) -> None: ...

    async def awaited(self, payload: Any) -> None: ...

    @staticmethod
    async def static(payload: Any) -> None: ...

    @classmethod
    async def of_class(cls, payload: Any) -> None: ...


class Callable:
    def __call__(self, payload: Any) -> None: ...


class AsyncCallable:
    async def __call__(self, payload: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (plain, False),
        (awaited, True),
        (returns_awaitable, False),
        (Methods().plain, False),
        (Methods().awaited, True),
        (Methods.static, True),
        (Methods.of_class, True),
        (Callable(), False),
        (AsyncCallable(), True),
        (functools.partial(plain), False),
        (functools.partial(functools.partial(awaited)), True),
        (functools.partial(AsyncCallable()), True),
        (print, False),
        (dict, False),
    ],
)
def test_async_is_what_a_call_would_start(function: Any, is_async: object) -> None:
    assert Handler(function).is_async is is_async


def test_a_generator_is_refused_for_calling_it_runs_nothing() -> None:
    def generator(payload: Any) -> Iterator[None]:
        yield

    async def async_generator(payload: Any) -> AsyncIterator[None]:
        yield

    for function in (generator, async_generator):
        with pytest.raises(ConfigurationError, match=r"generator.*'send'|'send'.*generator"):
            handler_table({"send": function})


@pytest.mark.parametrize(
    ("handlers", "said"),
    [
        ({}, "handlers is empty"),
        ([plain], "mapping"),
        ({"send": None}, "'send'.*callable.*None"),
        ({"": plain}, "job type"),
        ({3: plain}, "job type.*3"),
    ],
)
def test_handlers_that_cannot_work_are_named(handlers: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        handler_table(handlers)


@pytest.mark.parametrize("retry", [5, {"base_delay": 5}, RetryPolicy])
def test_what_is_no_retry_policy_is_refused_by_the_handler_it_was_given_to(retry: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"retry.*plain.*must be a RetryPolicy"):
        Handler(plain, retry=retry)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "60", True])
def test_a_handler_has_some_time_to_run(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_runtime_seconds"):
        Handler(plain, max_runtime_seconds=seconds)


def test_a_function_and_a_handler_of_it_are_the_same() -> None:
    assert handler_table({"a": plain}) == handler_table({"a": Handler(plain)})


def takes_nothing() -> None: ...


def takes_two(payload: object, more: object) -> None: ...


def takes_a_keyword(*, key: object) -> None: ...


@pytest.mark.parametrize("function", [takes_nothing, takes_two, takes_a_keyword])
def test_a_function_that_cannot_take_the_payload_alone_is_refused(function: Any) -> None:
    with pytest.raises(ConfigurationError, match="payload alone"):
        Handler(function)
