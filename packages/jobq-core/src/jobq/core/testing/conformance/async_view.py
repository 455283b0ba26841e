"""An async queue as the suite sees it: its calls run on a loop in a thread."""

from __future__ import annotations

import asyncio
import inspect
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from jobq.core.interfaces import AsyncQueue, AsyncQueueOperations, Finding, MoveProgress
    from jobq.core.message import (
        Capabilities,
        ExtendResult,
        Lease,
        Message,
        PublishResult,
        QueueInfo,
        QueueStats,
        SettleResult,
    )


class LoopThread:
    """An event loop in a thread, from `with` to its end, where what still runs is cancelled."""

    def __init__(self) -> None:
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, name="conformance loop", daemon=True)

    def call(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call `function` on the loop, await what it returns if need be, and return the result."""

        async def run() -> Any:
            result = function(*args, **options)
            return await result if inspect.isawaitable(result) else result

        loop, _ = self._started.result()
        return asyncio.run_coroutine_threadsafe(run(), loop).result()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        loop, ended = self._started.result()
        loop.call_soon_threadsafe(ended.set)
        self._thread.join()

    def _run(self) -> None:
        async def main() -> None:
            ended = asyncio.Event()
            self._started.set_result((asyncio.get_running_loop(), ended))
            await ended.wait()

        asyncio.run(main())


class SyncView:
    """A `Queue` whose calls are those of `queue`, an `AsyncQueue`, awaited on `loop`."""

    def __init__(self, queue: AsyncQueue, loop: LoopThread) -> None:
        self.queue = queue
        self._loop = loop

    @property
    def capabilities(self) -> Capabilities:
        return self.queue.capabilities

    @property
    def operations(self) -> SyncOperations | None:
        operations = self._loop.call(lambda: self.queue.operations)
        return None if operations is None else SyncOperations(operations, self._loop)

    def publish(self, message: Message) -> str:
        return self._loop.call(self.queue.publish, message)

    def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        return self._loop.call(self.queue.publish_batch, messages)

    def claim(
        self, *, visibility: float | None = None, wait: float = 0, min_priority: int = 0
    ) -> Lease | None:
        return self._loop.call(
            self.queue.claim, visibility=visibility, wait=wait, min_priority=min_priority
        )

    def claim_batch(
        self,
        max_messages: int,
        *,
        visibility: float | None = None,
        wait: float = 0,
        min_priority: int = 0,
    ) -> list[Lease]:
        return self._loop.call(
            self.queue.claim_batch,
            max_messages,
            visibility=visibility,
            wait=wait,
            min_priority=min_priority,
        )

    def ack(self, lease: Lease) -> None:
        self._loop.call(self.queue.ack, lease)

    def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
        return self._loop.call(self.queue.ack_batch, leases)

    def nack(self, lease: Lease, delay: float = 0) -> None:
        self._loop.call(self.queue.nack, lease, delay)

    def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]:
        return self._loop.call(self.queue.nack_batch, leases, delay)

    def extend(self, lease: Lease, visibility: float) -> Lease:
        return self._loop.call(self.queue.extend, lease, visibility)

    def extend_batch(self, leases: Sequence[Lease], visibility: float) -> list[ExtendResult]:
        return self._loop.call(self.queue.extend_batch, leases, visibility)

    def stats(self) -> QueueStats:
        return self._loop.call(self.queue.stats)

    def describe(self) -> QueueInfo:
        return self._loop.call(self.queue.describe)

    def dead_letter_queue(self) -> SyncView | None:
        queue = self._loop.call(self.queue.dead_letter_queue)
        return None if queue is None else SyncView(queue, self._loop)

    def close(self) -> None:
        self._loop.call(self.queue.close)

    def __enter__(self) -> Self:
        self._loop.call(self.queue.__aenter__)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        self._loop.call(self.queue.__aexit__, exc_type, exc, traceback)


class SyncOperations:
    """`QueueOperations` over those of an async queue."""

    def __init__(self, operations: AsyncQueueOperations, loop: LoopThread) -> None:
        self._operations = operations
        self._loop = loop

    def move_messages(
        self, *, destination: str | None = None, per_second: int | None = None
    ) -> str:
        return self._loop.call(
            self._operations.move_messages, destination=destination, per_second=per_second
        )

    def move_progress(self, task: str) -> MoveProgress:
        return self._loop.call(self._operations.move_progress, task)

    def cancel_move(self, task: str) -> MoveProgress:
        return self._loop.call(self._operations.cancel_move, task)

    def purge(self) -> None:
        self._loop.call(self._operations.purge)

    def diagnose(self) -> list[Finding]:
        return self._loop.call(self._operations.diagnose)
