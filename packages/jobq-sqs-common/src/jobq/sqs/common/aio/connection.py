"""The one place where an awaited client is opened and called."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from jobq.core import BackendError, ConfigurationError
from jobq.core.clients import AsyncClientSource
from jobq.sqs.common import faults
from jobq.sqs.common.aio import sessions
from jobq.sqs.common.client import (
    ATTEMPTS,
    ClientOptions,
    attempts_of,
    check_awaited,
    info_of,
    own_options,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from jobq.core.interfaces import ConnectionInfo
    from jobq.sqs.common.calls import Call
    from jobq.sqs.common.sdk import Sdk


@asynccontextmanager
async def open_client(
    sdk: Sdk, options: ClientOptions, *, session: Any = None
) -> AsyncGenerator[Any]:
    """An SQS client on the running loop, on a session of its own: like `session`, where one is
    given. Raises `ConfigurationError` where none can be made with these options, `BackendError`
    where looking up its credentials failed.
    """
    if session is not None and not isinstance(session, sessions.class_of(sdk)):
        raise ConfigurationError(
            f"session must be an aioboto3.Session, such as session=aioboto3.Session(), "
            f"not {session!r}"
        )
    async with AsyncExitStack() as stack:
        with sdk.connecting():
            own = (
                sessions.new(sdk, options)
                if session is None
                else sessions.like(session, sdk, options)
            )
            client = await stack.enter_async_context(own.client("sqs", **sdk.arguments(options)))
        yield client


def connect(
    sdk: Sdk, client: Any, *, endpoint_url: str | None = None, region_name: str | None = None
) -> AsyncConnection:
    """The connection over `client`, or over one that is opened with these options.

    Raises `ConfigurationError` for both.
    """
    options = own_options(client, endpoint_url=endpoint_url, region_name=region_name)
    return client if isinstance(client, AsyncConnection) else AsyncConnection(sdk, client, options)


class AsyncConnection:
    """A client that was handed in (`client`: one that was entered, or a callable that returns an
    async context manager of one, or a source of those), or else one of its own, opened with
    `options`. Nothing is opened before the first call. It belongs to the loop that runs here, else
    to that of the first call. A client opened while no credentials were found is opened anew with
    the next call.
    """

    def __init__(self, sdk: Sdk, client: Any, options: ClientOptions | None = None) -> None:
        self._sdk = sdk
        self._attempts = ATTEMPTS if client is None else 1
        self._checked: Any = None
        self._shared = isinstance(client, AsyncClientSource)
        if client is None:
            own = options or ClientOptions()
            client = AsyncClientSource(lambda: open_client(sdk, own))
        self.source = client if isinstance(client, AsyncClientSource) else _source_of(client)

    async def client(self) -> Any:
        """Raises `ConfigurationError` where it can't be opened or is no async one, `BackendError`
        where only its credentials can't be looked up.
        """
        try:
            client = await self.source()
        except ConfigurationError as error:
            raise self._sdk.of_a_callable(error) from error.__cause__
        if client is not self._checked:
            # What a group's source was given, only its queues can tell from a client of theirs.
            check_awaited(client)
            self._attempts, self._checked = attempts_of(client), client
        return client

    async def send(self, call: Call) -> dict[str, Any]:
        """Carry out one call. Raises `BackendError`, or `ConfigurationError` where the client can't
        be opened or used; what the SDK raised is its cause.
        """
        client = await self.client()
        method = getattr(client, call.operation)
        try:
            with self._sdk.calling(call):
                return await method(**call.arguments)
        except BackendError as error:
            if error.code == faults.NO_CREDENTIALS:
                await self.source.renew(client)
            raise

    def attempts(self) -> int:
        """As many as go with the client of the latest call."""
        return self._attempts

    async def info(self) -> ConnectionInfo:
        return info_of(await self.client())

    async def close(self) -> None:
        """Close the client that was opened here, if one was: that of a source is the source's."""
        if not self._shared:
            await self.source.close()


def _source_of(client: Any) -> AsyncClientSource:
    if not callable(client) and not isinstance(client, str):
        check_awaited(client)
    return AsyncClientSource(client)
