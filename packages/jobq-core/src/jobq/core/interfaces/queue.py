"""A queue, sync and async, as every backend offers it.

Seconds are int or float and are rounded up to what the service takes. Batch calls take any number
of items, split them, raise for no single entry, and return one result per item in input order.
Every call raises `BackendError` where the service can't be asked at all.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from jobq.core.interfaces.operations import AsyncQueueOperations, QueueOperations
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionInfo:
    """The limits of the client behind a queue; queues with an equal `client` share them.

    `max_connections` is the size of its pool, `read_timeout` in seconds; None where unknown.
    """

    client: Hashable
    max_connections: int | None = None
    read_timeout: float | None = None


@runtime_checkable
class Connected(Protocol):
    """A queue that talks over a client with limits."""

    def connection(self) -> ConnectionInfo: ...


@runtime_checkable
class AsyncConnected(Protocol):
    """The awaited twin of `Connected`."""

    async def connection(self) -> ConnectionInfo: ...


class Queue(Protocol):
    """A queue of one kind, over blocking calls; safe to use from several threads."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def operations(self) -> QueueOperations | None:
        """What an operator can do here, or None."""
        ...

    def publish(self, message: Message) -> str:
        """Send one message; returns its id.

        Raises `InvalidMessageError`, `MessageTooLargeError`, `UnsupportedFeatureError` or
        `DelayTooLongError` before any call, `BackendError` after one.
        """
        ...

    def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]: ...

    def claim(
        self, *, visibility: float | None = None, wait: float = 0, min_priority: int = 0
    ) -> Lease | None:
        """Receive one message, waiting up to `wait` seconds for it.

        It stays invisible for `visibility` seconds; None leaves it to the queue's own setting.
        """
        ...

    def claim_batch(
        self,
        max_messages: int,
        *,
        visibility: float | None = None,
        wait: float = 0,
        min_priority: int = 0,
    ) -> list[Lease]: ...

    def ack(self, lease: Lease) -> None:
        """Delete the message. Raises `LeaseLostError` where the receipt is refused."""
        ...

    def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]: ...

    def nack(self, lease: Lease, delay: float = 0) -> None:
        """Make the message visible again in `delay` seconds. Raises `LeaseLostError`."""
        ...

    def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]: ...

    def extend(self, lease: Lease, visibility: float) -> Lease:
        """Keep the message invisible for `visibility` seconds from now. Raises `LeaseLostError`."""
        ...

    def extend_batch(self, leases: Sequence[Lease], visibility: float) -> list[ExtendResult]: ...

    def stats(self) -> QueueStats: ...

    def describe(self) -> QueueInfo: ...

    def dead_letter_queue(self) -> Queue | None:
        """The queue that the redrive policy names, or None without a policy."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...


class AsyncQueue(Protocol):
    """The awaited twin of `Queue`, to be used on the loop it was made on."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def operations(self) -> AsyncQueueOperations | None:
        """What an operator can do here, or None."""
        ...

    async def publish(self, message: Message) -> str:
        """Send one message; returns its id.

        Raises `InvalidMessageError`, `MessageTooLargeError`, `UnsupportedFeatureError` or
        `DelayTooLongError` before any call, `BackendError` after one.
        """
        ...

    async def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]: ...

    async def claim(
        self, *, visibility: float | None = None, wait: float = 0, min_priority: int = 0
    ) -> Lease | None:
        """Receive one message, waiting up to `wait` seconds for it.

        It stays invisible for `visibility` seconds; None leaves it to the queue's own setting.
        """
        ...

    async def claim_batch(
        self,
        max_messages: int,
        *,
        visibility: float | None = None,
        wait: float = 0,
        min_priority: int = 0,
    ) -> list[Lease]: ...

    async def ack(self, lease: Lease) -> None:
        """Delete the message. Raises `LeaseLostError` where the receipt is refused."""
        ...

    async def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]: ...

    async def nack(self, lease: Lease, delay: float = 0) -> None:
        """Make the message visible again in `delay` seconds. Raises `LeaseLostError`."""
        ...

    async def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]: ...

    async def extend(self, lease: Lease, visibility: float) -> Lease:
        """Keep the message invisible for `visibility` seconds from now. Raises `LeaseLostError`."""
        ...

    async def extend_batch(
        self, leases: Sequence[Lease], visibility: float
    ) -> list[ExtendResult]: ...

    async def stats(self) -> QueueStats: ...

    async def describe(self) -> QueueInfo: ...

    async def dead_letter_queue(self) -> AsyncQueue | None:
        """The queue that the redrive policy names, or None without a policy."""
        ...

    async def close(self) -> None: ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
