"""HTTP that goes where it was sent and nowhere else, and leaves the loop to others."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import TYPE_CHECKING, Any

from jobq.core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

# aiohttp's own measure of a body that is too large to be sent at once.
_LARGE_BYTES = 2**20


def without_redirects(config: Any, http_session: Any) -> Callable[..., Any]:
    """A class of client options like aiobotocore's (`config`), for clients that follow no redirect,
    as botocore's never do: aiohttp would, with the message and the credentials' token, to any host.

    Raises `ConfigurationError` where `http_session` isn't built as aiobotocore 2.25's is, so that
    nothing could be kept from following them.
    """
    session = straight(http_session)

    class Config(config):
        def __init__(self, **options: Any) -> None:
            parent: Any = super()
            parent.__init__(**{"http_session_cls": session, **options})

        def merge(self, other_config: Any) -> Any:
            # What aiobotocore's own makes has forgotten the class of HTTP sessions.
            parent: Any = super()
            merged = parent.merge(other_config)
            given = merged._user_provided_options  # noqa: SLF001
            return Config(connector_args=merged.connector_args, **given)

    return Config


def straight(http_session: Any) -> Any:
    """A class of HTTP sessions like aiobotocore's (`http_session`), for requests that follow no
    redirect.

    Raises `ConfigurationError` where it isn't built as aiobotocore 2.25's is.
    """
    if not hasattr(http_session, "_get_session"):
        raise ConfigurationError(
            f"{http_session.__module__}.{http_session.__qualname__} of the aiobotocore that is "
            "installed can't be kept from following redirects: async queues need aioboto3 below 16"
        )

    class HttpSession(http_session):
        def _get_ssl_context(self) -> Any:
            # botocore's own leaves host names to urllib3, which has no part in this.
            parent: Any = super()
            context = parent._get_ssl_context()  # noqa: SLF001
            context.check_hostname = True
            return context

        def _setup_proxy_ssl_context(self, proxy_url: Any) -> Any:
            # None would have aiohttp take any certificate, of the server behind the proxy too.
            parent: Any = super()
            return parent._setup_proxy_ssl_context(proxy_url) or self._get_ssl_context()  # noqa: SLF001

        async def _get_session(self, proxy_url: Any) -> Any:
            parent: Any = super()
            session = await parent._get_session(proxy_url)  # noqa: SLF001
            return _Straight(session) if proxy_url is None else _ByProxy(session)

    return HttpSession


class _Straight:
    """An aiohttp session that follows no redirect and, like botocore, keeps no cookies."""

    def __init__(self, session: Any) -> None:
        from aiohttp import DummyCookieJar

        self._session = session
        if not isinstance(session.cookie_jar, DummyCookieJar):
            session._cookie_jar = DummyCookieJar()  # noqa: SLF001 - aiobotocore passes none on

    async def request(self, *arguments: Any, data: Any = None, **options: Any) -> Any:
        # In pieces, so that the loop has a turn between: aiohttp warns of the whole at once.
        if isinstance(data, bytes) and len(data) > _LARGE_BYTES:
            data = BytesIO(data)
        return await self._session.request(*arguments, data=data, **options, allow_redirects=False)


class _ByProxy(_Straight):
    """Connects within the connect timeout, as botocore does: aiohttp would wait for the proxy's
    answer for ever. What comes once it is connected has the read timeout alone.
    """

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        if not session.trace_configs:
            session.trace_configs.append(_bounds_of_connecting())

    async def request(self, *arguments: Any, **options: Any) -> Any:
        from aiohttp import ServerTimeoutError

        bound = asyncio.timeout(None)
        try:
            async with bound:
                return await super().request(*arguments, **options, trace_request_ctx=bound)
        except TimeoutError as error:
            if bound.expired():
                # Words that aiobotocore goes by.
                raise ServerTimeoutError("Connect timeout, by way of a proxy") from error
            raise


def _bounds_of_connecting() -> Any:
    """What sets the bound of a request while it connects, and while nothing else holds it up."""
    from aiohttp import TraceConfig

    async def begin(session: Any, context: Any, _: Any) -> None:
        seconds = session.timeout.sock_connect
        if seconds is not None:
            context.trace_request_ctx.reschedule(asyncio.get_running_loop().time() + seconds)

    async def end(_session: Any, context: Any, _: Any) -> None:
        context.trace_request_ctx.reschedule(None)

    bounds = TraceConfig()
    bounds.on_connection_create_start.append(begin)
    bounds.on_connection_create_end.append(end)
    bounds.freeze()
    return bounds
