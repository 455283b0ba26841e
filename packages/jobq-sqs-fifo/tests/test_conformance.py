"""The suite that every backend passes, over moto's server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jobq.core.testing.conformance import (
    Excused,
    FifoConformance,
    LoopThread,
    MakeQueue,
    async_queue_maker,
    queue_maker,
)
from jobq.sqs.common.aio.connection import open_client
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.fifo import AsyncSqsFifoQueue, SqsFifoQueue
from jobq.sqs.fifo.aio import SDK

_SERVER = "moto 5.2.5"
_EXCUSED = (
    Excused(
        _SERVER,
        "takes any receipt that it ever gave, and doesn't know MessageNotInflight",
        tests={
            "test_a_lease_that_ran_out_can_be_neither_extended_nor_given_back",
            "test_a_message_given_back_can_not_be_extended",
            "test_an_older_receipt_holds_nothing",
            "test_a_lease_that_ran_out_deletes_nothing",
            "test_an_older_receipt_deletes_nothing",
        },
    ),
    Excused(
        _SERVER,
        "two receives at once may get the same message",
        tests={"test_four_threads_get_each_message_once"},
        always=False,
    ),
    Excused(_SERVER, "no StartMessageMoveTask", tests={"test_dead_letters_can_be_moved_back"}),
    Excused(
        _SERVER,
        "a repeated deduplication id gets a new message id, and is forgotten after a delete",
        tests={
            "test_the_same_deduplication_id_is_one_message",
            "test_a_deduplication_id_counts_for_the_whole_queue",
            "test_a_deduplication_id_outlives_its_message",
        },
    ),
    Excused(
        _SERVER,
        "loses the order of a group when a part of it runs out",
        tests={"test_a_group_that_ran_out_comes_back_in_order"},
    ),
    Excused(
        _SERVER,
        "no long poll wakes when a group unlocks",
        tests={
            "test_a_long_poll_wakes_when_a_group_unlocks",
            "test_a_long_poll_wakes_when_a_message_is_given_back",
        },
    ),
)


class TestFifoOnMoto(FifoConformance):
    excused = _EXCUSED

    @pytest.fixture
    def make_queue(self, client: Any) -> MakeQueue:
        return queue_maker(SqsFifoQueue.create, client=client)


class TestAsyncFifoOnMoto(FifoConformance):
    excused = _EXCUSED

    @pytest.fixture
    def make_queue(self, server: str) -> Iterator[MakeQueue]:
        with LoopThread() as loop:
            opened = open_client(SDK, ClientOptions(endpoint_url=server))
            client = loop.call(opened.__aenter__)
            yield async_queue_maker(AsyncSqsFifoQueue.create, loop, client=client)
            loop.call(opened.__aexit__, None, None, None)
