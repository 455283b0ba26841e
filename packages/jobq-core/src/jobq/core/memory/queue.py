"""The in-memory queue over threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from jobq.core.limits import LARGEST_MESSAGE_BYTES
from jobq.core.memory.handle import Handle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from jobq.core.memory.clock import Clock
    from jobq.core.memory.operations import MemoryOperations
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


class MemoryQueue:
    """A queue in this process with SQS's rules, standard or FIFO (`fifo=None`: by the suffix).

    It is made on its `server` where that has none of its name, else opened as it is. The server is
    that of the `dead_letter_queue`, or a new one on `clock`, unless one is given (or a callable
    that returns one, asked at each call). Raises `ConfigurationError`.
    """

    def __init__(
        self,
        name: str = "jobs",
        *,
        fifo: bool | None = None,
        visibility_timeout: float = 30,
        dead_letter_queue: MemoryQueue | None = None,
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
    def operations(self) -> MemoryOperations:
        return self._handle.operations()

    def publish(self, message: Message) -> str:
        return self._handle.publish(message)

    def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        return self._handle.publish_batch(messages)

    def claim(
        self, *, visibility: float | None = None, wait: float = 0, min_priority: int = 0
    ) -> Lease | None:
        leases = self.claim_batch(1, visibility=visibility, wait=wait, min_priority=min_priority)
        return leases[0] if leases else None

    def claim_batch(
        self,
        max_messages: int,
        *,
        visibility: float | None = None,
        wait: float = 0,
        min_priority: int = 0,
    ) -> list[Lease]:
        """Receive up to `max_messages`, ten at a time; only the first receive waits."""
        poll = self._handle.poll(
            max_messages, visibility=visibility, wait=wait, min_priority=min_priority
        )
        changed, clock = poll.place.changed, poll.clock
        with changed:
            leases, again = poll.look()
            if again is None:
                return leases
            with clock.waking(changed.announce):
                # Once more: the clock may have jumped before it knew whom to wake.
                leases, again = poll.look()
                while again is not None:
                    changed.wait(clock.seconds_until(again))
                    leases, again = poll.look()
        return leases

    def ack(self, lease: Lease) -> None:
        self._handle.ack(lease)

    def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
        return self._handle.ack_batch(leases)

    def nack(self, lease: Lease, delay: float = 0) -> None:
        self._handle.nack(lease, delay)

    def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]:
        return self._handle.nack_batch(leases, delay)

    def extend(self, lease: Lease, visibility: float) -> Lease:
        return self._handle.extend(lease, visibility)

    def extend_batch(self, leases: Sequence[Lease], visibility: float) -> list[ExtendResult]:
        return self._handle.extend_batch(leases, visibility)

    def stats(self) -> QueueStats:
        return self._handle.stats()

    def describe(self) -> QueueInfo:
        return self._handle.describe()

    def dead_letter_queue(self) -> MemoryQueue | None:
        redrive = self._handle.place().store.redrive
        if redrive is None:
            return None
        target = redrive.target
        return MemoryQueue(
            target.name, max_message_bytes=target.max_message_bytes, server=self._handle.server
        )

    def close(self) -> None:
        """Do nothing: there is no connection, and what was sent stays on the server."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        self.close()
