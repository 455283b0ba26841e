"""The suite that every backend passes, over moto's server."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from jobq.core import Queue
from jobq.core.testing.conformance import (
    Excused,
    LoopThread,
    MakeQueue,
    StandardConformance,
    SyncView,
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
    Excused(_SERVER, "no StartMessageMoveTask", tests={"test_dead_letters_can_be_moved_back"}),
)


class TestStandardOnMoto(StandardConformance):
    excused = _EXCUSED

    @pytest.fixture
    def make_queue(self, client: Any) -> MakeQueue:
        prefix, numbers = uuid4().hex, count(1)

        def make(
            *,
            visibility_timeout: int = 30,
            dead_letter_queue: Queue | None = None,
            max_receive_count: int | None = None,
        ) -> Queue:
            assert dead_letter_queue is None or isinstance(dead_letter_queue, SqsStandardQueue)
            return SqsStandardQueue.create(
                f"{prefix}-{next(numbers)}",
                client=client,
                visibility_timeout=visibility_timeout,
                dead_letter_queue=dead_letter_queue,
                max_receive_count=max_receive_count,
            )

        return make


class TestAsyncStandardOnMoto(StandardConformance):
    excused = _EXCUSED

    @pytest.fixture
    def make_queue(self, server: str) -> Iterator[MakeQueue]:
        prefix, numbers = uuid4().hex, count(1)
        with LoopThread() as loop:
            opened = open_client(SDK, ClientOptions(endpoint_url=server))
            client = loop.call(opened.__aenter__)

            def make(
                *,
                visibility_timeout: int = 30,
                dead_letter_queue: Queue | None = None,
                max_receive_count: int | None = None,
            ) -> Queue:
                dead = dead_letter_queue.queue if isinstance(dead_letter_queue, SyncView) else None
                assert dead is None or isinstance(dead, AsyncSqsStandardQueue)
                queue = loop.call(
                    AsyncSqsStandardQueue.create,
                    f"{prefix}-{next(numbers)}",
                    client=client,
                    visibility_timeout=visibility_timeout,
                    dead_letter_queue=dead,
                    max_receive_count=max_receive_count,
                )
                return SyncView(queue, loop)

            yield make
            loop.call(opened.__aexit__, None, None, None)
