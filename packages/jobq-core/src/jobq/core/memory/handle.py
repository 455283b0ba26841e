"""All that an in-memory queue does without waiting, for its sync and its async class."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobq.core.errors import ConfigurationError, JobqError
from jobq.core.limits import FIFO, STANDARD, check_receive, check_retry_delay, check_visibility
from jobq.core.memory.operations import MemoryOperations
from jobq.core.memory.polls import Poll
from jobq.core.memory.server import MemoryServer, QueueSpec
from jobq.core.message import ExtendResult, PublishResult, QueueInfo, SettleResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobq.core.memory.aio import AsyncMemoryQueue
    from jobq.core.memory.clock import Clock
    from jobq.core.memory.queue import MemoryQueue
    from jobq.core.memory.server import Place
    from jobq.core.message import Capabilities, Lease, Message, QueueStats


class Handle:
    """A hold on one queue of a server, made there with the first call unless it exists.

    `server` may be a callable that returns one, asked at each call; None is that of
    `dead_letter_queue`, or a new one on `clock`. Raises `ConfigurationError`.
    """

    def __init__(
        self,
        name: str,
        *,
        fifo: bool | None,
        visibility_timeout: float,
        dead_letter_queue: MemoryQueue | AsyncMemoryQueue | None,
        max_receive_count: int | None,
        max_message_bytes: int,
        clock: Clock | None,
        server: MemoryServer | Callable[[], MemoryServer] | None,
    ) -> None:
        self.spec = QueueSpec(
            name=f"{name.removesuffix('.fifo')}.fifo" if fifo else name,
            fifo=name.endswith(".fifo") if fifo is None else fifo,
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue.name if dead_letter_queue else None,
            max_receive_count=max_receive_count,
            max_message_bytes=max_message_bytes,
        )
        self.capabilities: Capabilities = replace(
            FIFO if self.spec.fifo else STANDARD, largest_message=max_message_bytes
        )
        self.server = _choose_server(server, dead_letter_queue, clock)
        if not callable(server):
            self.place()

    def place(self) -> Place:
        place = self.server().place(self.spec)
        largest = place.store.max_message_bytes
        if largest != self.capabilities.largest_message:
            self.capabilities = replace(self.capabilities, largest_message=largest)
        return place

    def operations(self) -> MemoryOperations:
        return MemoryOperations(self.server(), self.place())

    def publish(self, message: Message) -> str:
        place, clock = self.place(), self.server().clock
        with place.changed:
            message_id = place.store.send(message, now=clock.now(), unix_time=clock.unix_time())
            place.changed.announce()
        return message_id

    def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        return [self._publish_one(message) for message in messages]

    def poll(
        self, max_messages: int, *, visibility: float | None, wait: float, min_priority: int
    ) -> Poll:
        wait = check_receive(max_messages, wait, min_priority)
        clock = self.server().clock
        return Poll(
            place=self.place(),
            clock=clock,
            limit=max_messages,
            visibility=None if visibility is None else check_visibility(visibility),
            until=clock.now() + wait,
        )

    def ack(self, lease: Lease) -> None:
        place = self.place()
        with place.changed:
            place.store.delete(lease.receipt, now=self.server().clock.now())
            # The next of its group may go now.
            place.changed.announce()

    def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
        return [SettleResult(_error_of(self.ack, lease)) for lease in leases]

    def nack(self, lease: Lease, delay: float) -> None:
        self._change_visibility(lease, check_retry_delay(delay))

    def nack_batch(self, leases: Sequence[Lease], delay: float) -> list[SettleResult]:
        check_retry_delay(delay)
        return [SettleResult(_error_of(lambda x: self.nack(x, delay), x)) for x in leases]

    def extend(self, lease: Lease, visibility: float) -> Lease:
        return self._change_visibility(lease, check_visibility(visibility))

    def extend_batch(self, leases: Sequence[Lease], visibility: float) -> list[ExtendResult]:
        seconds = check_visibility(visibility)
        return [self._extend_one(lease, seconds) for lease in leases]

    def stats(self) -> QueueStats:
        place = self.place()
        with place.changed:
            return place.store.stats(now=self.server().clock.now())

    def describe(self) -> QueueInfo:
        store = self.place().store
        return QueueInfo(
            visibility_timeout=store.visibility_timeout,
            max_receive_count=store.redrive.max_receive_count if store.redrive else None,
            dead_letter_queue=store.redrive.target.name if store.redrive else None,
            fifo=store.fifo,
            max_message_bytes=store.max_message_bytes,
        )

    def _publish_one(self, message: Message) -> PublishResult:
        try:
            return PublishResult(self.publish(message))
        except JobqError as error:
            return PublishResult(error=error)

    def _extend_one(self, lease: Lease, seconds: int) -> ExtendResult:
        try:
            return ExtendResult(self._change_visibility(lease, seconds))
        except JobqError as error:
            return ExtendResult(error=error)

    def _change_visibility(self, lease: Lease, seconds: int) -> Lease:
        place = self.place()
        with place.changed:
            now = self.server().clock.now()
            until = place.store.change_visibility(lease.receipt, seconds, now=now)
            # Sooner or later than a poll expected: each works out anew when to look again.
            place.changed.announce()
        return replace(lease, expires_at=until)


def _error_of(settle: Callable[[Lease], None], lease: Lease) -> JobqError | None:
    try:
        settle(lease)
    except JobqError as error:
        return error
    return None


def _choose_server(
    server: MemoryServer | Callable[[], MemoryServer] | None,
    dead_letter_queue: MemoryQueue | AsyncMemoryQueue | None,
    clock: Clock | None,
) -> Callable[[], MemoryServer]:
    if server is None:
        chosen = dead_letter_queue.server if dead_letter_queue else MemoryServer(clock=clock)
    elif callable(server):
        return server
    else:
        chosen = server
    if dead_letter_queue and dead_letter_queue.server is not chosen:
        raise ConfigurationError(
            f"dead_letter_queue {dead_letter_queue.name!r} is on another server: "
            "make both queues on one, with server=server"
        )
    if clock and chosen.clock is not clock:
        raise ConfigurationError(
            "a queue lives by its server's clock: give the clock to the server, or to the "
            "dead-letter queue where there is one"
        )
    return lambda: chosen
