"""The one place where a blocking client is called and what it raises is translated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobq.core import ClientSource, ConfigurationError
from jobq.core.interfaces import ConnectionInfo
from jobq.sqs.common import faults
from jobq.sqs.common.calls import Call
from jobq.sqs.common.client import ClientOptions, attempts_of

_CONNECT = Call("connect", {})
# What botocore's parser lets through where a reply's JSON, or its text, is of another shape.
_UNREADABLE = (AttributeError, LookupError, RecursionError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sdk:
    """What is needed of an SDK: its classes of sessions, of client options, of what it raises."""

    session: Callable[[], Any]
    config: Callable[..., Any]
    raised: tuple[type[Exception], ...]

    def make_client(self, options: ClientOptions) -> Any:
        """An SQS client on a session of its own: boto3's default one isn't safe to make clients
        with from several threads at once.
        """
        return self.session().client(
            "sqs",
            region_name=options.region_name,
            endpoint_url=options.endpoint_url,
            config=self.config(**options.config),
        )

    def client(self, options: ClientOptions) -> Any:
        """A client, or `ConfigurationError` where none can be made with these options."""
        try:
            return self.make_client(options)
        # ValueError is botocore's for an endpoint that is no URL.
        except (*self.raised, ValueError) as error:
            raise faults.error_of(faults.read(error), _CONNECT) from error


def connect(
    sdk: Sdk, client: Any, *, endpoint_url: str | None = None, region_name: str | None = None
) -> Connection:
    """The connection over `client`, or over one that is made with these options.

    Raises `ConfigurationError` for both.
    """
    if client is None:
        return Connection(
            sdk, None, ClientOptions(region_name=region_name, endpoint_url=endpoint_url)
        )
    if endpoint_url is not None or region_name is not None:
        raise ConfigurationError(
            f"endpoint_url={endpoint_url!r} and region_name={region_name!r} are for a client that "
            "the queue makes: leave them out beside client="
        )
    return client if isinstance(client, Connection) else Connection(sdk, client)


class Connection:
    """A client that was handed in (`client`: one, or a callable that makes one, called once per
    process), or else one of its own, made once per process with `options`. Nothing is made before
    the first call.
    """

    def __init__(self, sdk: Sdk, client: Any, options: ClientOptions | None = None) -> None:
        self._sdk = sdk
        self._options = options or ClientOptions()
        self._own = ClientSource(self._make) if client is None else None
        shared = client if isinstance(client, ClientSource) else ClientSource(client)
        self._client = self._own or shared

    def client(self) -> Any:
        """Raises `ConfigurationError` where it can't be made."""
        try:
            return self._client()
        except self._sdk.raised as error:
            raise faults.error_of(faults.read(error), _CONNECT) from error

    def send(self, call: Call) -> dict[str, Any]:
        """Carry out one call. Raises `BackendError`, or `ConfigurationError` where the client can't
        be made or used; what the SDK raised is its cause.
        """
        method = getattr(self.client(), call.operation)
        try:
            return method(**call.arguments)
        except self._sdk.raised as error:
            raise faults.error_of(faults.read(error), call) from error
        except _UNREADABLE as error:
            raise faults.unreadable(error, call) from error

    def attempts(self) -> int:
        return attempts_of(self.client())

    def info(self) -> ConnectionInfo:
        client = self.client()
        config = getattr(getattr(client, "meta", None), "config", None)
        return ConnectionInfo(
            client=client,
            max_connections=getattr(config, "max_pool_connections", None),
            read_timeout=getattr(config, "read_timeout", None),
        )

    def close(self) -> None:
        """Close the client that this process made here, if it made one."""
        if self._own is not None:
            self._own.close()

    def _make(self) -> Any:
        return self._sdk.client(self._options)
