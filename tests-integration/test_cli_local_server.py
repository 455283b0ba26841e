"""`jobq local` as a process: what it prints leads to it, and a signal ends it well."""

from __future__ import annotations

import shlex
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from programs import JOBQ, environment, run

# A program that knows nothing of the server but its environment.
ASK = "import boto3; print(boto3.client('sqs').create_queue(QueueName='mine')['QueueUrl'])"


@contextmanager
def jobq_local(*options: str) -> Generator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """The process, and the environment that it prints."""
    process = subprocess.Popen(
        [JOBQ, "local", *options],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        # Comes once all is printed.
        assert "Ctrl-C" in process.stderr.readline()
        printed: dict[str, str] = {}
        while "AWS_SECRET_ACCESS_KEY" not in printed:
            export, assignment = shlex.split(process.stdout.readline())
            assert export == "export"
            name, _, value = assignment.partition("=")
            printed[name] = value
        yield process, printed
    finally:
        process.kill()
        process.communicate(timeout=10)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_it_prints_leads_to_it_and_a_signal_ends_it_with_0(
    number: signal.Signals, tmp_path: Path
) -> None:
    with jobq_local() as (process, printed):
        endpoint = printed["JOBQ_SQS_ENDPOINT"]
        assert endpoint.startswith("http://127.0.0.1:")
        assert printed["JOBQ_CONNECTION"] == "sqs"
        assert printed["JOBQ_SQS_PLAINTEXT"] == "true"
        assert printed["JOBQ_SQS_REGION"] == "us-east-1"
        asked = run("python", "-c", ASK, folder=tmp_path, more=printed)
        assert asked.stdout.startswith(f"{endpoint}/"), asked.stderr
        process.send_signal(number)
        assert process.wait(10) == 0


def test_it_serves_the_port_that_it_was_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with jobq_local("--port", str(port)) as (_, printed):
        assert printed["JOBQ_SQS_ENDPOINT"] == f"http://127.0.0.1:{port}"
