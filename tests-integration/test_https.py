"""HTTPS between a client and AWS, and a proxy there: what it holds up and must not change."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TypeAlias

import pytest
from tls_servers import certificate_of, https_endpoint, tunnel_to

from jobq.core import BackendError, Lease, QueueDefinition
from jobq.sqs.common.aio.connection import open_client
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.standard import backend as sync_backend
from jobq.sqs.standard.aio import SDK as ASYNC_SDK
from jobq.sqs.standard.aio import backend as async_backend
from jobq.sqs.standard.queue import SDK

HOST = "sqs.us-east-1.amazonaws.com"
DEFINITION = QueueDefinition(url=f"https://{HOST}/123456789012/orders")

Claim: TypeAlias = Callable[[ClientOptions], Lease | None]


def options(*, connect: float, read: float, endpoint: str | None = None) -> ClientOptions:
    bounds = {"connect_timeout": connect, "read_timeout": read}
    return ClientOptions(endpoint_url=endpoint, config={**ClientOptions().config, **bounds})


def blocking(options: ClientOptions) -> Lease | None:
    client = SDK.client(options)
    try:
        return sync_backend(DEFINITION, client=client).claim(visibility=30)
    finally:
        client.close()


def awaited(options: ClientOptions) -> Lease | None:
    async def claim() -> Lease | None:
        async with open_client(ASYNC_SDK, options) as client:
            return await async_backend(DEFINITION, client=client).claim(visibility=30)

    async def claim_and_hang_up() -> Lease | None:
        try:
            return await claim()
        finally:
            # aiohttp leaves the end of TLS to the loop, which must not end before.
            await asyncio.sleep(0.25)

    return asyncio.run(claim_and_hang_up())


@pytest.fixture(params=[blocking, awaited], ids=["sync", "async"])
def claim(request: pytest.FixtureRequest) -> Claim:
    return request.param


@pytest.fixture(autouse=True)
def no_other_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.getsockname()[1]}")
        yield


def slow(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(0.6)
    handler.send_response(200)
    handler.send_header("Content-Type", "application/x-amz-json-1.0")
    handler.send_header("Content-Length", "2")
    handler.end_headers()
    time.sleep(0.6)
    handler.wfile.write(b"{}")


@pytest.fixture
def certificate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """That of an SQS which answers slowly, headers and body, behind a proxy."""
    path = certificate_of(HOST, tmp_path)
    with ExitStack() as stack:
        port = stack.enter_context(https_endpoint(path, slow))
        monkeypatch.setenv("HTTPS_PROXY", stack.enter_context(tunnel_to(port)))
        yield path


@pytest.mark.timeout(20)
def test_one_that_never_answers_takes_no_longer_than_the_timeout_to_connect(
    claim: Claim, silent: None
) -> None:
    began = time.monotonic()
    with pytest.raises(BackendError, match="check the endpoint, the region and the net") as raised:
        claim(options(connect=1, read=30))
    assert raised.value.retryable
    assert time.monotonic() - began < 3


def test_behind_one_an_answer_may_take_as_long_as_any(
    claim: Claim, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
    assert claim(options(connect=0.5, read=1)) is None


def test_behind_one_a_server_that_nobody_vouches_for_is_refused(
    claim: Claim, certificate: Path
) -> None:
    with pytest.raises(BackendError, match="certificate verify failed"):
        claim(options(connect=5, read=5))


@pytest.mark.parametrize("between", ["nothing", "a proxy"])
def test_a_certificate_of_another_host_is_refused(
    claim: Claim, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, between: str
) -> None:
    path = certificate_of("somebody.example", tmp_path)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(path))
    with ExitStack() as stack:
        port = stack.enter_context(https_endpoint(path, slow))
        endpoint = f"https://localhost:{port}"
        if between == "a proxy":
            monkeypatch.setenv("HTTPS_PROXY", stack.enter_context(tunnel_to(port)))
            endpoint = None
        with pytest.raises(BackendError, match=r"(?i)hostname.*match"):
            claim(options(connect=5, read=5, endpoint=endpoint))
