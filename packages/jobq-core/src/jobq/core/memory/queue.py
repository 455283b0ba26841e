"""The in-memory queue: a store behind a lock, and a condition to wait on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Self

from jobq.core.errors import ConfigurationError, JobqError
from jobq.core.limits import (
    FIFO,
    LARGEST_BATCH,
    LARGEST_MESSAGE_BYTES,
    STANDARD,
    check_receive,
    check_retry_delay,
    check_visibility,
)
from jobq.core.memory.operations import MemoryOperations
from jobq.core.memory.server import MemoryServer, Place, QueueSpec
from jobq.core.message import (
    ExtendResult,
    Lease,
    Message,
    PublishResult,
    QueueInfo,
    QueueStats,
    SettleResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from jobq.core.memory.clock import Clock
    from jobq.core.message import Capabilities


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
        self._spec = QueueSpec(
            name=f"{name.removesuffix('.fifo')}.fifo" if fifo else name,
            fifo=name.endswith(".fifo") if fifo is None else fifo,
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue.name if dead_letter_queue else None,
            max_receive_count=max_receive_count,
            max_message_bytes=max_message_bytes,
        )
        self._capabilities = replace(
            FIFO if self._spec.fifo else STANDARD, largest_message=max_message_bytes
        )
        self._server = _choose_server(server, dead_letter_queue, clock)
        if not callable(server):
            self._place()

    @property
    def name(self) -> str:
        return self._spec.name

    @property
    def capabilities(self) -> Capabilities:
        """The size limit of a queue that exists is known from the first call that asks its server,
        which is at once unless the server is a callable.
        """
        return self._capabilities

    @property
    def server(self) -> MemoryServer:
        """Where this queue lives: `clock`, and the queues beside it."""
        return self._server()

    @property
    def operations(self) -> MemoryOperations:
        return MemoryOperations(self.server, self._place())

    def publish(self, message: Message) -> str:
        place, clock = self._place(), self.server.clock
        with place.changed:
            message_id = place.store.send(message, now=clock.now(), unix_time=clock.unix_time())
            place.changed.notify_all()
        return message_id

    def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        return [self._publish_one(message) for message in messages]

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
        wait = check_receive(max_messages, wait, min_priority)
        hidden = None if visibility is None else check_visibility(visibility)
        leases: list[Lease] = []
        while (room := min(LARGEST_BATCH, max_messages - len(leases))) > 0:
            got = self._receive(room, visibility=hidden, wait=0 if leases else wait)
            leases += got
            if len(got) < room:
                break
        return leases

    def ack(self, lease: Lease) -> None:
        place = self._place()
        with place.changed:
            place.store.delete(lease.receipt, now=self.server.clock.now())
            # The next of its group may go now.
            place.changed.notify_all()

    def ack_batch(self, leases: Sequence[Lease]) -> list[SettleResult]:
        return [SettleResult(_error_of(self.ack, lease)) for lease in leases]

    def nack(self, lease: Lease, delay: float = 0) -> None:
        self._change_visibility(lease, check_retry_delay(delay))

    def nack_batch(self, leases: Sequence[Lease], delay: float = 0) -> list[SettleResult]:
        check_retry_delay(delay)
        return [SettleResult(_error_of(lambda x: self.nack(x, delay), x)) for x in leases]

    def extend(self, lease: Lease, visibility: float) -> Lease:
        return self._change_visibility(lease, check_visibility(visibility))

    def extend_batch(self, leases: Sequence[Lease], visibility: float) -> list[ExtendResult]:
        seconds = check_visibility(visibility)
        return [self._extend_one(lease, seconds) for lease in leases]

    def stats(self) -> QueueStats:
        place = self._place()
        with place.changed:
            return place.store.stats(now=self.server.clock.now())

    def describe(self) -> QueueInfo:
        store = self._place().store
        return QueueInfo(
            visibility_timeout=store.visibility_timeout,
            max_receive_count=store.redrive.max_receive_count if store.redrive else None,
            dead_letter_queue=store.redrive.target.name if store.redrive else None,
            fifo=store.fifo,
            max_message_bytes=store.max_message_bytes,
        )

    def dead_letter_queue(self) -> MemoryQueue | None:
        redrive = self._place().store.redrive
        if redrive is None:
            return None
        target = redrive.target
        return MemoryQueue(
            target.name, max_message_bytes=target.max_message_bytes, server=self._server
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

    def _place(self) -> Place:
        place = self._server().place(self._spec)
        largest = place.store.max_message_bytes
        if largest != self._capabilities.largest_message:
            self._capabilities = replace(self._capabilities, largest_message=largest)
        return place

    def _receive(self, limit: int, *, visibility: int | None, wait: float) -> list[Lease]:
        place, clock = self._place(), self.server.clock

        def receive() -> list[Lease]:
            leases = place.store.receive(limit, visibility=visibility, now=clock.now())
            if place.dead_letter:
                place.dead_letter.changed.notify_all()
            return leases

        with place.changed:
            until = clock.now() + wait
            leases = receive()
            if leases or not wait:
                return leases
            with clock.waking(lambda: _wake(place)):
                while not (leases := receive()) and clock.now() < until:
                    due = place.store.next_due()
                    moment = until if due is None else min(until, due)
                    place.changed.wait(clock.seconds_until(moment))
            return leases

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
        place = self._place()
        with place.changed:
            now = self.server.clock.now()
            until = place.store.change_visibility(lease.receipt, seconds, now=now)
            # Sooner or later than a poll expected: each works out anew when to look again.
            place.changed.notify_all()
        return replace(lease, expires_at=until)


def _wake(place: Place) -> None:
    with place.changed:
        place.changed.notify_all()


def _error_of(settle: Callable[[Lease], None], lease: Lease) -> JobqError | None:
    try:
        settle(lease)
    except JobqError as error:
        return error
    return None


def _choose_server(
    server: MemoryServer | Callable[[], MemoryServer] | None,
    dead_letter_queue: MemoryQueue | None,
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
            "make both queues on one, MemoryQueue(…, server=server)"
        )
    if clock and chosen.clock is not clock:
        raise ConfigurationError(
            "a queue lives by its server's clock: give the clock to the server, or to the "
            "dead-letter queue where there is one"
        )
    return lambda: chosen
