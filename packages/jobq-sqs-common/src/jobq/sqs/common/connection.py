"""The one place where a blocking client is called."""

from __future__ import annotations

from typing import Any

from jobq.core import BackendError, ClientSource, ConfigurationError
from jobq.core.interfaces import ConnectionInfo
from jobq.sqs.common import faults
from jobq.sqs.common.calls import Call
from jobq.sqs.common.client import (
    ATTEMPTS,
    ClientOptions,
    attempts_of,
    check_blocking,
    info_of,
    own_options,
)
from jobq.sqs.common.sdk import Sdk


def connect(
    sdk: Sdk, client: Any, *, endpoint_url: str | None = None, region_name: str | None = None
) -> Connection:
    """The connection over `client`, or over one that is made with these options.

    Raises `ConfigurationError` for both.
    """
    options = own_options(client, endpoint_url=endpoint_url, region_name=region_name)
    return client if isinstance(client, Connection) else Connection(sdk, client, options)


class Connection:
    """A client that was handed in (`client`: one, or a callable that makes one), or else one of its
    own, made with `options`. Nothing is made before the first call, and then once per process; a
    client made while no credentials were found is made anew with the next call.
    """

    def __init__(self, sdk: Sdk, client: Any, options: ClientOptions | None = None) -> None:
        self._sdk = sdk
        self._options = options or ClientOptions()
        self._own = ClientSource(self._make) if client is None else None
        shared = client if isinstance(client, ClientSource) else ClientSource(client)
        self.source = self._own or shared
        self._attempts = ATTEMPTS if client is None else 1
        self._checked: Any = None

    def client(self) -> Any:
        """Raises `ConfigurationError` where it can't be made or is an async one, `BackendError`
        where only its credentials can't be looked up.
        """
        try:
            client = self.source()
        except ConfigurationError as error:
            raise self._sdk.of_a_callable(error) from error.__cause__
        if client is not self._checked:
            check_blocking(client)
            self._attempts, self._checked = attempts_of(client), client
        return client

    def send(self, call: Call) -> dict[str, Any]:
        """Carry out one call. Raises `BackendError`, or `ConfigurationError` where the client can't
        be made or used; what the SDK raised is its cause.
        """
        client = self.client()
        method = getattr(client, call.operation)
        try:
            with self._sdk.calling(call):
                return method(**call.arguments)
        except BackendError as error:
            if error.code == faults.NO_CREDENTIALS:
                self.source.renew(client)
            raise

    def attempts(self) -> int:
        """As many as go with the client of the latest call."""
        return self._attempts

    def info(self) -> ConnectionInfo:
        return info_of(self.client())

    def close(self) -> None:
        """Close the client that this process made here, if it made one."""
        if self._own is not None:
            self._own.close()

    def _make(self) -> Any:
        return self._sdk.client(self._options)
