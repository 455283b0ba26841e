"""One program, led by its environment alone from queues on one server to others elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from programs import run

from jobq.sqs.common.client import ClientOptions
from jobq.sqs.fifo import SqsFifoQueue
from jobq.sqs.standard import SqsStandardQueue
from jobq.sqs.standard.queue import SDK

SHOP = """
import asyncio, sys
import structlog
from jobq.core import AsyncQueueGroup, JobRequest, QueueGroup
from jobq.worker import Worker

structlog.configure(
    processors=[structlog.processors.JSONRenderer()], logger_factory=structlog.WriteLoggerFactory()
)
NAMES = {"orders": {"name": "orders"}}
JOBS = [JobRequest("pay", {"n": n}, message_group_id="g") for n in range(3)]

async def send():
    async with AsyncQueueGroup.from_env(NAMES) as queues:
        await queues.enqueue_batch("orders", JOBS)

def pay(payload):
    structlog.get_logger().info("paid", n=payload["n"])

kind = {"sync": QueueGroup, "async": AsyncQueueGroup}[sys.argv[2]]
if "send" in sys.argv[1]:
    if kind is QueueGroup:
        QueueGroup.from_env(NAMES).enqueue_batch("orders", JOBS)
    else:
        asyncio.run(send())
if "work" in sys.argv[1]:
    Worker(kind.from_env(NAMES), {"pay": pay}, idle_wait_seconds=1).run(burst=True)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    (tmp_path / "shop.py").write_text(SHOP)

    def call(what: str, kind: str, **environment: str) -> list[dict[str, Any]]:
        ended = run("python", "shop.py", what, kind, folder=tmp_path, more=environment)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return [json.loads(line) for line in ended.stdout.splitlines()]

    return call


@pytest.fixture
def standard(ministack: str) -> dict[str, str]:
    """A standard queue on the first server, by the plain keys."""
    prefix = f"{uuid4().hex[:8]}-"
    client = SDK.make_client(ClientOptions(endpoint_url=ministack))
    SqsStandardQueue.create(f"{prefix}orders", client=client)
    client.close()
    return {
        "JOBQ_CONNECTION": "sqs-standard",
        "JOBQ_SQS_REGION": "us-east-1",
        "JOBQ_SQS_ENDPOINT": ministack,
        "JOBQ_SQS_PLAINTEXT": "true",
        "JOBQ_SQS_QUEUE_PREFIX": prefix,
    }


@pytest.fixture
def ordered(localstack: str) -> dict[str, str]:
    """A FIFO queue on the second one, by the keys of a connection with a name."""
    prefix = f"{uuid4().hex[:8]}-"
    client = SDK.make_client(ClientOptions(endpoint_url=localstack))
    SqsFifoQueue.create(f"{prefix}orders.fifo", client=client)
    client.close()
    return {
        "JOBQ_EU_LEDGER_CONNECTION": "sqs-fifo",
        "JOBQ_EU_LEDGER_SQS_REGION": "us-east-1",
        "JOBQ_EU_LEDGER_SQS_ENDPOINT": localstack,
        "JOBQ_EU_LEDGER_SQS_PLAINTEXT": "true",
        "JOBQ_EU_LEDGER_SQS_QUEUE_PREFIX": prefix,
    }


def paid(lines: list[dict[str, Any]]) -> list[int]:
    return [line["n"] for line in lines if line["event"] == "paid"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_producer_and_a_worker_move_from_one_connection_to_another_by_environment_alone(
    kind: str,
    shop: Callable[..., list[dict[str, Any]]],
    standard: dict[str, str],
    ordered: dict[str, str],
) -> None:
    both = {**standard, **ordered}
    shop("send", kind, **both)
    assert paid(shop("work", kind, **both, JOBQ_CONNECTION_NAME="eu-ledger")) == []
    assert sorted(paid(shop("work", kind, **both))) == [0, 1, 2]

    both["JOBQ_CONNECTION_NAME"] = "eu-ledger"
    shop("send", kind, **both)
    assert paid(shop("work", kind, **both)) == [0, 1, 2]

    in_memory = {"JOBQ_CONNECTION": "memory"}
    assert sorted(paid(shop("send and work", kind, **in_memory))) == [0, 1, 2]


@pytest.mark.timeout(300)
def test_what_a_sync_producer_sends_an_async_worker_runs_and_the_other_way_round(
    shop: Callable[..., list[dict[str, Any]]], standard: dict[str, str]
) -> None:
    for producer, worker in (("sync", "async"), ("async", "sync")):
        shop("send", producer, **standard)
        assert sorted(paid(shop("work", worker, **standard))) == [0, 1, 2]
