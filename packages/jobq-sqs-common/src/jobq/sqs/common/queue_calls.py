"""Every operation of one queue as a flow; the twins, blocking and awaited, hold only the IO."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from jobq.core import JobqError, limits
from jobq.sqs.common import (
    addresses,
    inspecting,
    receiving,
    replies,
    requests,
    sending,
    settling,
)
from jobq.sqs.common.addresses import Address
from jobq.sqs.common.receiving import Attempts
from jobq.sqs.common.sending import Outgoing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    from jobq.sqs.common.calls import Flow


def new_id() -> str:
    return str(uuid4())


class QueueCalls:
    """One queue, by URL or by a name that is looked up on first use.

    `clock` dates leases (seconds), `jitter` draws 0 to 1, `new_id` makes ids of up to 128
    characters, `attempts()` says how often a send is tried. Arguments are checked when a method is
    called, before its flow is driven. Raises `ConfigurationError` for a queue of the other kind.
    """

    def __init__(
        self,
        name_or_url: str,
        *,
        capabilities: Capabilities,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        addresses.check_kind(name_or_url, fifo=capabilities.ordered)
        self.address = Address(name_or_url)
        self.capabilities = capabilities
        self._fifo = capabilities.ordered
        self._clock = clock
        self._jitter = jitter
        self._new_id = new_id
        self._attempts = Attempts(new_id=new_id) if self._fifo else None
        self._visibility: int | None = None

    def publish(self, message: Message, *, attempts: Callable[[], int]) -> Flow[str]:
        entry, _ = self._entry(message)
        return sending.publish(self.address, entry, attempts=attempts, jitter=self._jitter)

    def publish_batch(
        self, messages: Sequence[Message], *, attempts: Callable[[], int]
    ) -> Flow[list[PublishResult]]:
        outgoing = [self._outgoing(message) for message in messages]
        return sending.publish_batch(self.address, outgoing, attempts=attempts, jitter=self._jitter)

    def claim(
        self, max_messages: int, *, visibility: float | None, wait: float, min_priority: int
    ) -> Flow[list[Lease]]:
        seconds = None if visibility is None else limits.check_visibility(visibility)
        return self._claim(
            max_messages, seconds, limits.check_receive(max_messages, wait, min_priority)
        )

    def ack(self, lease: Lease) -> Flow[None]:
        return settling.ack(self.address, lease)

    def ack_batch(self, leases: Sequence[Lease]) -> Flow[list[SettleResult]]:
        return settling.ack_batch(self.address, leases)

    def nack(self, lease: Lease, delay: float) -> Flow[None]:
        return settling.nack(self.address, lease, limits.check_retry_delay(delay))

    def nack_batch(self, leases: Sequence[Lease], delay: float) -> Flow[list[SettleResult]]:
        return settling.nack_batch(self.address, leases, limits.check_retry_delay(delay))

    def extend(self, lease: Lease, visibility: float) -> Flow[Lease]:
        seconds = limits.check_visibility(visibility)
        return settling.extend(self.address, lease, seconds, clock=self._clock)

    def extend_batch(self, leases: Sequence[Lease], visibility: float) -> Flow[list[ExtendResult]]:
        seconds = limits.check_visibility(visibility)
        return settling.extend_batch(self.address, leases, seconds, clock=self._clock)

    def stats(self) -> Flow[QueueStats]:
        return replies.stats((yield from inspecting.settings(self.address)))

    def describe(self) -> Flow[QueueInfo]:
        info = replies.info((yield from inspecting.settings(self.address)), fifo=self._fifo)
        # From now on the queue's own limit is known: propagation is shed to meet it, and what is
        # over it all the same refused before a call.
        largest = min(info.max_message_bytes, limits.LARGEST_MESSAGE_BYTES)
        self.capabilities = replace(self.capabilities, largest_message=largest)
        return info

    def _claim(self, max_messages: int, visibility: int | None, wait: int) -> Flow[list[Lease]]:
        if visibility is None:
            if self._visibility is None:
                self._visibility = yield from inspecting.visibility(self.address)
            visibility = self._visibility
        return (
            yield from receiving.claim(
                self.address,
                max_messages=max_messages,
                visibility=visibility,
                wait=wait,
                attempts=self._attempts,
                clock=self._clock,
            )
        )

    def _entry(self, message: Message) -> tuple[dict[str, object], int]:
        return requests.entry_of(
            message,
            fifo=self._fifo,
            new_id=self._new_id(),
            max_bytes=self.capabilities.largest_message,
        )

    def _outgoing(self, message: Message) -> Outgoing:
        group = message.group_id if self._fifo else None
        try:
            entry, size = self._entry(message)
        except JobqError as error:
            return Outgoing(group=group, error=error)
        return Outgoing(entry=entry, size=size, group=group)
