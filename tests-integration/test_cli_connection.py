"""`jobq worker` on the connection that it is given, and where the environment is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import run

from jobq.sqs.fifo import SqsFifoQueue
from jobq.sqs.standard import SqsStandardQueue
from jobq.worker.cli.local import local_environment, local_sqs

SHOP = """
import sys

from jobq.core import QueueGroup
from jobq.worker import Worker

queues = QueueGroup.from_env({"default": "jobs", "ledger": {"name": "ledger", "weight": 2}})


def record(payload):
    sys.stdout.write("recorded " + payload["queue"] + "\\n")


def send():
    for name in queues.names:
        queues.enqueue(name, "record", {"queue": name}, message_group_id="g")


worker = Worker(queues, {"record": record}, idle_wait_seconds=1, shutdown_timeout=10)
"""
SEND = "import shop; shop.send()"
WORKER = ("jobq", "worker", "shop:worker", "--burst")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(SHOP)
    return tmp_path


@pytest.fixture(scope="module")
def both() -> Iterator[dict[str, str]]:
    """Standard queues on one server, by the plain keys, and FIFO ones on another, as `ordered`."""
    with local_sqs() as plain, local_sqs() as ordered:
        for name in ("jobs", "ledger"):
            SqsStandardQueue.create(f"staging-{name}", endpoint_url=plain).close()
            SqsFifoQueue.create(name, endpoint_url=ordered).close()
        yield {
            **local_environment(plain),
            "JOBQ_SQS_QUEUE_PREFIX": "staging-",
            "JOBQ_ORDERED_CONNECTION": "sqs-fifo",
            "JOBQ_ORDERED_SQS_REGION": "us-east-1",
            "JOBQ_ORDERED_SQS_ENDPOINT": ordered,
            "JOBQ_ORDERED_SQS_PLAINTEXT": "true",
        }


def output_of(*command: str, folder: Path, environment: dict[str, str]) -> str:
    ended = run(*command, folder=folder, more=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def recorded(output: str) -> list[str]:
    return sorted(line.split()[1] for line in output.splitlines() if line.startswith("recorded"))


def finished(output: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "job_finished"]


@pytest.mark.parametrize("connection", ["default", "ordered"])
def test_a_worker_meets_its_producer_on_the_connection_that_both_are_given(
    connection: str, folder: Path, both: dict[str, str]
) -> None:
    chosen = {**both, "JOBQ_CONNECTION_NAME": connection}
    output_of("python", "-c", SEND, folder=folder, environment=chosen)
    output = output_of(*WORKER, "--connection", connection, folder=folder, environment=both)
    assert recorded(output) == ["default", "ledger"]
    assert [line["outcome"] for line in finished(output)] == ["success", "success"]


def test_a_wrong_environment_ends_a_worker_before_it_begins(folder: Path) -> None:
    wrong = {"JOBQ_SQS_REGION": "eu-west-1", "JOBQ_SQS_TIMEOUT": "5"}
    ended = run(*WORKER, folder=folder, more=wrong)
    assert ended.returncode == 2
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"jobq worker: {folder / 'shop.py'}:")
    assert "JOBQ_SQS_TIMEOUT is '5': it must be" in line
