"""The blocking queue that both backends are: flows, driven over a connection."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from jobq.core import clock
from jobq.sqs.common import calls, creating, inspecting
from jobq.sqs.common.connection import connect
from jobq.sqs.common.operations import SqsOperations
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
    from jobq.sqs.common.calls import Flow
    from jobq.sqs.common.sdk import Sdk

T = TypeVar("T")


class SqsQueue:
    """An SQS queue, by URL, or by a name that is looked up on first use.

    `client` is a boto3 SQS client, or a callable that makes one. Without one the queue makes its
    own with its first call, from `endpoint_url`, `region_name` and boto3's own configuration, and
    `close()` closes it. Either way one is made once per process, and anew only while no credentials
    were found. Raises `ConfigurationError` for a queue of the other kind.

    Implements `jobq.core.Queue`; safe to use from several threads. A send over a client that jobq
    made is tried up to three times where the error is retryable; a client that was handed in keeps
    its own retries. Settling calls are tried once.
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

    @classmethod
    def create(
        cls,
        name: str,
        *,
        client: Any = None,
        endpoint_url: str | None = None,
        region_name: str | None = None,
        visibility_timeout: float | None = None,
        dead_letter_queue: SqsQueue | str | None = None,
        max_receive_count: int | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Self:
        """Make the queue if there is none of that name; an existing one stays as it is.

        `.fifo` is added to a FIFO queue's name. `dead_letter_queue` is a queue, a name, a URL or an
        ARN and goes with `max_receive_count` (1 to 1,000); `attributes` are CreateQueue's own.
        Waits up to 30 s for an endpoint that doesn't answer yet, then raises `BackendError`.
        """
        if isinstance(dead_letter_queue, SqsQueue):
            dead_letter_queue = dead_letter_queue.arn()
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
            url = calls.drive(flow, send=connection.send, sleep=time.sleep)
        except BaseException:
            connection.close()
            raise
        return cls(url, client=connection)

    @property
    def name(self) -> str:
        return self._calls.address.name

    @property
    def capabilities(self) -> Capabilities:
        return self._calls.capabilities

    @property
    def operations(self) -> SqsOperations:
        return SqsOperations(self._calls.address, run=self._run)

    def connection(self) -> ConnectionInfo:
        """The client behind this queue and its limits; makes the client, without a request."""
        return self._connection.info()

    def publish(self, message: Message) -> str:
        return self._run(self._calls.publish(message, attempts=self._connection.attempts))

    def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        return self._run(self._calls.publish_batch(messages, attempts=self._connection.attempts))

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
        """Receive up to `max_messages`, ten to a request; `wait` is 0 to 20 s, SQS's long poll."""
        return self._run(
            self._calls.claim(
                max_messages, visibility=visibility, wait=wait, min_priority=min_priority
            )
        )

    def ack(self, lease: Lease) -> None:
        self._run(self._calls.ack(lease))

    def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
        return self._run(self._calls.ack_batch(leases))

    def nack(self, lease: Lease, delay: float = 0) -> None:
        self._run(self._calls.nack(lease, delay))

    def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]:
        return self._run(self._calls.nack_batch(leases, delay))

    def extend(self, lease: Lease, visibility: float) -> Lease:
        return self._run(self._calls.extend(lease, visibility))

    def extend_batch(self, leases: Sequence[Lease], visibility: float) -> list[ExtendResult]:
        return self._run(self._calls.extend_batch(leases, visibility))

    def stats(self) -> QueueStats:
        return self._run(self._calls.stats())

    def describe(self) -> QueueInfo:
        """The queue's settings; from then on its own size limit counts for what is sent here."""
        return self._run(self._calls.describe())

    def arn(self) -> str:
        return self._run(inspecting.arn_of(self._calls.address))

    def dead_letter_queue(self) -> Self | None:
        """The queue that the redrive policy names, over this queue's client."""
        url = self._run(inspecting.dead_letter_url(self._calls.address))
        return type(self)(url, client=self._connection.source) if url else None

    def close(self) -> None:
        """Close the client, if this queue made it."""
        self._connection.close()

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

    def _run(self, flow: Flow[T]) -> T:
        return calls.drive(flow, send=self._connection.send, sleep=time.sleep)
