"""The async queue is the sync one, awaited."""

from __future__ import annotations

from jobq.core.testing.parity import CLASS, differences
from jobq.sqs.standard import AsyncSqsStandardQueue, SqsStandardQueue
from jobq.sqs.standard.aio import backend as async_backend
from jobq.sqs.standard.backend import backend


def test_the_twins_differ_in_the_await_alone() -> None:
    assert differences(SqsStandardQueue, AsyncSqsStandardQueue, documented={CLASS}) == []


def test_so_do_their_operations() -> None:
    plain, twin = SqsStandardQueue("orders"), AsyncSqsStandardQueue("orders")
    found = differences(type(plain.operations), type(twin.operations))
    # What carries out a flow is awaited.
    assert [line.partition(":")[0] for line in found] == ["__init__"]


def test_and_their_backends_but_for_how_a_client_comes() -> None:
    found = differences(
        type(backend), type(async_backend), added={"open_client"}, documented={CLASS}
    )
    assert found == ["make_client: only SqsBackend has it"]
