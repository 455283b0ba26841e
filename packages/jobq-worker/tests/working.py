"""What the tests of a running worker share."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jobq.core import AsyncQueueGroup, Lease, QueueGroup
from jobq.core.memory import AsyncMemoryQueue, MemoryQueue
from jobq.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from jobq.core import JobMiddleware

QUICK: Any = {"idle_wait_seconds": 1, "shutdown_timeout": 10}
"""Options that let a worker stop within a second."""


class Lines(list[Any]):
    """All lines that were logged, with the fields that were bound where each was written."""

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self if line["event"] == event]


def until(true: Callable[[], object], *, seconds: float = 10) -> None:
    """Wait until `true()`, and fail after so many seconds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"not true within {seconds} s"
        time.sleep(0.005)


def group_of(*queues: MemoryQueue, middleware: Sequence[JobMiddleware] = ()) -> QueueGroup:
    """A group whose names are those of the queues."""
    return QueueGroup({queue.name: {"queue": queue} for queue in queues}, middleware)


def lease(body: str = "{}", **fields: Any) -> Lease:
    given: dict[str, Any] = {
        "message_id": "m-1",
        "attributes": {},
        "receipt": "r-1",
        "receive_count": 1,
        "sent_at": 0.0,
        "expires_at": 1e12,
    }
    return Lease(body=body, **{**given, **fields})


class Serving:
    """A worker that runs in a thread; `code` is 0 once it returned, or that of its SystemExit."""

    def __init__(self, worker: Worker, **arguments: Any) -> None:
        self.code: object = None
        self.error: BaseException | None = None
        self._worker = worker
        self._arguments = arguments
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self._worker.stop()

    def join(self, *, seconds: float = 15) -> None:
        self.thread.join(seconds)
        assert not self.thread.is_alive(), f"the worker runs for {seconds} s more"

    def _run(self) -> None:
        try:
            self._worker.run(**self._arguments)
            self.code = 0
        except SystemExit as ended:
            self.code = ended.code
        except Exception as error:  # noqa: BLE001
            self.error = error


@contextmanager
def serving(worker: Worker) -> Generator[Serving]:
    """Run a worker in a thread while the block lasts, then stop it and see that it ends."""
    served = Serving(worker)
    try:
        yield served
    finally:
        served.stop()
        served.join()


def last_line(lines: Lines) -> dict[str, Any]:
    (line,) = lines.of("worker_stopped")
    classes = ("started", "refused", "taken_over", "given_back", "left")
    assert line["received"] == sum(line[one] for one in classes)
    return line


def own_loops() -> set[str]:
    """The loops of workers that are there."""
    return {one.name for one in threading.enumerate() if one.name.endswith("-loop")}


def async_group_of(
    *queues: AsyncMemoryQueue, middleware: Sequence[JobMiddleware] = (), **definition: Any
) -> AsyncQueueGroup:
    return AsyncQueueGroup(
        {queue.name: {"queue": queue, **definition} for queue in queues}, middleware
    )
