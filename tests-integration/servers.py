"""Local SQS servers as processes, each in a process group that is ended by its id.

Each has an environment of its own, since each pins botocore or needs another Python.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

MINISTACK = "ministack==1.5.33"
LOCALSTACK = "localstack-core[base-runtime]==4.13.1"
# Later releases of what this LocalStack depends on don't go with it.
LOCALSTACK_DAY = "2026-02-10"
# The first start downloads the server.
_START_SECONDS = 240
AWS = {
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
    return {**kept, **AWS, **more}


@contextmanager
def ministack_process(folder: Path) -> Generator[str]:
    """The endpoint's URL; `POST /_ministack/reset` empties it."""
    port = str(_free_port())
    command = ["uv", "tool", "run", "--from", MINISTACK, "python", "-m", "ministack"]
    settings = {
        "BIND_HOST": "127.0.0.1",
        "MINISTACK_HOST": "127.0.0.1",
        "GATEWAY_PORT": port,
        "SERVICES": "sqs",
        "LOG_LEVEL": "WARNING",
    }
    with _server(command, settings, folder, health=f"http://127.0.0.1:{port}/_ministack/health"):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def localstack_process(folder: Path) -> Generator[str]:
    """The endpoint's URL. No Docker, no token, and nothing outside of `folder` but uv's cache."""
    origin = f"127.0.0.1:{_free_port()}"
    command = ["uv", "tool", "run", "--python", "3.11", "--exclude-newer", LOCALSTACK_DAY]
    command += ["--from", LOCALSTACK, "python", "-m", "localstack.runtime.main"]
    cache = subprocess.run(["uv", "cache", "dir"], capture_output=True, text=True, check=True)
    settings = {
        "HOME": str(folder),
        "UV_CACHE_DIR": cache.stdout.strip(),
        "FILESYSTEM_ROOT": str(folder),
        "GATEWAY_LISTEN": origin,
        "GATEWAY_SERVER": "hypercorn",
        "LOCALSTACK_HOST": origin,
        "SQS_ENDPOINT_STRATEGY": "path",
        "SERVICES": "sqs",
        "EAGER_SERVICE_LOADING": "1",
        "DISABLE_EVENTS": "1",
        "SKIP_SSL_CERT_DOWNLOAD": "1",
        "LOCALSTACK_SKIP_SSL_CERT_DOWNLOAD": "1",
        "DNS_ADDRESS": "0",
    }
    with _server(command, settings, folder, health=f"http://{origin}/_localstack/health"):
        yield f"http://{origin}"


@contextmanager
def _server(
    command: list[str], settings: Mapping[str, str], folder: Path, *, health: str
) -> Generator[None]:
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            env=clean_environment(**settings),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await_health(health, process, log)
        yield
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
    said = log.read_text(errors="replace")[-2000:]
    raise AssertionError(f"{url} didn't answer; the server said: {said}")


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
