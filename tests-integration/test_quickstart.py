"""`examples/quickstart.py` as somebody runs it who has never seen jobq."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from programs import ROOT, run

from jobq.sqs.common.client import ClientOptions
from jobq.sqs.standard.queue import SDK

QUICKSTART = str(ROOT / "examples" / "quickstart.py")


def assert_told(output: str) -> None:
    """What became of each job: it is said, and it is right."""
    _, _, summary = output.partition("What became of each message:")
    lines = [line.split(maxsplit=1)[1] for line in summary.splitlines() if line.startswith("  ")]
    told = sorted(" ".join(line.split()) for line in lines)
    assert told == [
        "(no job) malformed",
        "book success",
        "book success",
        "book success",
        "charge_card retry, then success",
        "send_welcome_email success",
    ]
    assert "came in the order [1, 2, 3]" in summary


def test_it_runs_with_nothing_configured_within_30_seconds(tmp_path: Path) -> None:
    astray = {
        "AWS_PROFILE": "nothing-of-that-name",
        "AWS_ACCESS_KEY_ID": "",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "HTTP_PROXY": "http://127.0.0.1:1",
    }
    began = time.monotonic()
    ended = run("python", QUICKSTART, folder=tmp_path, more=astray)
    assert ended.returncode == 0, ended.stderr
    assert time.monotonic() - began < 30
    assert ended.stderr == ""
    assert_told(ended.stdout)


def test_it_uses_another_sqs_and_leaves_no_queue_there(ministack: str, tmp_path: Path) -> None:
    client: Any = SDK.make_client(ClientOptions(endpoint_url=ministack))
    before = client.list_queues().get("QueueUrls", [])
    elsewhere = {"JOBQ_SQS_ENDPOINT": ministack, "JOBQ_SQS_REGION": "us-east-1"}
    ended = run("python", QUICKSTART, folder=tmp_path, more=elsewhere)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ministack in ended.stdout
    assert_told(ended.stdout)
    assert client.list_queues().get("QueueUrls", []) == before
    client.close()


def test_an_sqs_that_refuses_is_told_in_one_line(tmp_path: Path) -> None:
    elsewhere = {"JOBQ_SQS_ENDPOINT": "http://127.0.0.1:1", "JOBQ_SQS_REGION": "us-east-1"}
    ended = run("python", QUICKSTART, folder=tmp_path, more=elsewhere)
    assert ended.returncode == 1
    assert ended.stderr.startswith("This SQS can't be used: ")
    assert "http://127.0.0.1:1" in ended.stderr
    assert "Traceback" not in ended.stderr
