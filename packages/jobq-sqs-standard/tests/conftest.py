"""A local SQS in this process, and an environment in which nothing else can be reached."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from moto.server import ThreadedMotoServer

from jobq.sqs.common.client import ClientOptions
from jobq.sqs.standard.queue import SDK

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}


@pytest.fixture(scope="session", autouse=True)
def aws_environment() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in _ENVIRONMENT.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Its endpoint URL."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def client(server: str, aws_environment: None) -> Iterator[Any]:
    """A client as jobq makes them."""
    client = SDK.make_client(ClientOptions(endpoint_url=server))
    yield client
    client.close()


@pytest.fixture
def name() -> str:
    return f"orders-{uuid4().hex}"
