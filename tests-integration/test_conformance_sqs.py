"""The suite that every backend passes, over two servers in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from jobq.core import Queue
from jobq.core.testing.conformance import (
    Excused,
    FifoConformance,
    MakeQueue,
    StandardConformance,
)
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.common.queue import SqsQueue
from jobq.sqs.fifo import SqsFifoQueue
from jobq.sqs.standard import SqsStandardQueue
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


def _maker(create: Callable[..., Queue], client: Any) -> MakeQueue:
    prefix, numbers = uuid4().hex, count(1)

    def make(
        *,
        visibility_timeout: int = 30,
        dead_letter_queue: Queue | None = None,
        max_receive_count: int | None = None,
    ) -> Queue:
        assert dead_letter_queue is None or isinstance(dead_letter_queue, SqsQueue)
        return create(
            f"{prefix}-{next(numbers)}",
            client=client,
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue,
            max_receive_count=max_receive_count,
        )

    return make


class TestStandardOnMinistack(StandardConformance):
    excused = (
        *_BOTH,
        Excused(
            _SERVER,
            "deleting with an older receipt is an error",
            tests={"test_acknowledging_with_an_older_receipt_is_let_pass"},
        ),
    )

    @pytest.fixture
    def make_queue(self, client: Any) -> MakeQueue:
        return _maker(SqsStandardQueue.create, client)


class TestFifoOnMinistack(FifoConformance):
    excused = (
        *_BOTH,
        Excused(
            _SERVER,
            "deletes with a receipt that ran out",
            tests={"test_a_lease_that_ran_out_deletes_nothing"},
        ),
    )

    @pytest.fixture
    def make_queue(self, client: Any) -> MakeQueue:
        return _maker(SqsFifoQueue.create, client)


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


class TestStandardOnLocalStack(StandardConformance):
    excused = (
        *_BOTH_ON_LOCALSTACK,
        Excused(
            _LOCALSTACK,
            "a message that was moved back keeps its receive count",
            tests={"test_dead_letters_can_be_moved_back"},
        ),
    )

    @pytest.fixture
    def make_queue(self, localstack_client: Any) -> MakeQueue:
        return _maker(SqsStandardQueue.create, localstack_client)


class TestFifoOnLocalStack(FifoConformance):
    excused = (
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

    @pytest.fixture
    def make_queue(self, localstack_client: Any) -> MakeQueue:
        return _maker(SqsFifoQueue.create, localstack_client)
