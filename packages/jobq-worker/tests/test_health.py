"""When the health file is touched, and when it isn't."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import pytest
from working import QUICK, Lines, Serving, group_of, until

from jobq.core import BackendError, JobMiddleware, Lease, Queue, QueueGroup
from jobq.core.memory import MemoryQueue
from jobq.core.middleware import hooks_of
from jobq.worker import Worker
from jobq.worker.engine.commands import Receive
from jobq.worker.engine.events import Delivery
from jobq.worker.polls import Outstanding, Polls, Source, StopFlag

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

# --- a poll that is overdue ---


class Clocked:
    """A receive of 20 s on a clock that its queue and its hook move."""

    def __init__(self, *, timeout: float | None = None, hook: JobMiddleware | None = None) -> None:
        self.now = 100.0
        self.overdue_after: Callable[[float], bool] = self._overdue_after
        self.seen: list[bool] = []
        self.outstanding = Outstanding(
            examine=lambda queue, lease: Delivery(lease),
            clock=lambda: self.now,
            stop=StopFlag(),
        )
        self.polls = Polls(
            {
                "jobs": Source(
                    queue=cast("Queue", self),
                    hooks=hooks_of([hook] if hook else [], "poll"),
                    timeout=timeout,
                )
            },
            self.outstanding,
        )

    def _overdue_after(self, seconds: float) -> bool:
        self.now += seconds
        return self.outstanding.overdue(grace=5)

    def claim_batch(self, max_messages: int, **_: Any) -> list[Lease]:
        self.seen = [self.overdue_after(seconds) for seconds in (20, 5, 0.1)]
        raise BackendError("no answer", retryable=True)

    def receive(self) -> list[bool]:
        self.polls.receive(Receive(1, "jobs", 10, 20, 30), lambda answer: None)
        return self.seen


def test_a_poll_is_overdue_five_seconds_after_the_wait_that_it_asked_for() -> None:
    clocked = Clocked()
    assert clocked.receive() == [False, False, True]
    assert not clocked.outstanding.overdue(grace=5), "it has been answered"


def test_where_the_clients_timeout_is_known_that_counts() -> None:
    clocked = Clocked(timeout=30)
    clocked.now -= 10
    assert clocked.receive() == [False, False, False]
    assert Clocked(timeout=19).receive() == [False, False, True]


def test_a_poll_whose_hook_waits_is_not_overdue() -> None:
    class Waits(JobMiddleware):
        def poll(self, call_next: Any) -> Any:
            late.append(clocked.overdue_after(1000))
            return call_next()

    late: list[bool] = []
    clocked = Clocked(hook=Waits())
    assert clocked.receive() == [False, False, True]
    assert late == [False]


# --- a whole worker ---


class Broken(MemoryQueue):
    def claim_batch(self, max_messages: int, **_: Any) -> list[Lease]:
        raise BackendError("try again", retryable=True)


class Paused(JobMiddleware):
    def poll(self, call_next: Any) -> None: ...


class Watched:
    def __init__(self, serving: Serving, path: Path) -> None:
        self.serving = serving
        self._path = path

    def touched(self) -> bool:
        """Whether the file is touched from now on, as it is every 20 ms."""
        self._path.unlink(missing_ok=True)
        time.sleep(0.05)
        self._path.unlink(missing_ok=True)
        time.sleep(0.2)
        return self._path.exists()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: Lines) -> Callable[..., Any]:
    monkeypatch.setattr("jobq.worker.health.EVERY_SECONDS", 0.02)
    path = tmp_path / "healthy"

    @contextmanager
    def watch(queues: QueueGroup, handler: Any = print, **options: Any) -> Generator[Watched]:
        worker = Worker(queues, {"a": handler}, health_file=path, **QUICK, **options)
        served = Serving(worker)
        try:
            until(lambda: lines.of("worker_started"))
            yield Watched(served, path)
        finally:
            served.stop()
            served.join()

    return watch


def test_a_worker_that_is_busy_or_draining_is_well(watched: Any, lines: Lines) -> None:
    queues, release = group_of(MemoryQueue("jobs")), threading.Event()
    queues.enqueue("jobs", "a")

    def handler(payload: Any) -> None:
        release.wait(10)

    with watched(queues, handler) as worker:
        until(lambda: lines.of("job_started"))
        assert worker.touched()
        worker.serving.stop()
        until(lambda: lines.of("worker_stopping"))
        assert worker.touched()
        release.set()


def test_a_worker_that_is_paused_is_well(watched: Any) -> None:
    with watched(group_of(MemoryQueue("jobs"), middleware=[Paused()])) as worker:
        assert worker.touched()


def test_a_worker_that_backs_off_is_well(watched: Any, lines: Lines) -> None:
    with watched(group_of(Broken("jobs"))) as worker:
        until(lambda: lines.of("receive_failed"))
        assert worker.touched()


@pytest.mark.parametrize("cap", [None, 1])
def test_a_worker_whose_every_slot_is_held_past_its_runtime_is_not_well(
    watched: Any, lines: Lines, cap: int | None
) -> None:
    release, queue = threading.Event(), MemoryQueue("jobs")
    definition = {"queue": queue, "max_runtime_seconds": 0.3, "concurrency": cap}
    queues = QueueGroup({"jobs": definition})

    def handler(payload: Any) -> None:
        release.wait(10)

    with watched(queues, handler, concurrency=2) as worker:
        queues.enqueue("jobs", "a")
        if cap is None:
            until(lambda: lines.of("lease_lost"))
            assert worker.touched(), "another slot is free"
            queues.enqueue("jobs", "a")
        until(lambda: len(lines.of("lease_lost")) == 2 - (cap or 0))
        assert not worker.touched()
        release.set()
        until(worker.touched)


def test_a_worker_whose_poll_is_overdue_is_not_well(
    watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobq.worker.session.POLL_GRACE_SECONDS", -60)
    with watched(group_of(MemoryQueue("jobs"))) as worker:
        assert not worker.touched()


def test_a_worker_whose_runner_stands_still_is_not_well(
    watched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobq.worker.session.STILL_SECONDS", 0)
    with watched(group_of(MemoryQueue("jobs"))) as worker:
        assert not worker.touched()
