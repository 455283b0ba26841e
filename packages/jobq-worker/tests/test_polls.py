"""Receives inside their poll hooks: each is one event, whatever happens."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from working import Lines

from jobq.core import BackendError, JobMiddleware, Lease, Message, Queue
from jobq.core.memory import MemoryQueue
from jobq.core.middleware import hooks_of
from jobq.worker.engine.commands import Receive
from jobq.worker.engine.events import Delivery, Received, ReceiveFailed, ReceiveSkipped
from jobq.worker.polls import Outstanding, Polls, Source, StopFlag


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def claim_batch(self, max_messages: int, **_: Any) -> list[Lease]:
        raise self.error


class Watch(JobMiddleware):
    def __init__(self, poll: Callable[[Any], Any]) -> None:
        self._poll = poll

    def poll(self, call_next: Any) -> Any:
        return self._poll(call_next)


def receive(
    queue: object, hook: Callable[[Any], Any] | None = None, *, stopped: bool = False
) -> Any:
    hooks = hooks_of([Watch(hook)] if hook else [], "poll")
    outstanding = Outstanding(
        examine=lambda queue, lease: Delivery(lease),
        clock=lambda: 0.0,
        stop=StopFlag(requested=stopped),
    )
    polls = Polls({"jobs": Source(queue=cast("Queue", queue), hooks=hooks)}, outstanding)
    events: list[Any] = []
    polls.receive(Receive(7, "jobs", 10, 0, 30), events.append)
    [event] = events
    assert not outstanding.overdue(grace=-1)
    assert event.poll == 7
    return event


def queue_with(count: int) -> MemoryQueue:
    queue = MemoryQueue("jobs")
    for number in range(count):
        queue.publish(Message(str(number)))
    return queue


def test_what_came_is_examined_and_told() -> None:
    event = receive(queue_with(2))
    assert [delivery.lease.body for delivery in event.deliveries] == ["0", "1"]


def test_a_hook_sees_the_queue_and_how_many_came() -> None:
    seen: list[Any] = []

    def hook(call_next: Any) -> Any:
        seen.append(call_next.queue)
        seen.append(call_next())

    assert len(receive(queue_with(2), hook).deliveries) == 2
    assert seen == ["jobs", 2]


def test_a_hook_that_does_not_call_on_skips_the_receive() -> None:
    assert receive(queue_with(1), lambda call_next: 0) == ReceiveSkipped(7)


def test_no_receive_starts_after_a_stop_not_even_from_a_hook_that_waited() -> None:
    queue = queue_with(1)
    counts: list[int] = []
    assert receive(queue, stopped=True) == ReceiveSkipped(7)

    def hook(call_next: Any) -> None:
        counts.append(call_next())

    assert receive(queue, hook, stopped=True) == ReceiveSkipped(7)
    assert counts == [0]
    assert queue.stats().waiting == 1


def test_an_empty_receive_is_no_skipped_one() -> None:
    assert receive(queue_with(0)) == Received(7)


@pytest.mark.parametrize("error", [OSError("broken"), SystemExit(3), KeyboardInterrupt()])
def test_whatever_a_receive_raises_becomes_an_error_worth_another_try(
    error: BaseException,
) -> None:
    event = receive(Failing(error))
    assert isinstance(event, ReceiveFailed)
    assert isinstance(event.error, BackendError)
    assert event.error.retryable
    assert event.error.__cause__ is error
    assert "'jobs'" in str(event.error)


def test_an_error_of_ours_is_passed_on_as_it_is() -> None:
    error = BackendError("no", denied=True)
    assert receive(Failing(error)) == ReceiveFailed(7, error)


def test_a_hook_that_raises_is_a_failed_receive() -> None:
    def hook(call_next: Any) -> Any:
        raise ValueError("bad hook")

    event = receive(queue_with(1), hook)
    assert isinstance(event, ReceiveFailed)
    assert "poll hook" in str(event.error)
    assert "bad hook" in str(event.error)


def test_a_failure_that_a_hook_swallows_is_still_one() -> None:
    def hook(call_next: Any) -> Any:
        try:
            return call_next()
        except OSError:
            return 0

    assert isinstance(receive(Failing(OSError("broken")), hook), ReceiveFailed)


def test_messages_outlive_a_hook_that_raises_after_they_came(lines: Lines) -> None:
    def hook(call_next: Any) -> Any:
        call_next()
        raise ValueError("bad hook")

    assert len(receive(queue_with(2), hook).deliveries) == 2
    assert lines.of("poll_hook_failed")


def test_messages_are_told_before_a_hook_that_lingers_has_ended() -> None:
    told_before: list[int] = []
    events: list[Any] = []

    def linger(call_next: Any) -> Any:
        came = call_next()
        told_before.append(len(events))
        return came

    polls = Polls(
        {"jobs": Source(queue=queue_with(1), hooks=hooks_of([Watch(linger)], "poll"))},
        Outstanding(
            examine=lambda queue, lease: Delivery(lease), clock=lambda: 0.0, stop=StopFlag()
        ),
    )
    polls.receive(Receive(7, "jobs", 10, 0, 30), events.append)
    assert told_before == [1]
    assert len(events) == 1
