"""Async queues that keep what they were sent, and a backend whose clients tell their loop."""

from __future__ import annotations

import asyncio
import importlib.metadata
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from trays import Tray

from jobq.core import AsyncQueueGroup, ConfigurationError, JobMiddleware, Message, PublishResult

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from jobq.core import Capabilities, JobqError, QueueDefinition


class AsyncTray:
    """A queue that keeps what was sent, call by call, after `takes` seconds for each call."""

    operations = None

    def __init__(self, *, fifo: bool = False, largest: int = 1_048_576, takes: float = 0) -> None:
        self._tray = Tray(fifo=fifo, largest=largest)
        self.takes = takes
        self.under_way = 0
        self.most = 0
        self.closed = 0

    @property
    def capabilities(self) -> Capabilities:
        return self._tray.capabilities

    @property
    def calls(self) -> list[list[Message]]:
        return self._tray.calls

    @property
    def sent(self) -> list[Message]:
        return self._tray.sent

    @property
    def failing(self) -> dict[str, JobqError]:
        return self._tray.failing

    async def publish(self, message: Message) -> str:
        await self._take()
        return self._tray.publish(message)

    async def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        await self._take()
        return self._tray.publish_batch(messages)

    async def close(self) -> None:
        self.closed += 1

    async def _take(self) -> None:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.under_way -= 1


class Client:
    def __init__(self, settings: Any = None, session: Any = None) -> None:
        self.loop = asyncio.get_running_loop()
        self.settings = settings
        self.session = session
        self.closed = False


class WiredTray(AsyncTray):
    """A queue over a client."""

    def __init__(self, definition: QueueDefinition, source: Any, settings: Any) -> None:
        super().__init__()
        self.definition = definition
        self.source = source
        self.settings = settings

    async def client(self) -> Client:
        return await self.source()


class WiredBackend:
    """An async backend whose clients belong to the loop that they were opened on: `most` of them,
    for then opening another fails.
    """

    def __init__(self) -> None:
        self.clients: list[Client] = []
        self.most = 9

    def __call__(
        self, definition: QueueDefinition, *, client: Any = None, settings: Any = None
    ) -> Any:
        return WiredTray(definition, client, settings)

    @asynccontextmanager
    async def open_client(
        self, settings: Any = None, *, session: Any = None
    ) -> AsyncGenerator[Client]:
        await asyncio.sleep(0)
        if len(self.clients) >= self.most:
            raise ConfigurationError("no region")
        client = Client(settings, session)
        self.clients.append(client)
        yield client
        client.closed = True


wired = WiredBackend()


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> WiredBackend:
    """The async backends `wire` and `wire2` are installed, beside the real ones."""
    fresh = WiredBackend()
    monkeypatch.setattr("async_trays.wired", fresh)
    real = importlib.metadata.entry_points

    def entry_points(**chosen: Any) -> Any:
        points = [
            importlib.metadata.EntryPoint(name, "async_trays:wired", "jobq.async_backends")
            for name in ("wire", "wire2")
        ]
        ours = importlib.metadata.EntryPoints(points).select(**chosen)
        return (*ours, *real(**chosen))

    monkeypatch.setattr("jobq.core.backends.entry_points", entry_points)
    return fresh


def async_group(tray: AsyncTray, *middleware: JobMiddleware) -> AsyncQueueGroup:
    return AsyncQueueGroup({"default": {"queue": tray}}, middleware)
