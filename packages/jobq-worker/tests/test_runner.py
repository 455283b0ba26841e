"""Whoever brings an event drives the engine, one thread at a time, and nothing is left lying."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from working import until

from jobq.core.clock import now
from jobq.worker.engine.commands import Accounts, AnnounceStop, Exit
from jobq.worker.engine.events import Finished, StopRequested, Succeeded, Tick
from jobq.worker.inbox import Inbox
from jobq.worker.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

END = Exit(0, Accounts())


class Scripted:
    """An engine that answers by a function, and notes which thread told it of what, and when."""

    def __init__(self, answer: Callable[[Any], Sequence[Any]]) -> None:
        self.seen: list[tuple[Any, str, float]] = []
        self.wakes_at = now() + 60
        self.inside = 0
        self._answer = answer

    def handle(self, events: Sequence[Any], at: float) -> list[Any]:
        self.inside += 1
        assert self.inside == 1, "two threads are in the engine"
        commands: list[Any] = []
        for event in events:
            self.seen.append((event, threading.current_thread().name, at))
            commands += self._answer(event)
        self.inside -= 1
        return commands

    def wake_at(self) -> float:
        return self.wakes_at

    def threads_of(self, event: Any) -> list[str]:
        return [thread for seen, thread, _ in self.seen if seen == event]


class Nothing:
    """In place of what carries out commands and of what writes lines."""

    def __init__(self) -> None:
        self.begun: list[Any] = []

    def begin(self, command: Any) -> None:
        self.begun.append(command)

    def flush(self) -> None: ...

    def write(self, lines: Any) -> None: ...


class Bench:
    def __init__(self, answer: Callable[[Any], Sequence[Any]]) -> None:
        self.engine: Any = Scripted(answer)
        self.inbox = Inbox()
        self.executors: Any = Nothing()
        self.runner = Runner(self.engine, inbox=self.inbox, reporting=self.executors, clock=now)
        self.ended: list[Any] = []
        self.thread = threading.Thread(target=self._run, name="runner", daemon=True)
        self.thread.start()
        until(lambda: self.engine.seen)

    def _run(self) -> None:
        try:
            self.ended.append(self.runner.run(self.executors))
        except BaseException as error:  # noqa: BLE001
            self.ended.append(error)

    def result(self) -> Any:
        self.thread.join(5)
        return self.ended[0]


def finished(key: int) -> Finished:
    return Finished(key, Succeeded(), 0)


def end_on_stop(event: Any) -> Sequence[Any]:
    return [END] if event == StopRequested() else []


def test_a_thread_that_brings_an_event_turns_by_itself() -> None:
    bench = Bench(lambda event: [AnnounceStop()] if event == finished(1) else end_on_stop(event))
    bench.runner.bring(finished(1))
    assert bench.engine.threads_of(finished(1)) == [threading.current_thread().name]
    assert bench.executors.begun == [AnnounceStop()]
    bench.inbox.put(StopRequested())
    assert bench.result() is END
    assert bench.engine.threads_of(StopRequested()) == ["runner"]


def test_what_was_put_first_is_told_first_whoever_turns() -> None:
    in_turn, told = threading.Event(), threading.Event()

    def slow(event: Any) -> Sequence[Any]:
        if event == finished(1):
            in_turn.set()
            told.wait(5)
        return ()

    bench = Bench(slow)
    busy = threading.Thread(target=bench.runner.bring, args=(finished(1),), name="busy")
    busy.start()
    assert in_turn.wait(5)
    bench.inbox.put(StopRequested())
    bench.runner.bring(finished(2))
    told.set()
    busy.join(5)
    until(lambda: bench.engine.threads_of(finished(2)), seconds=0.5)
    order = [event for event, *_ in bench.engine.seen if event != Tick()]
    assert order == [finished(1), StopRequested(), finished(2)]
    bench.runner.crash(RuntimeError())
    bench.result()


def test_nothing_that_many_threads_bring_is_lost_or_told_twice() -> None:
    bench = Bench(end_on_stop)

    def bring(first: int) -> None:
        for key in range(first, first + 500):
            bench.runner.bring(finished(key))

    threads = [threading.Thread(target=bring, args=(n * 500,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    told = [event.key for event, *_ in bench.engine.seen if isinstance(event, Finished)]
    assert sorted(told) == list(range(4000))
    bench.inbox.put(StopRequested())
    assert bench.result() is END


def test_an_end_in_another_thread_ends_the_run() -> None:
    bench = Bench(end_on_stop)
    bench.runner.bring(StopRequested())
    assert bench.result() is END


def test_what_a_turn_raises_in_another_thread_ends_the_run_and_no_turn_follows() -> None:
    def broken(event: Any) -> Sequence[Any]:
        if event == finished(1):
            raise ZeroDivisionError
        return []

    bench = Bench(broken)
    bench.runner.bring(finished(1))
    bench.runner.bring(finished(2))
    assert isinstance(bench.result(), ZeroDivisionError)
    assert bench.engine.threads_of(finished(2)) == []


def test_time_that_another_thread_made_due_sooner_is_kept() -> None:
    bench = Bench(end_on_stop)
    time.sleep(0.1)
    due = bench.engine.wakes_at = now() + 0.2
    bench.runner.bring(finished(1))
    until(lambda: any(event == Tick() and at >= due for event, _, at in bench.engine.seen))
    assert bench.engine.seen[-1][2] - due < 0.5
    bench.engine.wakes_at = now() + 60
    bench.inbox.put(StopRequested())
    assert bench.result() is END


def test_a_pulse_comes_every_second_where_nothing_is_due() -> None:
    bench = Bench(end_on_stop)
    began = now()
    until(lambda: now() - bench.engine.seen[-1][2] < 0.1 and now() - began > 1.5, seconds=5)
    bench.inbox.put(StopRequested())
    assert bench.result() is END


def test_an_inbox_rings_once_for_all_that_was_put() -> None:
    inbox = Inbox()
    inbox.put(Tick())
    inbox.put(StopRequested())
    assert inbox.wait(0.05)
    assert not inbox.wait(0.05)
    assert inbox.take() == [Tick(), StopRequested()]
    assert not inbox
