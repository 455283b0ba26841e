"""Log lines as data, a queue in memory, and bursts that end soon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import structlog
from working import Lines

from jobq.core.memory import AsyncMemoryQueue, MemoryQueue, MemoryServer

if TYPE_CHECKING:
    from collections.abc import Iterator, MutableMapping


@pytest.fixture
def lines() -> Iterator[Lines]:
    written = Lines()

    def keep(logger: object, method: str, event: MutableMapping[str, Any]) -> Any:
        written.append({**event, "level": method})
        raise structlog.DropEvent

    before = structlog.get_config()
    structlog.configure(processors=[structlog.contextvars.merge_contextvars, keep])
    yield written
    structlog.configure(**before)


@pytest.fixture
def short_bursts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the silence that tells a burst of its end."""
    monkeypatch.setattr("jobq.worker.engine.polling.BURST_WAIT_SECONDS", 1)


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
def jobs(server: MemoryServer) -> MemoryQueue:
    return MemoryQueue("jobs", server=server)


@pytest.fixture
def async_jobs(server: MemoryServer) -> AsyncMemoryQueue:
    """The async twin of `jobs`: one queue with it."""
    return AsyncMemoryQueue("jobs", server=server)
