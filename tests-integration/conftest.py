"""Local SQS servers as processes, each in a process group that is ended by its id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench import Bench, bench_on

MINISTACK = "ministack==1.5.33"
_START_SECONDS = 90
_AWS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}


def clean_environment(**more: str) -> dict[str, str]:
    """The environment for a process of a test: nothing of pytest, of a virtual environment, or of
    the AWS account of whoever runs this.
    """
    ours = ("AWS_", "COVERAGE_", "PYTEST_", "PYTHON", "UV_PROJECT", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, **_AWS, **more}


@pytest.fixture(scope="session", autouse=True)
def aws_environment() -> Iterator[None]:
    """This process, too, reaches no account."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in _AWS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint URL of a ministack server; `POST /_ministack/reset` empties it."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("ministack") / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            # It pins botocore, so it has an environment of its own.
            ["uv", "tool", "run", "--from", MINISTACK, "python", "-m", "ministack"],
            env=clean_environment(
                BIND_HOST="127.0.0.1",
                MINISTACK_HOST="127.0.0.1",
                GATEWAY_PORT=str(port),
                SERVICES="sqs",
                LOG_LEVEL="WARNING",
            ),
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await_health(f"{url}/_ministack/health", process, log)
        yield url
    finally:
        _end(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _await_health(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2) as reply:
                if reply.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    pytest.fail(f"{url} didn't answer; the server said: {log.read_text(errors='replace')[-2000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    # The server is a child of uv, in the group that uv leads.
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(5)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


@pytest.fixture
def bench(ministack: str, tmp_path: Path) -> Iterator[Bench]:
    with bench_on(ministack, tmp_path) as bench:
        yield bench
