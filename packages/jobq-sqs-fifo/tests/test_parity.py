"""The async queue is the sync one, awaited."""

from __future__ import annotations

from jobq.core.testing.parity import CLASS, differences
from jobq.sqs.fifo import AsyncSqsFifoQueue, SqsFifoQueue
from jobq.sqs.fifo.aio import backend as async_backend
from jobq.sqs.fifo.backend import backend


def test_the_twins_differ_in_the_await_alone() -> None:
    assert differences(SqsFifoQueue, AsyncSqsFifoQueue, documented={CLASS}) == []


def test_so_do_their_operations() -> None:
    plain, twin = SqsFifoQueue("orders.fifo"), AsyncSqsFifoQueue("orders.fifo")
    found = differences(type(plain.operations), type(twin.operations))
    # What carries out a flow is awaited.
    assert [line.partition(":")[0] for line in found] == ["__init__"]


def test_and_their_backends_but_for_how_a_client_comes() -> None:
    found = differences(
        type(backend), type(async_backend), added={"open_client"}, documented={CLASS}
    )
    assert found == ["make_client: only SqsBackend has it"]
