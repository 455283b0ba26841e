"""Receives inside their poll hooks: each is one event, whatever happens."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import copy_context
from inspect import iscoroutinefunction
from typing import Any, cast

import pytest
from working import Lines, until

from jobq.core import AsyncQueue, BackendError, JobMiddleware, Lease, Message, Queue
from jobq.core.memory import MemoryQueue
from jobq.core.middleware import hooks_of
from jobq.worker.engine.commands import Receive
from jobq.worker.engine.events import Delivery, Received, ReceiveFailed, ReceiveSkipped
from jobq.worker.loops import WorkerLoop
from jobq.worker.polls import AsyncPolls, AsyncSource, Outstanding, Polls, Source, StopFlag


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


class AsyncWatch(JobMiddleware):
    def __init__(self, poll: Callable[[Any], Any]) -> None:
        self._poll = poll

    async def poll(self, call_next: Any) -> Any:
        return await self._poll(call_next)


class Awaited:
    """An async queue over a sync one."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    async def claim_batch(self, max_messages: int, **arguments: Any) -> list[Lease]:
        await asyncio.sleep(0)
        return self._queue.claim_batch(max_messages, **arguments)


class Bench:
    """Polls of one queue of either colour, and the events that came of them."""

    def __init__(
        self, colour: str, queue: object, *hooks: Callable[[Any], Any], stopped: bool = False
    ) -> None:
        watches = hooks_of(
            [(AsyncWatch if iscoroutinefunction(hook) else Watch)(hook) for hook in hooks], "poll"
        )
        self.events: list[Any] = []
        self.outstanding = Outstanding(
            examine=lambda queue, lease: Delivery(lease),
            clock=lambda: 0.0,
            stop=StopFlag(requested=stopped),
        )
        polls = Polls({"jobs": Source(queue=cast("Queue", queue), hooks=watches)}, self.outstanding)
        source = AsyncSource(queue=cast("AsyncQueue", Awaited(queue)), hooks=watches)
        self._source = source
        self._polls = polls if colour == "sync" else None

    def receive(self) -> None:
        if self._polls is None:
            asyncio.run(self.receive_async())
        else:
            self._polls.receive(RECEIVE, self.events.append)

    async def receive_async(self) -> None:
        with handlers_loop() as handlers:
            polls = AsyncPolls({"jobs": self._source}, self.outstanding, handlers=handlers)
            await polls.receive(RECEIVE, self.events.append)
            await asyncio.to_thread(until, lambda: self.events)


@contextmanager
def handlers_loop() -> Generator[WorkerLoop]:
    loop = WorkerLoop(name="handlers", context=copy_context())
    yield loop
    loop.close()
    loop.join(seconds=5)


RECEIVE = Receive(7, "jobs", 10, 0, 30)


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def receive(colour: str) -> Callable[..., Any]:
    def receive(queue: object, *hooks: Callable[[Any], Any], stopped: bool = False) -> Any:
        bench = Bench(colour, queue, *hooks, stopped=stopped)
        bench.receive()
        [event] = bench.events
        assert not bench.outstanding.overdue(grace=-1)
        assert event.poll == 7
        return event

    return receive


def queue_with(count: int) -> MemoryQueue:
    queue = MemoryQueue("jobs")
    for number in range(count):
        queue.publish(Message(str(number)))
    return queue


def test_what_came_is_examined_and_told(receive: Any) -> None:
    event = receive(queue_with(2))
    assert [delivery.lease.body for delivery in event.deliveries] == ["0", "1"]


def test_a_hook_sees_the_queue_and_how_many_came(receive: Any) -> None:
    seen: list[Any] = []

    def hook(call_next: Any) -> Any:
        seen.append(call_next.queue)
        seen.append(call_next())

    assert len(receive(queue_with(2), hook).deliveries) == 2
    assert seen == ["jobs", 2]


def test_a_hook_that_does_not_call_on_skips_the_receive(receive: Any) -> None:
    def hook(call_next: Any) -> int:
        return 0

    assert receive(queue_with(1), hook) == ReceiveSkipped(7)


def test_no_receive_starts_after_a_stop_not_even_from_a_hook_that_waited(receive: Any) -> None:
    queue = queue_with(1)
    counts: list[int] = []
    assert receive(queue, stopped=True) == ReceiveSkipped(7)

    def hook(call_next: Any) -> None:
        counts.append(call_next())

    assert receive(queue, hook, stopped=True) == ReceiveSkipped(7)
    assert counts == [0]
    assert queue.stats().waiting == 1


def test_an_empty_receive_is_no_skipped_one(receive: Any) -> None:
    assert receive(queue_with(0)) == Received(7)


@pytest.mark.parametrize("error", [OSError("broken"), SystemExit(3), KeyboardInterrupt()])
def test_whatever_a_receive_raises_becomes_an_error_worth_another_try(
    receive: Any, error: BaseException
) -> None:
    event = receive(Failing(error))
    assert isinstance(event, ReceiveFailed)
    assert isinstance(event.error, BackendError)
    assert event.error.retryable
    assert event.error.__cause__ is error
    assert "'jobs'" in str(event.error)


def test_an_error_of_ours_is_passed_on_as_it_is(receive: Any) -> None:
    error = BackendError("no", denied=True)
    assert receive(Failing(error)) == ReceiveFailed(7, error)


def test_a_hook_that_raises_is_a_failed_receive(receive: Any) -> None:
    def hook(call_next: Any) -> Any:
        raise ValueError("bad hook")

    event = receive(queue_with(1), hook)
    assert isinstance(event, ReceiveFailed)
    assert "poll hook" in str(event.error)
    assert "bad hook" in str(event.error)


def test_a_failure_that_a_hook_swallows_is_still_one(receive: Any) -> None:
    def hook(call_next: Any) -> Any:
        try:
            return call_next()
        except OSError:
            return 0

    assert isinstance(receive(Failing(OSError("broken")), hook), ReceiveFailed)


def test_messages_outlive_a_hook_that_raises_after_they_came(receive: Any, lines: Lines) -> None:
    def hook(call_next: Any) -> Any:
        call_next()
        raise ValueError("bad hook")

    assert len(receive(queue_with(2), hook).deliveries) == 2
    assert lines.of("poll_hook_failed")


def test_messages_are_told_before_a_hook_that_lingers_has_ended(colour: str) -> None:
    told_before: list[int] = []

    def linger(call_next: Any) -> Any:
        came = call_next()
        told_before.append(len(bench.events))
        return came

    bench = Bench(colour, queue_with(1), linger)
    bench.receive()
    assert told_before == [1]
    assert len(bench.events) == 1


def test_a_stop_answers_for_a_hook_that_waits_and_for_one_that_begins_after_it(
    colour: str,
) -> None:
    def waits(call_next: Any) -> Any:
        bench.outstanding.stop.requested = True
        if not answered:
            bench.outstanding.stop_waiting()
        answered.append(len(bench.events))
        return call_next()

    answered: list[int] = []
    queue = queue_with(1)
    bench = Bench(colour, queue, waits)
    bench.receive()
    assert (answered, bench.events) == ([1], [ReceiveSkipped(7)])
    bench.receive()
    assert answered == [1, 2]
    assert queue.stats().waiting == 1


class TestAsyncHooks:
    def test_one_that_is_async_is_awaited_on_the_handlers_loop_and_receives_on_the_queues(
        self,
    ) -> None:
        seen: list[Any] = []

        async def hook(call_next: Any) -> Any:
            await asyncio.sleep(0)
            seen.append(threading.current_thread().name)
            seen.append((call_next.queue, await call_next()))

        class Seen(MemoryQueue):
            def claim_batch(self, max_messages: int, **arguments: Any) -> list[Lease]:
                seen.append(threading.current_thread())
                return super().claim_batch(max_messages, **arguments)

        queue = Seen("jobs")
        queue.publish(Message("0"))
        bench = Bench("async", queue, hook)
        bench.receive()
        assert seen == ["handlers", threading.current_thread(), ("jobs", 1)]
        assert len(bench.events[0].deliveries) == 1

    def test_plain_ones_alone_need_no_other_loop(self) -> None:
        def hook(call_next: Any) -> Any:
            return call_next()

        async def main() -> None:
            source = AsyncSource(
                queue=cast("AsyncQueue", Awaited(queue_with(1))),
                hooks=hooks_of([Watch(hook)], "poll"),
            )
            handlers: Any = None
            await AsyncPolls({"jobs": source}, outstanding(), handlers=handlers).receive(
                RECEIVE, events.append
            )

        events: list[Any] = []
        asyncio.run(main())
        assert len(events[0].deliveries) == 1

    @pytest.mark.parametrize("error", [OSError("broken"), SystemExit(3), KeyboardInterrupt()])
    def test_one_that_passes_on_what_a_receive_raised_tells_of_it(
        self, error: BaseException
    ) -> None:
        async def hook(call_next: Any) -> Any:
            return await call_next()

        bench = Bench("async", Failing(error), hook)
        bench.receive()
        (event,) = bench.events
        assert isinstance(event, ReceiveFailed)
        assert event.error.__cause__ is error

    def test_where_their_loop_is_closed_the_receive_has_failed(self) -> None:
        async def hook(call_next: Any) -> Any:
            return await call_next()

        async def main() -> None:
            source = AsyncSource(
                queue=cast("AsyncQueue", Awaited(queue_with(1))),
                hooks=hooks_of([AsyncWatch(hook)], "poll"),
            )
            with handlers_loop() as handlers:
                handlers.close()
                polls = AsyncPolls({"jobs": source}, outstanding(), handlers=handlers)
                await polls.receive(RECEIVE, events.append)

        events: list[Any] = []
        asyncio.run(main())
        assert [type(event) for event in events] == [ReceiveFailed]

    def test_one_that_gives_up_its_receive_cuts_it_not_short(self) -> None:
        (event,) = self.given_up(queue_with(1), returns)
        assert len(event.deliveries) == 1

    def test_what_one_raises_that_gave_up_its_receive_fails_that(self) -> None:
        (event,) = self.given_up(queue_with(0), gives_up)
        assert isinstance(event, ReceiveFailed)
        assert isinstance(event.error.__cause__, TimeoutError)

    def test_or_is_a_warning_where_messages_came(self, lines: Lines) -> None:
        (event,) = self.given_up(queue_with(1), gives_up)
        assert len(event.deliveries) == 1
        (warning,) = lines.of("poll_hook_failed")
        assert "gave up" in warning["exception"]

    def given_up(self, queue: MemoryQueue, ending: Callable[[], int]) -> list[Any]:
        """What is answered of a receive whose hook ends before it."""
        asked, gave_up = threading.Event(), threading.Event()

        class Slow:
            async def claim_batch(self, max_messages: int, **_: Any) -> list[Lease]:
                asked.set()
                await answer.wait()
                return queue.claim_batch(max_messages)

        async def impatient(call_next: Any) -> Any:
            receiving = asyncio.ensure_future(call_next())
            await asyncio.to_thread(asked.wait, 5)
            receiving.cancel()
            await asyncio.sleep(0)
            gave_up.set()
            return ending()

        async def main() -> list[Any]:
            nonlocal answer
            answer = asyncio.Event()
            out = outstanding()
            hooks = hooks_of([AsyncWatch(impatient)], "poll")
            source = AsyncSource(queue=cast("AsyncQueue", Slow()), hooks=hooks)
            events: list[Any] = []
            with handlers_loop() as handlers:
                polls = AsyncPolls({"jobs": source}, out, handlers=handlers)
                await polls.receive(RECEIVE, events.append)
                assert await asyncio.to_thread(gave_up.wait, 5)
            assert events == []
            out.stop_waiting()
            answer.set()
            await asyncio.sleep(0.01)
            return events

        answer: asyncio.Event
        return asyncio.run(main())


def outstanding() -> Outstanding:
    return Outstanding(
        examine=lambda queue, lease: Delivery(lease), clock=lambda: 0.0, stop=StopFlag()
    )


def returns() -> int:
    return 0


def gives_up() -> int:
    raise TimeoutError("gave up")
