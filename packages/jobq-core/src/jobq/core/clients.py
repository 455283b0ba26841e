"""One SDK client for each process, or for each event loop."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, cast

from jobq.core.errors import ConfigurationError, JobqError
from jobq.core.loops import Home, LoopLock

if TYPE_CHECKING:
    from collections.abc import Callable


class ClientSource:
    """Hands out a client: the one it was given, or one that it makes, once per process until
    it is renewed.

    Calling it returns the client. A client that was given ready-made and used before a fork is
    refused after it (`ConfigurationError`): two processes on one socket read each other's replies.
    What making one raises is the cause of a `ConfigurationError`.
    """

    def __init__(self, client: Any) -> None:
        if isinstance(client, str):
            raise ConfigurationError(
                "client must be an SDK client or a callable that makes one, such as "
                f"client=lambda: boto3.client('sqs'), not {client!r}"
            )
        self._given = client
        # A lock for each process: a fork may copy one that another thread holds.
        self._locks: dict[int, threading.Lock] = {}
        # The client and its process, in one: other threads renew it meanwhile.
        self._held: tuple[Any, int] | None = None

    def __call__(self) -> Any:
        pid = os.getpid()
        held = self._held
        if held is not None and held[1] == pid:
            return held[0]
        if callable(self._given):
            return self._make(pid)
        if held is not None:
            raise ConfigurationError(
                f"a client used in process {held[1]} can't be used after a fork, "
                f"in process {pid}: pass a callable that makes one, such as "
                "client=lambda: boto3.client('sqs')"
            )
        self._held = (self._given, pid)
        return self._given

    def renew(self, stale: Any) -> None:
        """Drop `stale` if it is the client that was made here: the next call makes another.

        It isn't closed, since other threads may be using it.
        """
        pid = os.getpid()
        if callable(self._given):
            with self._locks.setdefault(pid, threading.Lock()):
                if self._held is not None and self._held[0] is stale:
                    self._held = None

    def close(self) -> None:
        """Close the client that was made in this process; one that was given is the caller's."""
        held = self._held
        if held is not None and held[1] == os.getpid() and callable(self._given):
            self._held = None
            close = getattr(held[0], "close", None)
            if close is not None:
                close()

    def _make(self, pid: int) -> Any:
        with self._locks.setdefault(pid, threading.Lock()):
            held = self._held
            if held is None or held[1] != pid:
                try:
                    held = (self._given(), pid)
                except JobqError:
                    raise
                except Exception as error:
                    raise ConfigurationError(
                        f"the callable given as client raised {type(error).__name__}: {error}"
                    ) from error
                self._held = held
            return held[0]


class AsyncClientSource:
    """Hands out a client on one loop: the one it was given, or one that it opens there.

    `client` is an SDK client that was entered, or a callable that returns an async context manager
    of one. `await source()` returns the client, opened with the first call. It belongs to the loop
    that runs where the source is made, else to that of its first use: on another one, and after a
    fork, it is refused (`ConfigurationError`). What opening one raises is the cause of a
    `ConfigurationError`. Once `close()` was called, the next call opens another client, or is
    refused where `reopens` is false.
    """

    def __init__(self, client: Any, *, reopens: bool = True) -> None:
        if isinstance(client, str):
            raise ConfigurationError(
                "client must be an SDK client that was entered, or a callable that returns an "
                f"async context manager of one, such as client=lambda: session.client('sqs'), not "
                f"{client!r}"
            )
        self._given = client
        self._home = Home(
            "an async client",
            "give each loop its own, such as AsyncQueueGroup.build(session=aioboto3.Session(), …)",
        )
        self._reopens = reopens
        self._closed = False
        self._turn = LoopLock()
        self._manager: AbstractAsyncContextManager[Any] | None = None
        self._opened: Any = None

    async def __call__(self) -> Any:
        self._check()
        if not callable(self._given):
            return self._given
        if self._manager is None:
            async with self._turn.here():
                self._check()  # it may have been closed meanwhile
                if self._manager is None:
                    self._manager, self._opened = await _open(self._given)
        return self._opened

    async def renew(self, stale: Any) -> None:
        """Close `stale` if it is the client that was opened here: the next call opens another."""
        self._check()
        async with self._turn.here():
            if stale is self._opened:
                await self._close()

    async def close(self) -> None:
        """Close the client that was opened here; one that was given is the caller's.

        Where the source `reopens`, it belongs to the loop of its next call from then on. In a
        forked child nothing is closed: the client is the parent's.
        """
        if self._home.forked:
            return
        self._closed = not self._reopens
        if not (self._manager or self._turn.locked()):
            return
        self._home.check()
        async with self._turn.here():
            await self._close()
            self._home.leave()

    def _check(self) -> None:
        self._home.check()
        if self._closed and callable(self._given):
            raise ConfigurationError(
                "the async client was closed when its group was left, maybe while a call was out: "
                "stay inside of `async with` until all calls have come back"
            )

    async def _close(self) -> None:
        manager, self._manager, self._opened = self._manager, None, None
        if manager is not None:
            await manager.__aexit__(None, None, None)


async def _open(make: Callable[[], Any]) -> tuple[AbstractAsyncContextManager[Any], Any]:
    try:
        manager = make()
        if isinstance(manager, AbstractAsyncContextManager):
            opening = cast("AbstractAsyncContextManager[Any]", manager)
            return opening, await opening.__aenter__()
    except JobqError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"opening the client raised {type(error).__name__}: {error}"
        ) from error
    raise ConfigurationError(
        f"the callable given as client returned {manager!r}: it must return an async context "
        "manager of a client, such as client=lambda: session.client('sqs')"
    )
