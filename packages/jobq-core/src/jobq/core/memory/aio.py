"""The in-memory queue over event loops."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from jobq.core.limits import LARGEST_MESSAGE_BYTES
from jobq.core.memory.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from jobq.core.interfaces.operations import Finding, MoveProgress
    from jobq.core.memory.clock import Clock
    from jobq.core.memory.operations import MemoryOperations
    from jobq.core.memory.polls import Poll
    from jobq.core.memory.server import MemoryServer
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


class AsyncMemoryQueue:
    """A queue in this process with SQS's rules, standard or FIFO (`fifo=None`: by the suffix).

    It is made on its `server` where that has none of its name, else opened as it is. The server is
    that of the `dead_letter_queue`, or a new one on `clock`, unless one is given (or a callable
    that returns one, asked at each call). Raises `ConfigurationError`.

    A `MemoryQueue` of that name on that server is the same queue. It is good on every loop. A call
    gives its loop a turn before it does anything at once: one that is cancelled has done nothing.
    """

    def __init__(
        self,
        name: str = "jobs",
        *,
        fifo: bool | None = None,
        visibility_timeout: float = 30,
        dead_letter_queue: AsyncMemoryQueue | None = None,
        max_receive_count: int | None = None,
        max_message_bytes: int = LARGEST_MESSAGE_BYTES,
        clock: Clock | None = None,
        server: MemoryServer | Callable[[], MemoryServer] | None = None,
    ) -> None:
        self._handle = Handle(
            name,
            fifo=fifo,
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue,
            max_receive_count=max_receive_count,
            max_message_bytes=max_message_bytes,
            clock=clock,
            server=server,
        )

    @property
    def name(self) -> str:
        return self._handle.spec.name

    @property
    def capabilities(self) -> Capabilities:
        """The size limit of a queue that exists is known from the first call that asks its server,
        which is at once unless the server is a callable.
        """
        return self._handle.capabilities

    @property
    def server(self) -> MemoryServer:
        """Where this queue lives: `clock`, and the queues beside it."""
        return self._handle.server()

    @property
    def operations(self) -> AsyncMemoryOperations:
        return AsyncMemoryOperations(self._handle.operations())

    async def publish(self, message: Message) -> str:
        await asyncio.sleep(0)
        return self._handle.publish(message)

    async def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        await asyncio.sleep(0)
        return self._handle.publish_batch(messages)

    async def claim(
        self, *, visibility: float | None = None, wait: float = 0, min_priority: int = 0
    ) -> Lease | None:
        leases = await self.claim_batch(
            1, visibility=visibility, wait=wait, min_priority=min_priority
        )
        return leases[0] if leases else None

    async def claim_batch(
        self,
        max_messages: int,
        *,
        visibility: float | None = None,
        wait: float = 0,
        min_priority: int = 0,
    ) -> list[Lease]:
        """Receive up to `max_messages`, ten at a time; only the first receive waits."""
        await asyncio.sleep(0)
        poll = self._handle.poll(
            max_messages, visibility=visibility, wait=wait, min_priority=min_priority
        )
        leases, again = poll.look()
        return leases if again is None else await _wait(poll)

    async def ack(self, lease: Lease) -> None:
        await asyncio.sleep(0)
        self._handle.ack(lease)

    async def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
        await asyncio.sleep(0)
        return self._handle.ack_batch(leases)

    async def nack(self, lease: Lease, delay: float = 0) -> None:
        await asyncio.sleep(0)
        self._handle.nack(lease, delay)

    async def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]:
        await asyncio.sleep(0)
        return self._handle.nack_batch(leases, delay)

    async def extend(self, lease: Lease, visibility: float) -> Lease:
        await asyncio.sleep(0)
        return self._handle.extend(lease, visibility)

    async def extend_batch(self, leases: Sequence[Lease], visibility: float) -> list[ExtendResult]:
        await asyncio.sleep(0)
        return self._handle.extend_batch(leases, visibility)

    async def stats(self) -> QueueStats:
        await asyncio.sleep(0)
        return self._handle.stats()

    async def describe(self) -> QueueInfo:
        await asyncio.sleep(0)
        return self._handle.describe()

    async def dead_letter_queue(self) -> AsyncMemoryQueue | None:
        await asyncio.sleep(0)
        redrive = self._handle.place().store.redrive
        if redrive is None:
            return None
        target = redrive.target
        return AsyncMemoryQueue(
            target.name, max_message_bytes=target.max_message_bytes, server=self._handle.server
        )

    async def close(self) -> None:
        """Do nothing: there is no connection, and what was sent stays on the server."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        await self.close()


class AsyncMemoryOperations:
    """`AsyncQueueOperations` of one queue. A move is over when `move_messages` returns."""

    def __init__(self, operations: MemoryOperations) -> None:
        self._operations = operations

    async def move_messages(
        self, *, destination: str | None = None, per_second: int | None = None
    ) -> str:
        """Move what is visible, all at once: `per_second` has nothing to slow down here.

        Raises `ConfigurationError` unless this is a dead-letter queue and `destination` is of its
        kind, `QueueNotFoundError` where there is none of that name.
        """
        await asyncio.sleep(0)
        return self._operations.move_messages(destination=destination, per_second=per_second)

    async def move_progress(self, task: str) -> MoveProgress:
        await asyncio.sleep(0)
        return self._operations.move_progress(task)

    async def cancel_move(self, task: str) -> MoveProgress:
        """How the move ended: there is nothing left to cancel."""
        await asyncio.sleep(0)
        return self._operations.cancel_move(task)

    async def purge(self) -> None:
        await asyncio.sleep(0)
        self._operations.purge()

    async def diagnose(self) -> list[Finding]:
        await asyncio.sleep(0)
        return self._operations.diagnose()


async def _wait(poll: Poll) -> list[Lease]:
    """Look whenever the queue changes, in whatever thread, or the clock does.

    Nothing is awaited between a look that brought messages and the return of them, so none is lost
    to a cancellation.
    """
    woken, loop = asyncio.Event(), asyncio.get_running_loop()

    def wake() -> None:
        with suppress(RuntimeError):  # the loop was closed with this poll still on it
            loop.call_soon_threadsafe(woken.set)

    with poll.place.changed.waking(wake), poll.clock.waking(wake):
        while True:
            woken.clear()
            leases, again = poll.look()
            if again is None:
                return leases
            with suppress(TimeoutError):
                async with asyncio.timeout(poll.clock.seconds_until(again)):
                    await woken.wait()
