"""The options of a client that jobq makes itself, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jobq.core import ConfigurationError
from jobq.core.interfaces import ConnectionInfo

# Tells a client that jobq made from one that was handed in, and jobq's requests in AWS's logs.
USER_AGENT = "jobq"
ATTEMPTS = 3


# A client's own, and those of the clients that look up its credentials.
_BOUNDS = ("connect_timeout", "read_timeout", "retries")


def _config(read_timeout: float = 30) -> dict[str, Any]:
    return {
        "connect_timeout": min(10, read_timeout),
        "read_timeout": read_timeout,
        "max_pool_connections": 256,
        "retries": {"total_max_attempts": 1, "mode": "standard"},
        "tcp_keepalive": True,
        "user_agent_extra": USER_AGENT,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What to make an SDK client with: `region_name`, `endpoint_url` and `config`, botocore's own
    names. None leaves the choice to the SDK's chain.

    `config`: a read timeout (seconds) above the longest poll of 20 s; a pool for 256 polls and
    settling calls at once; one attempt a request, since what is worth another is decided here.
    """

    region_name: str | None = None
    endpoint_url: str | None = None
    config: dict[str, Any] = field(default_factory=_config)

    @property
    def lookups(self) -> dict[str, Any]:
        """`config` of the clients that the SDK makes to look up credentials (STS, SSO): the same
        timeouts, and one attempt, so that a lookup takes no longer than a request.
        """
        return {name: self.config[name] for name in _BOUNDS}

    @classmethod
    def of(cls, settings: Any) -> ClientOptions:
        """Read a connection's settings: `region`, `endpoint` and `timeout` (seconds), or None.

        Where they are given, their endpoint alone counts: without one it is AWS's own, whatever
        the AWS profile says.
        """
        if settings is None:
            return cls()
        return cls(
            region_name=settings.region,
            endpoint_url=settings.endpoint,
            config={**_config(settings.timeout), "ignore_configured_endpoint_urls": True},
        )


def attempts_of(client: Any) -> int:
    """How often to try a send over this client: 3 times over one that jobq made, which makes one
    attempt a request; once over another, whose own retries count.
    """
    extra = getattr(getattr(getattr(client, "meta", None), "config", None), "user_agent_extra", "")
    return ATTEMPTS if USER_AGENT in str(extra).split() else 1


def check_blocking(client: Any) -> None:
    """Raise `ConfigurationError` for an async client: its calls would only look made."""
    if hasattr(client, "__aenter__"):
        raise ConfigurationError(
            f"{client!r} is an async client: a sync queue takes one of boto3, or "
            "client=lambda: boto3.client('sqs'); it goes with the async class"
        )


def check_awaited(client: Any) -> None:
    """Raise `ConfigurationError` for a boto3 client, which would send before it can't be awaited,
    for one that wasn't entered, and for what is none.
    """
    if not hasattr(client, "__aenter__"):
        raise ConfigurationError(
            f"{client!r} is no async client: an async queue takes one of aioboto3, entered, or "
            "client=lambda: session.client('sqs'); a boto3 client goes with the sync class"
        )
    if not hasattr(client, "meta"):
        raise ConfigurationError(
            "the client was not entered: use async with session.client('sqs') as client, or "
            "pass client=lambda: session.client('sqs')"
        )


def info_of(client: Any) -> ConnectionInfo:
    """A client and its limits."""
    config = getattr(getattr(client, "meta", None), "config", None)
    return ConnectionInfo(
        client=client,
        max_connections=getattr(config, "max_pool_connections", None),
        read_timeout=getattr(config, "read_timeout", None),
    )


def own_options(
    client: Any, *, endpoint_url: str | None, region_name: str | None
) -> ClientOptions | None:
    """What a queue makes its client with, None beside one that was handed in.

    Raises `ConfigurationError` for both.
    """
    if client is None:
        return ClientOptions(region_name=region_name, endpoint_url=endpoint_url)
    if endpoint_url is not None or region_name is not None:
        raise ConfigurationError(
            f"endpoint_url={endpoint_url!r} and region_name={region_name!r} are for a client that "
            "the queue makes: leave them out beside client="
        )
    return None
