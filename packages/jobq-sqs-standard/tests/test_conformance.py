"""The suite that every backend passes, over moto's server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jobq.core.testing.conformance import (
    Excused,
    LoopThread,
    MakeQueue,
    StandardConformance,
    async_queue_maker,
    queue_maker,
)
from jobq.sqs.common.aio.connection import open_client
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.standard import AsyncSqsStandardQueue, SqsStandardQueue
from jobq.sqs.standard.aio import SDK

_SERVER = "moto 5.2.5"
_EXCUSED = (
    Excused(
        _SERVER,
        "takes any receipt that it ever gave, and doesn't know MessageNotInflight",
        tests={
            "test_a_lease_that_ran_out_can_be_neither_extended_nor_given_back",
            "test_a_message_given_back_can_not_be_extended",
            "test_an_older_receipt_holds_nothing",
        },
    ),
    Excused(
        _SERVER,
        "two receives at once may get the same message",
        tests={"test_four_threads_get_each_message_once"},
        always=False,
    ),
    Excused(_SERVER, "no StartMessageMoveTask", tests={"test_dead_letters_can_be_moved_back"}),
)


class TestStandardOnMoto(StandardConformance):
    excused = _EXCUSED

    @pytest.fixture
    def make_queue(self, client: Any) -> MakeQueue:
        return queue_maker(SqsStandardQueue.create, client=client)


class TestAsyncStandardOnMoto(StandardConformance):
    excused = _EXCUSED

    @pytest.fixture
    def make_queue(self, server: str) -> Iterator[MakeQueue]:
        with LoopThread() as loop:
            opened = open_client(SDK, ClientOptions(endpoint_url=server))
            client = loop.call(opened.__aenter__)
            yield async_queue_maker(AsyncSqsStandardQueue.create, loop, client=client)
            loop.call(opened.__aexit__, None, None, None)
