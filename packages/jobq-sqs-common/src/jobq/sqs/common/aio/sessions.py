"""Sessions whose credentials belong to one loop."""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any, cast

from jobq.sqs.common.aio.http import straight

if TYPE_CHECKING:
    from jobq.sqs.common.client import ClientOptions
    from jobq.sqs.common.sdk import Sdk

_CHAIN = "credential_provider"
_STOCK = {"aiobotocore", "botocore"}


def class_of(sdk: Sdk) -> type[Any]:
    return cast("type[Any]", sdk.session)


def new(sdk: Sdk, options: ClientOptions) -> Any:
    """A session with botocore's own chain of credentials, whose lookups `options` bound."""
    session = sdk.make_session(options)
    _follow_no_redirect(session._session)  # noqa: SLF001
    return session


def like(session: Any, sdk: Sdk, options: ClientOptions) -> Any:
    """A session configured as this one is, hooks and profile and all, for the running loop alone.

    A session keeps the credentials that it looked up, and aiobotocore refreshes them under a lock
    and over connections of one loop: the copy looks up its own, by the same chain. Keys, and a
    chain of other providers, that the caller gave the session stay. `options` bound the lookups,
    but for what the session's own default config says.
    """
    own: Any = copy.copy(session)
    # Names of botocore's that have no public way in: sessions offer no copy.
    core = own._session = copy.copy(session._session)  # noqa: SLF001
    components = core._components = _copied(core._components)  # noqa: SLF001
    credentials = core._credentials  # noqa: SLF001
    asked = _CHAIN in components._components  # noqa: SLF001
    if _is_stock(components, session._session):  # noqa: SLF001
        _follow_no_redirect(core)
    if asked:
        if getattr(credentials, "method", None) != "explicit":
            core._credentials = None  # noqa: SLF001
    elif hasattr(credentials, "_refresh_lock"):
        core._credentials = copy.copy(credentials)  # noqa: SLF001
        core._credentials._refresh_lock = asyncio.Lock()  # noqa: SLF001
    bounds = sdk.config(**options.lookups)
    default = core.get_default_client_config()
    core.set_default_client_config(bounds if default is None else bounds.merge(default))
    return own


def _follow_no_redirect(core: Any) -> None:
    """Registers a chain of `core`'s own anew. STS and SSO are asked by clients of the session, a
    container's and an instance's endpoint over HTTP sessions that only the fetchers have.
    """

    def chain() -> Any:
        made = core._create_credential_resolver()  # noqa: SLF001
        container, instance = (made.get_provider(name) for name in ("container-role", "iam-role"))
        for fetcher in (container._fetcher, instance._role_fetcher):  # noqa: SLF001
            http_session = fetcher._session  # noqa: SLF001
            http_session.__class__ = straight(type(http_session))
        return made

    core._components.lazy_register_component(_CHAIN, chain)  # noqa: SLF001


def _copied(components: Any) -> Any:
    own = copy.copy(components)
    own._components = dict(components._components)  # noqa: SLF001
    own._deferred = dict(components._deferred)  # noqa: SLF001
    return own


def _is_stock(components: Any, core: Any) -> bool:
    waiting = components._deferred.get(_CHAIN)  # noqa: SLF001
    if waiting is not None:
        return getattr(waiting, "__self__", None) is core
    providers = components.get_component(_CHAIN).providers
    return {type(one).__module__.partition(".")[0] for one in providers} <= _STOCK
