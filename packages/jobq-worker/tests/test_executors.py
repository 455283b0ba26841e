"""Commands carried out by hand: every one is answered once, and none waits for another kind."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any

import pytest
from working import Lines, until

from jobq.core import Message, current_job
from jobq.core.clock import now
from jobq.core.memory import AsyncMemoryQueue, MemoryQueue
from jobq.worker.dispatch import Dispatcher, Route
from jobq.worker.engine.commands import (
    Abandon,
    Ack,
    AnnounceStop,
    DeadLetter,
    Extend,
    Nack,
    Receive,
    Run,
)
from jobq.worker.engine.events import (
    Extended,
    LoopClosed,
    NotStarted,
    Raised,
    Settled,
    Succeeded,
)
from jobq.worker.entered import Loops
from jobq.worker.executors import Executors
from jobq.worker.handlers import handler_table
from jobq.worker.polls import AsyncPolls, AsyncSource, Outstanding, Polls, Source, StopFlag
from jobq.worker.queue_calls import QueueTasks, QueueThreads
from jobq.worker.settling import AsyncSettling, Settling

pytestmark = pytest.mark.usefixtures("lines")


def nothing(payload: Any) -> None: ...


def waiting_for(wait: Callable[[], object]) -> Callable[[Any], None]:
    def handler(payload: Any) -> None:
        wait()

    return handler


class Bench:
    """Executors over one in-memory queue, or over its async twin."""

    def __init__(self, handlers: dict[str, Any], loop: Any = None, *, colour: str = "sync") -> None:
        context = copy_context()
        self.queue = MemoryQueue("jobs")
        self.answers: SimpleQueue[Any] = SimpleQueue()
        self.crashes: list[BaseException] = []
        self.stop = StopFlag()
        self.stopping = threading.Event()
        self.dispatcher = Dispatcher(
            handler_table(handlers),
            {"jobs": Route()},
            retry=None,
            context=context,
            clock=now,
            unix_time=time.time,
            stopping=self.stopping,
        )
        self.loops = Loops(loop, served={}, given={}, context=context)
        server = self.queue.server
        self.twin = AsyncMemoryQueue("jobs", server=server)
        queues = {"jobs": self.queue, "other": MemoryQueue("other", server=server)}
        twins = {"jobs": self.twin, "other": AsyncMemoryQueue("other", server=server)}
        queues, twins = ({}, twins) if colour == "async" else (queues, {})
        outstanding = Outstanding(examine=self.dispatcher.examine, clock=now, stop=self.stop)
        shared: dict[str, Any] = {
            "concurrency": 4,
            "put": self.answers.put,
            "crashed": self.crashes.append,
        }
        self.executors = Executors(
            dispatcher=self.dispatcher,
            threads=QueueThreads(
                polls=Polls({n: Source(queue=one) for n, one in queues.items()}, outstanding),
                settling=Settling(queues, dead_letters={}, clock=now),
                context=context,
                bring=self.answers.put,
                **shared,
            ),
            tasks=QueueTasks(
                polls=AsyncPolls(
                    {n: AsyncSource(queue=one) for n, one in twins.items()},
                    outstanding,
                    handlers=self.loops.handlers,
                ),
                settling=AsyncSettling(twins, dead_letters={}, clock=now),
                loop=self.loops.queues,
                context=context,
                **shared,
            ),
            awaited=twins,
            loop=self.loops.handlers,
            stopping=self.stopping,
            stop_waiting=outstanding.stop_waiting,
            bring=self.answers.put,
            **shared,
        )

    def do(self, *commands: Any) -> None:
        for command in commands:
            self.executors.begin(command)
        self.executors.flush()

    def answer(self) -> Any:
        return self.answers.get(timeout=10)

    def received(self, *job_types: str) -> list[Any]:
        for job_type in job_types:
            self.queue.publish(Message(f'{{"job_type": "{job_type}", "payload": {{}}}}'))
        self.do(Receive(1, "jobs", 10, 0, 30))
        return list(self.answer().deliveries)

    def run(self, *job_types: str) -> None:
        for key, delivery in enumerate(self.received(*job_types)):
            self.do(Run(key, "jobs", delivery.lease, delivery.job, now() + 30, now() + 3600))


@contextmanager
def bench(loop: Any = None, *, colour: str = "sync", **handlers: Any) -> Generator[Bench]:
    made = Bench(handlers or {"a": print}, loop, colour=colour)
    yield made
    made.executors.close()
    made.loops.close()
    assert made.crashes == []


EITHER_COLOUR = pytest.mark.parametrize("colour", ["sync", "async"])


@EITHER_COLOUR
def test_queue_calls_are_answered_with_their_numbers(colour: str) -> None:
    with bench(colour=colour) as it:
        one, two, three = (delivery.lease for delivery in it.received("a", "a", "a"))
        it.do(Extend(5, "jobs", (one, two, three), 40))
        extended = it.answer()
        assert (type(extended), extended.call) == (Extended, 5)
        it.do(Ack(6, "jobs", (one, two)))
        assert it.answer() == Settled(6, (None, None))
        it.do(Nack(7, "jobs", (three,), 0))
        assert it.answer() == Settled(7, (None,))
        assert it.queue.stats().waiting == 1


@EITHER_COLOUR
def test_neither_polls_nor_handlers_nor_deletes_hold_up_an_extension(
    colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = threading.Event()

    def hang(*_: Any) -> list[Any]:
        blocked.wait(10)
        return []

    async def hang_async(*_: Any) -> list[Any]:
        return await asyncio.to_thread(hang)

    monkeypatch.setattr(MemoryQueue, "ack_batch", hang)
    monkeypatch.setattr(AsyncMemoryQueue, "ack_batch", hang_async)
    with bench(colour=colour, a=waiting_for(lambda: blocked.wait(10))) as it:
        delivery, *_ = it.received("a")
        it.run("a", "a", "a", "a", "a", "a")
        it.do(*(Receive(number, "jobs", 1, 20, 30) for number in range(30)))
        it.do(*(Ack(number, "jobs", (delivery.lease,)) for number in range(30)))
        began = time.monotonic()
        it.do(Extend(99, "jobs", (delivery.lease,), 30))
        assert it.answer().call == 99
        assert time.monotonic() - began < 1
        blocked.set()


@EITHER_COLOUR
def test_calls_that_hang_hold_up_none_of_another_queue(
    colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = threading.Event()

    def hang(*_: Any) -> list[Any]:
        blocked.wait(10)
        return []

    async def hang_async(*_: Any) -> list[Any]:
        return await asyncio.to_thread(hang)

    with bench(colour=colour) as it:
        (delivery,) = it.received("a")
        for queue in (it.queue, it.twin):
            awaited = isinstance(queue, AsyncMemoryQueue)
            monkeypatch.setattr(queue, "ack_batch", hang_async if awaited else hang)
        it.do(*(Ack(number, "jobs", (delivery.lease,)) for number in range(30)))
        it.do(Ack(99, "other", (delivery.lease,)))
        assert it.answer().call == 99
        blocked.set()


def test_sync_and_async_handlers_run_side_by_side_each_at_once() -> None:
    together = threading.Barrier(3)

    async def awaited(payload: Any) -> None:
        await asyncio.to_thread(together.wait, 10)

    with bench(a=waiting_for(lambda: together.wait(10)), b=awaited) as it:
        it.run("a", "b", "b")
        ended = {it.answer().key for _ in range(3)}
        assert ended == {0, 1, 2}


def test_a_lost_lease_is_seen_by_a_sync_handler_that_waits_for_it() -> None:
    seen = SimpleQueue[bool]()

    def handler(payload: Any) -> None:
        context = current_job()
        assert context is not None
        seen.put(context.lease_lost.is_set())
        seen.put(context.lease_lost.wait(10))

    with bench(a=handler) as it:
        it.run("a")
        assert seen.get(timeout=5) is False
        it.do(Abandon(0))
        assert seen.get(timeout=5) is True
        assert it.answer().result == Succeeded()


@pytest.mark.parametrize("returned", [False, True], ids=["async def", "an awaitable returned"])
def test_a_lost_lease_cancels_what_can_be_cancelled(returned: object, lines: Lines) -> None:
    began = threading.Event()

    async def handler(payload: Any) -> None:
        began.set()
        await asyncio.sleep(60)

    def returns(payload: Any) -> Any:
        return handler(payload)

    with bench(a=returns if returned else handler) as it:
        it.run("a")
        assert began.wait(5)
        it.do(Abandon(0))
        assert isinstance(it.answer().result, Raised)
    assert not lines.of("job_failed")


def test_an_async_job_that_is_lost_before_its_first_step_has_not_started() -> None:
    blocked, began = threading.Event(), threading.Event()
    ran: list[Any] = []

    async def blocks(payload: Any) -> None:
        began.set()
        blocked.wait(10)

    async def late(payload: Any) -> None:
        ran.append(payload)

    with bench(a=blocks, b=late) as it:
        it.run("a")
        assert began.wait(5)
        (delivery,) = it.received("b")
        it.do(Run(7, "jobs", delivery.lease, delivery.job, now() + 30, now() + 60), Abandon(7))
        blocked.set()
        results = {answer.key: answer.result for answer in (it.answer(), it.answer())}
        assert results == {0: Succeeded(), 7: NotStarted()}
        assert ran == []


@pytest.mark.parametrize("error", [SystemExit(2), KeyboardInterrupt(), asyncio.CancelledError()])
@pytest.mark.parametrize("kind", ["sync", "async", "returned"])
def test_l14_nothing_that_a_handler_raises_ends_a_thread_or_the_loop(
    kind: str, error: BaseException
) -> None:
    def fails(payload: Any) -> None:
        raise error

    async def fails_async(payload: Any) -> None:
        raise error

    def returns(payload: Any) -> Any:
        return fails_async(payload)

    async def good(payload: Any) -> None: ...

    ways: dict[str, Callable[[Any], Any]] = {
        "sync": fails,
        "async": fails_async,
        "returned": returns,
    }
    with bench(a=ways[kind], b=good, c=nothing) as it:
        it.run("a", "b", "c")
        answers = [it.answer() for _ in range(3)]
        results: dict[int, Any] = {answer.key: type(answer.result) for answer in answers}
        assert results == {0: Raised, 1: Succeeded, 2: Succeeded}


def test_jobs_for_a_loop_that_was_closed_have_not_started() -> None:
    async def handler(payload: Any) -> None: ...

    loop = asyncio.new_event_loop()
    loop.close()
    with bench(loop, a=handler) as it:
        it.run("a")
        assert it.answer() == LoopClosed()
        assert it.answer().result == NotStarted()


def test_nor_have_those_that_a_loop_had_not_begun_when_it_was_closed() -> None:
    async def handler(payload: Any) -> None: ...

    loop = asyncio.new_event_loop()
    with bench(loop, a=handler) as it:
        it.run("a", "a")
        it.do()
        assert it.answers.empty()
        loop.close()
        for _ in range(2):
            it.do()
        answers: list[Any] = [it.answer() for _ in range(3)]
        assert answers[0] == LoopClosed()
        assert {one.key: one.result for one in answers[1:]} == {0: NotStarted(), 1: NotStarted()}
        assert it.answers.empty()


def test_what_a_closed_loop_had_begun_is_not_said_to_have_not_started() -> None:
    async def handler(payload: Any) -> None:
        await asyncio.sleep(60)

    loop = asyncio.new_event_loop()
    with bench(loop, a=handler) as it:
        it.run("a")
        loop.run_until_complete(asyncio.sleep(0.01))
        (task,) = asyncio.all_tasks(loop)
        loop.close()
        it.do()
        assert it.answer() == LoopClosed()
        assert it.answers.empty()
        task.get_coro().close()


def test_an_announced_stop_is_seen_by_every_job() -> None:
    with bench() as it:
        it.do(AnnounceStop())
        assert it.stopping.is_set()


@EITHER_COLOUR
def test_an_answer_that_cannot_be_given_is_told(
    colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bench(colour=colour) as it:
        (delivery,) = it.received("a")
        twin = "Async" if colour == "async" else ""
        monkeypatch.delattr(f"jobq.worker.polls.{twin}Polls.receive")
        it.do(Receive(1, "jobs", 1, 0, 30), DeadLetter(2, "jobs", (delivery.lease,)))
        until(lambda: len(it.crashes) == 2)
        assert {type(it.crashes.pop()), type(it.crashes.pop())} == {AttributeError, KeyError}


def test_the_handlers_loop_is_closed_and_its_tasks_are_cancelled() -> None:
    ended: list[str] = []

    async def in_background() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")

    tasks: list[Any] = []

    async def handler(payload: Any) -> None:
        tasks.append(asyncio.create_task(in_background()))
        await asyncio.sleep(0)

    with bench(a=handler) as it:
        it.run("a")
        assert it.answer().result == Succeeded()
    assert ended == ["cancelled"]
    assert not [one for one in threading.enumerate() if one.name == "jobq-handlers-loop"]
