"""`jobq local`: an SQS server on this machine, for development and tests."""

from __future__ import annotations

import ipaddress
import logging
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from jobq.core import ConfigurationError
from jobq.worker.signals import StopSignals

if TYPE_CHECKING:
    from collections.abc import Generator

REGION = "us-east-1"


@contextmanager
def local_sqs(*, host: str = "127.0.0.1", port: int = 0) -> Generator[str]:
    """Serve SQS from a thread of this process while the block lasts; gives the endpoint's URL.

    `port` 0 is a free one. Queues are kept in memory and go with it. Raises `ConfigurationError`
    for a host that isn't loopback, a port that is taken, and where moto isn't installed.
    """
    _check_address(host, port)
    try:
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        raise ConfigurationError(
            f'the local SQS server can\'t be imported ({error}): pip install "jobq-worker[local]"'
        ) from error
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for every request
    server: Any = ThreadedMotoServer(ip_address=host, port=port, verbose=False)
    server.start()
    try:
        _, bound = server.get_host_and_port()
        yield f"http://{f'[{host}]' if ':' in host else host}:{bound}"
    finally:
        server.stop()


def local_environment(endpoint: str) -> dict[str, str]:
    """The environment in which jobq and boto3 reach the server at `endpoint`, and no other SQS."""
    return {
        "JOBQ_CONNECTION": "sqs",
        "JOBQ_SQS_ENDPOINT": endpoint,
        "JOBQ_SQS_PLAINTEXT": "true",
        "JOBQ_SQS_REGION": REGION,
        "AWS_ENDPOINT_URL_SQS": endpoint,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }


@click.command("local", short_help="Run an SQS server on this machine.")
@click.option("--host", default="127.0.0.1", show_default=True, help="A loopback address.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Default: a free one.")
def local_command(host: str, port: int) -> None:
    """Run an SQS server, for development and tests, until Ctrl-C or SIGTERM.

    Prints the environment that leads to it, one `export` a line, to paste into another shell. It
    holds its queues in memory, asks for no credentials and needs jobq-worker's extra `local`.
    """

    def stop() -> None:
        signals.wake()

    signals = StopSignals(stop)
    try:
        with local_sqs(host=host, port=port) as endpoint, signals:
            for name, value in local_environment(endpoint).items():
                click.echo(f"export {name}={value}")
            click.echo(f"SQS serves at {endpoint}; Ctrl-C ends it.", err=True)
            signals.wait()
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


def _check_address(host: str, port: int) -> None:
    """The server's own thread would fail unseen."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise ConfigurationError(
            f"host {host!r} is no loopback address: the local SQS server lets everybody in, so it "
            "listens on 127.0.0.1, ::1 or localhost alone"
        )
    try:
        with socket.create_server((host, port), family=_family(host)):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"port {port} of {host} can't be had ({error.strerror}): give another, or none for a "
            "free one"
        ) from error


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
