"""The suite that every backend passes, over two servers in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from jobq.core import AsyncQueue
from jobq.core.testing.conformance import (
    Excused,
    FifoConformance,
    LoopThread,
    MakeQueue,
    StandardConformance,
    async_queue_maker,
    queue_maker,
)
from jobq.sqs.common.aio.connection import open_client
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.fifo import AsyncSqsFifoQueue, SqsFifoQueue
from jobq.sqs.standard import AsyncSqsStandardQueue, SqsStandardQueue
from jobq.sqs.standard.aio import SDK as ASYNC_SDK
from jobq.sqs.standard.queue import SDK

# Where LocalStack is first asked for, its first start downloads it.
pytestmark = pytest.mark.timeout(300)

_SERVER = "ministack 1.5.33"
_LOCALSTACK = "LocalStack 4.13.1"
_BOTH = (
    Excused(
        _SERVER,
        "deleting what is gone is an error",
        tests={
            "test_acknowledging_twice_is_success",
            "test_a_batch_may_hold_what_was_acknowledged_before",
        },
    ),
    Excused(
        _SERVER,
        "takes a receipt that ran out or was given back until the next receive",
        tests={
            "test_a_lease_that_ran_out_can_be_neither_extended_nor_given_back",
            "test_a_message_given_back_can_not_be_extended",
        },
    ),
    Excused(_SERVER, "no StartMessageMoveTask", tests={"test_dead_letters_can_be_moved_back"}),
)


@pytest.fixture(scope="module")
def client(ministack: str) -> Iterator[Any]:
    client = SDK.make_client(ClientOptions(endpoint_url=ministack))
    yield client
    client.close()


@pytest.fixture(scope="module")
def localstack_client(localstack: str) -> Iterator[Any]:
    client = SDK.make_client(ClientOptions(endpoint_url=localstack))
    yield client
    client.close()


_STANDARD = (
    *_BOTH,
    Excused(
        _SERVER,
        "deleting with an older receipt is an error",
        tests={"test_acknowledging_with_an_older_receipt_is_let_pass"},
    ),
)
_FIFO = (
    *_BOTH,
    Excused(
        _SERVER,
        "deletes with a receipt that ran out",
        tests={"test_a_lease_that_ran_out_deletes_nothing"},
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """A client on a loop in a thread, for async queues that are looked at from another one."""

    loop: LoopThread
    client: Any

    def maker(self, create: Callable[..., Coroutine[Any, Any, AsyncQueue]]) -> MakeQueue:
        return async_queue_maker(create, self.loop, client=self.client)


@contextmanager
def awaited_on(url: str) -> Generator[Awaited]:
    with LoopThread() as loop:
        opened = open_client(ASYNC_SDK, ClientOptions(endpoint_url=url))
        yield Awaited(loop=loop, client=loop.call(opened.__aenter__))
        loop.call(opened.__aexit__, None, None, None)


@pytest.fixture(scope="module")
def awaited(ministack: str) -> Iterator[Awaited]:
    with awaited_on(ministack) as awaited:
        yield awaited


@pytest.fixture(scope="module")
def localstack_awaited(localstack: str) -> Iterator[Awaited]:
    with awaited_on(localstack) as awaited:
        yield awaited


class TestStandardOnMinistack(StandardConformance):
    excused = _STANDARD

    @pytest.fixture
    def make_queue(self, client: Any) -> MakeQueue:
        return queue_maker(SqsStandardQueue.create, client=client)


class TestFifoOnMinistack(FifoConformance):
    excused = _FIFO

    @pytest.fixture
    def make_queue(self, client: Any) -> MakeQueue:
        return queue_maker(SqsFifoQueue.create, client=client)


class TestAsyncStandardOnMinistack(StandardConformance):
    excused = _STANDARD

    @pytest.fixture
    def make_queue(self, awaited: Awaited) -> MakeQueue:
        return awaited.maker(AsyncSqsStandardQueue.create)


class TestAsyncFifoOnMinistack(FifoConformance):
    excused = _FIFO

    @pytest.fixture
    def make_queue(self, awaited: Awaited) -> MakeQueue:
        return awaited.maker(AsyncSqsFifoQueue.create)


_BOTH_ON_LOCALSTACK = (
    Excused(
        _LOCALSTACK,
        "extends and hides with a receipt that ran out or was given back",
        tests={
            "test_a_lease_that_ran_out_can_be_neither_extended_nor_given_back",
            "test_a_message_given_back_can_not_be_extended",
        },
    ),
    Excused(
        _LOCALSTACK,
        "extends and hides with the receipt of an earlier receive",
        tests={"test_an_older_receipt_holds_nothing"},
    ),
)


_STANDARD_ON_LOCALSTACK = (
    *_BOTH_ON_LOCALSTACK,
    Excused(
        _LOCALSTACK,
        "a message that was moved back keeps its receive count",
        tests={"test_dead_letters_can_be_moved_back"},
    ),
)
_FIFO_ON_LOCALSTACK = (
    *_BOTH_ON_LOCALSTACK,
    Excused(
        _LOCALSTACK,
        "a message that is moved back is taken for a duplicate of itself, and is gone",
        tests={"test_dead_letters_can_be_moved_back"},
    ),
    Excused(
        _LOCALSTACK,
        "unlocks a group when part of a batch is given back",
        tests={"test_giving_back_the_tail_leaves_the_group_locked"},
    ),
    Excused(
        _LOCALSTACK,
        "deletes with the receipt of an earlier receive",
        tests={"test_an_older_receipt_deletes_nothing"},
    ),
)


class TestStandardOnLocalStack(StandardConformance):
    excused = _STANDARD_ON_LOCALSTACK

    @pytest.fixture
    def make_queue(self, localstack_client: Any) -> MakeQueue:
        return queue_maker(SqsStandardQueue.create, client=localstack_client)


class TestFifoOnLocalStack(FifoConformance):
    excused = _FIFO_ON_LOCALSTACK

    @pytest.fixture
    def make_queue(self, localstack_client: Any) -> MakeQueue:
        return queue_maker(SqsFifoQueue.create, client=localstack_client)


class TestAsyncStandardOnLocalStack(StandardConformance):
    excused = _STANDARD_ON_LOCALSTACK

    @pytest.fixture
    def make_queue(self, localstack_awaited: Awaited) -> MakeQueue:
        return localstack_awaited.maker(AsyncSqsStandardQueue.create)


class TestAsyncFifoOnLocalStack(FifoConformance):
    excused = _FIFO_ON_LOCALSTACK

    @pytest.fixture
    def make_queue(self, localstack_awaited: Awaited) -> MakeQueue:
        return localstack_awaited.maker(AsyncSqsFifoQueue.create)
