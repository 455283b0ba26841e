"""The awaited queue that both backends are: flows, driven over a connection."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from jobq.core import clock
from jobq.sqs.common import calls, creating, inspecting
from jobq.sqs.common.aio.connection import connect
from jobq.sqs.common.aio.operations import AsyncSqsOperations
from jobq.sqs.common.queue_calls import QueueCalls, new_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from jobq.core import (
        Capabilities,
        ExtendResult,
        Lease,
        Message,
        PublishResult,
        QueueInfo,
        QueueStats,
        SettleResult,
    )
    from jobq.core.interfaces import ConnectionInfo
    from jobq.sqs.common.calls import Call, Flow
    from jobq.sqs.common.sdk import Sdk

T = TypeVar("T")


class AsyncSqsQueue:
    """An SQS queue, by URL, or by a name that is looked up on first use.

    `client` is an aioboto3 SQS client that was entered, or a callable that returns an async context
    manager of one, such as `lambda: session.client("sqs")`. Without one the queue opens its own,
    with its first call, from `endpoint_url`, `region_name` and boto3's own configuration.
    `close()` closes what the queue opened. Raises `ConfigurationError` for a queue of the other
    kind.

    Implements `jobq.core.AsyncQueue`. It belongs to the loop that runs where it is made, else to
    that of its first call, and refuses any other with a `ConfigurationError`. A send over a client
    that jobq opened is tried up to three times where the error is retryable; a client that was
    handed in keeps its own retries. Settling calls are tried once.

    A receive that is cancelled may lose its reply: what SQS gave by then stays hidden until its
    visibility timeout is over, or, on FIFO, comes with the next claim.
    """

    _capabilities: ClassVar[Capabilities]
    _sdk: ClassVar[Sdk]

    def __init__(
        self,
        queue_url: str,
        *,
        client: Any = None,
        endpoint_url: str | None = None,
        region_name: str | None = None,
    ) -> None:
        self._connection = connect(
            self._sdk, client, endpoint_url=endpoint_url, region_name=region_name
        )
        self._calls = QueueCalls(
            queue_url,
            capabilities=self._capabilities,
            clock=clock.now,
            jitter=random.random,
            new_id=new_id,
        )
        self._looking_up: asyncio.Event | None = None

    @classmethod
    async def create(
        cls,
        name: str,
        *,
        client: Any = None,
        endpoint_url: str | None = None,
        region_name: str | None = None,
        visibility_timeout: float | None = None,
        dead_letter_queue: AsyncSqsQueue | str | None = None,
        max_receive_count: int | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Self:
        """Make the queue if there is none of that name; an existing one stays as it is.

        `.fifo` is added to a FIFO queue's name. `dead_letter_queue` is a queue, a name, a URL or an
        ARN and goes with `max_receive_count` (1 to 1,000); `attributes` are CreateQueue's own.
        Waits up to 30 s for an endpoint that doesn't answer yet, then raises `BackendError`.
        """
        if isinstance(dead_letter_queue, AsyncSqsQueue):
            dead_letter_queue = await dead_letter_queue.arn()
        wanted = creating.plan(
            name,
            fifo=cls._capabilities.ordered,
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue,
            max_receive_count=max_receive_count,
            attributes=attributes,
        )
        connection = connect(cls._sdk, client, endpoint_url=endpoint_url, region_name=region_name)
        try:
            flow = creating.create(wanted, clock=clock.now)
            url = await calls.adrive(flow, send=connection.send, sleep=asyncio.sleep)
        except BaseException:
            await connection.close()
            raise
        return cls(url, client=connection)

    @property
    def name(self) -> str:
        return self._calls.address.name

    @property
    def capabilities(self) -> Capabilities:
        return self._calls.capabilities

    @property
    def operations(self) -> AsyncSqsOperations:
        return AsyncSqsOperations(self._calls.address, run=self._run)

    async def connection(self) -> ConnectionInfo:
        """The client behind this queue and its limits; makes the client, without a request."""
        return await self._connection.info()

    async def publish(self, message: Message) -> str:
        return await self._run(self._calls.publish(message, attempts=self._connection.attempts))

    async def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        return await self._run(
            self._calls.publish_batch(messages, attempts=self._connection.attempts)
        )

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
        """Receive up to `max_messages`, ten to a request; `wait` is 0 to 20 s, SQS's long poll."""
        return await self._run(
            self._calls.claim(
                max_messages, visibility=visibility, wait=wait, min_priority=min_priority
            )
        )

    async def ack(self, lease: Lease) -> None:
        await self._run(self._calls.ack(lease))

    async def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
        return await self._run(self._calls.ack_batch(leases))

    async def nack(self, lease: Lease, delay: float = 0) -> None:
        await self._run(self._calls.nack(lease, delay))

    async def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]:
        return await self._run(self._calls.nack_batch(leases, delay))

    async def extend(self, lease: Lease, visibility: float) -> Lease:
        return await self._run(self._calls.extend(lease, visibility))

    async def extend_batch(self, leases: Sequence[Lease], visibility: float) -> list[ExtendResult]:
        return await self._run(self._calls.extend_batch(leases, visibility))

    async def stats(self) -> QueueStats:
        return await self._run(self._calls.stats())

    async def describe(self) -> QueueInfo:
        """The queue's settings; from then on its own size limit counts for what is sent here."""
        return await self._run(self._calls.describe())

    async def arn(self) -> str:
        return await self._run(inspecting.arn_of(self._calls.address))

    async def dead_letter_queue(self) -> Self | None:
        """The queue that the redrive policy names, over this queue's client."""
        url = await self._run(inspecting.dead_letter_url(self._calls.address))
        return type(self)(url, client=self._connection.source) if url else None

    async def close(self) -> None:
        """Close the client, if this queue made it."""
        await self._connection.close()

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

    async def _run(self, flow: Flow[T]) -> T:
        return await calls.adrive(flow, send=self._send, sleep=asyncio.sleep)

    async def _send(self, call: Call) -> dict[str, Any]:
        address = self._calls.address
        if not address.asks(call):
            return await self._connection.send(call)
        # All tasks that meet a new queue at once wait for one of them to look it up.
        if self._looking_up is not None:
            await self._looking_up.wait()
            return address.reply or await self._connection.send(call)
        self._looking_up = found = asyncio.Event()
        try:
            return await self._connection.send(call)
        finally:
            self._looking_up = None
            found.set()
