"""What the suite's tests work with: queues, messages and time, alike for every backend."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from jobq.core.message import Lease, Message

if TYPE_CHECKING:
    from jobq.core.interfaces.queue import Queue
    from jobq.core.testing.conformance.timeline import Timeline

T = TypeVar("T")


class MakeQueue(Protocol):
    """Makes a new, empty queue of the suite's kind on the backend under test."""

    def __call__(
        self,
        *,
        visibility_timeout: int = 30,
        dead_letter_queue: Queue | None = None,
        max_receive_count: int | None = None,
    ) -> Queue: ...


class LongPoll:
    """A receive that waits in a thread of its own."""

    def __init__(self, queue: Queue, wait: float) -> None:
        self._future: Future[Lease | None] = Future()
        threading.Thread(target=self._run, args=(queue, wait), daemon=True).start()

    @property
    def waits(self) -> bool:
        return not self._future.done()

    def result(self, within: float = 1) -> Lease | None:
        """What it brought; `TimeoutError` unless it ends in `within` real seconds."""
        return self._future.result(within)

    def _run(self, queue: Queue, wait: float) -> None:
        try:
            self._future.set_result(queue.claim(wait=wait))
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            self._future.set_exception(error)


class Bench:
    """One test's queues, messages and time."""

    def __init__(self, *, fifo: bool, make_queue: MakeQueue, timeline: Timeline) -> None:
        self.fifo = fifo
        self.make_queue = make_queue
        self.timeline = timeline
        self._groups = count(1)

    def message(self, body: str = "hello", **options: Any) -> Message:
        """A message in a group of its own on FIFO, and in none elsewhere."""
        if self.fifo:
            options.setdefault("group_id", f"group-{next(self._groups)}")
        return Message(body, **options)

    def messages(self, number: int, **options: Any) -> list[Message]:
        """Messages with the bodies `"0"`, `"1"` and so on."""
        return [self.message(str(position), **options) for position in range(number)]

    def send(self, queue: Queue, number: int, **options: Any) -> list[str]:
        """Send that many messages; returns their ids in order."""
        results = queue.publish_batch(self.messages(number, **options))
        return [succeeded(result.message_id) for result in results]

    def receive(
        self, queue: Queue, number: int = 1, *, visibility: float | None = None, within: float = 4
    ) -> list[Lease]:
        """That many messages, by as many receives as it takes, in about `within` seconds."""
        leases: list[Lease] = []
        for _ in range(math.ceil(within) + number):
            leases += queue.claim_batch(
                number - len(leases), visibility=visibility, wait=self.timeline.poll_seconds
            )
            if len(leases) >= number:
                return leases
            if self.timeline.travels:
                self.timeline.sleep(1)
        raise AssertionError(f"received {len(leases)} of {number} messages")

    def receive_one(self, queue: Queue, *, visibility: float | None = None) -> Lease:
        return self.receive(queue, visibility=visibility)[0]

    def poll(self, queue: Queue, *, wait: float) -> LongPoll:
        """A long poll that is out when this returns."""
        poll = LongPoll(queue, wait)
        self.timeline.until_polling()
        return poll

    def settles_at(self, expected: T, read: Callable[[], T]) -> None:
        """Assert that `read()` comes to be `expected` within about 3 s: numbers are estimates."""
        for _ in range(15):
            if read() == expected:
                return
            self.timeline.sleep(0.2)
        assert read() == expected


def succeeded(value: T | None) -> T:
    """The value that a successful call returned."""
    assert value is not None
    return value


def bodies(leases: list[Lease]) -> list[str]:
    return [lease.body for lease in leases]
