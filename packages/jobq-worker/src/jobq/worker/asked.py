"""Queues as they are asked before a worker receives: by calls that block, whatever their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from jobq.core.interfaces import AsyncConnected, Connected

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jobq.core import AsyncQueue, Queue, QueueInfo
    from jobq.core.interfaces import ConnectionInfo
    from jobq.core.message import Capabilities
    from jobq.worker.loops import WorkerLoop


class Asked(Protocol):
    """A queue of either kind, and what its definition says of its dead-letter queue."""

    @property
    def capabilities(self) -> Capabilities: ...

    def describe(self) -> QueueInfo: ...

    def connection(self) -> ConnectionInfo | None:
        """None where it talks over no client with limits."""
        ...

    def open_dead_letter(self) -> Asked | None:
        """Ask where its dead-letter queue is; None: there is none."""
        ...


class AskedQueue:
    """A sync queue, asked in this thread."""

    def __init__(self, queue: Queue, open_dead_letter: Callable[[], Queue | None]) -> None:
        self.queue = queue
        self._open_dead_letter = open_dead_letter

    @property
    def capabilities(self) -> Capabilities:
        return self.queue.capabilities

    def describe(self) -> QueueInfo:
        return self.queue.describe()

    def connection(self) -> ConnectionInfo | None:
        return self.queue.connection() if isinstance(self.queue, Connected) else None

    def open_dead_letter(self) -> AskedQueue | None:
        queue = self._open_dead_letter()
        return None if queue is None else AskedQueue(queue, queue.dead_letter_queue)


class AskedAsyncQueue:
    """An async queue, asked on `loop` while this thread waits."""

    def __init__(
        self,
        queue: AsyncQueue,
        open_dead_letter: Callable[[], Awaitable[AsyncQueue | None]],
        *,
        loop: WorkerLoop,
    ) -> None:
        self.queue = queue
        self._open_dead_letter = open_dead_letter
        self._loop = loop

    @property
    def capabilities(self) -> Capabilities:
        return self.queue.capabilities

    def describe(self) -> QueueInfo:
        return self._loop.wait(self.queue.describe)

    def connection(self) -> ConnectionInfo | None:
        if not isinstance(self.queue, AsyncConnected):
            return None
        return self._loop.wait(self.queue.connection)

    def open_dead_letter(self) -> AskedAsyncQueue | None:
        queue = self._loop.wait(self._open_dead_letter)
        if queue is None:
            return None
        return AskedAsyncQueue(queue, queue.dead_letter_queue, loop=self._loop)
