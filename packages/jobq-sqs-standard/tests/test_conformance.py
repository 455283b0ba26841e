"""The suite that every backend passes, over moto's server."""

from __future__ import annotations

from itertools import count
from typing import Any
from uuid import uuid4

import pytest

from jobq.core import Queue
from jobq.core.testing.conformance import Excused, MakeQueue, StandardConformance
from jobq.sqs.standard import SqsStandardQueue

_SERVER = "moto 5.2.5"


class TestStandardOnMoto(StandardConformance):
    excused = (
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
