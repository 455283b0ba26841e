"""What the async in-memory queue does beyond what every queue does: sharing and cancelling."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from jobq.core import ConfigurationError, Message, QueueDefinition
from jobq.core.backends import find_async_backend, find_backend
from jobq.core.memory import AsyncMemoryQueue, ManualClock, MemoryQueue, MemoryServer
from jobq.core.memory.changes import Changes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


async def until_waiting(clock: ManualClock, count: int = 1) -> None:
    for _ in range(2000):
        if clock.waiting >= count:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"{clock.waiting} of {count} long polls wait")


def test_a_sync_and_an_async_queue_of_one_name_and_server_are_one() -> None:
    server = MemoryServer()
    plain = MemoryQueue("jobs", server=server)
    twin = AsyncMemoryQueue("jobs", server=server)

    async def main() -> None:
        await twin.publish(Message("a"))
        lease = plain.claim()
        assert lease
        assert (await twin.stats()).in_flight == 1
        await twin.ack(lease)

    asyncio.run(main())
    assert plain.stats().in_flight == 0


def test_the_dead_letter_queue_of_an_async_queue_is_one_on_the_same_server() -> None:
    dead = AsyncMemoryQueue("dead")
    queue = AsyncMemoryQueue("jobs", dead_letter_queue=dead, max_receive_count=3)

    async def main() -> None:
        found = await queue.dead_letter_queue()
        assert isinstance(found, AsyncMemoryQueue)
        await found.publish(Message("buried"))
        assert (await dead.stats()).waiting == 1
        assert await dead.dead_letter_queue() is None

    asyncio.run(main())


def test_a_dead_letter_queue_on_another_server_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'dead' is on another server"):
        AsyncMemoryQueue(
            dead_letter_queue=AsyncMemoryQueue("dead"), max_receive_count=1, server=MemoryServer()
        )


def test_a_message_that_a_thread_publishes_wakes_an_awaiting_receive() -> None:
    async def main() -> float:
        plain = MemoryQueue()
        twin = AsyncMemoryQueue(server=plain.server)
        threading.Timer(0.05, plain.publish, [Message("woken")]).start()
        started = time.monotonic()
        lease = await twin.claim(wait=5)
        assert lease
        assert lease.body == "woken"
        return time.monotonic() - started

    assert asyncio.run(main()) < 2


def test_a_message_published_on_a_loop_wakes_a_receive_that_waits_in_a_thread() -> None:
    clock = ManualClock()
    plain = MemoryQueue(clock=clock)

    async def main() -> None:
        poll = asyncio.ensure_future(asyncio.to_thread(plain.claim, wait=5))
        await until_waiting(clock)
        await AsyncMemoryQueue(server=plain.server).publish(Message("woken"))
        lease = await asyncio.wait_for(poll, 2)
        assert lease
        assert lease.body == "woken"

    asyncio.run(main())


def test_a_message_wakes_a_receive_on_another_loop() -> None:
    clock = ManualClock()
    queue = AsyncMemoryQueue(clock=clock)
    received: list[str] = []

    async def receive() -> None:
        lease = await queue.claim(wait=5)
        received.append(lease.body if lease else "nothing")

    async def send() -> None:
        await until_waiting(clock)
        await queue.publish(Message("over there"))

    thread = threading.Thread(target=asyncio.run, args=(receive(),))
    thread.start()
    asyncio.run(send())
    thread.join(2)
    assert received == ["over there"]


def test_a_hundred_receives_wait_on_one_loop_without_a_thread() -> None:
    async def main() -> None:
        clock = ManualClock()
        queue = AsyncMemoryQueue(clock=clock)
        threads = threading.active_count()
        polls = [asyncio.ensure_future(queue.claim(wait=20)) for _ in range(100)]
        await until_waiting(clock, 100)
        assert threading.active_count() == threads
        for number in range(60):
            await queue.publish(Message(str(number)))
        clock.advance(20)
        leases = await asyncio.gather(*polls)
        assert sorted(int(lease.body) for lease in leases if lease) == list(range(60))
        assert clock.waiting == 0

    asyncio.run(main())


def test_a_poll_waits_for_the_clock_and_not_for_real_time() -> None:
    async def main() -> None:
        clock = ManualClock()
        poll = asyncio.ensure_future(AsyncMemoryQueue(clock=clock).claim(wait=1))
        await until_waiting(clock)
        clock.advance(0.9)
        await asyncio.sleep(0.02)
        assert not poll.done()
        await asyncio.to_thread(clock.advance, 0.1)
        assert await asyncio.wait_for(poll, 2) is None

    asyncio.run(main())


def test_a_poll_sees_a_message_come_back_in_real_time_without_being_told() -> None:
    async def main() -> None:
        queue = AsyncMemoryQueue()
        await queue.publish(Message("again"))
        await queue.claim(visibility=1)
        lease = await asyncio.wait_for(queue.claim(wait=5), 3)
        assert lease
        assert lease.receive_count == 2

    asyncio.run(main())


def test_a_receive_that_is_cancelled_takes_no_message_with_it() -> None:
    """Whenever it is cancelled, beside sends from a thread: every message is received or is there.

    What a receive returned counts as received, whether its task was cancelled too late or not.
    """
    plain = MemoryQueue()
    twin = AsyncMemoryQueue(server=plain.server)
    received: Counter[str] = Counter()

    async def receive() -> None:
        lease = await twin.claim(wait=20)
        assert lease
        received[lease.body] += 1

    async def main() -> None:
        def send() -> None:
            for number in range(300):
                plain.publish(Message(str(number)))
                time.sleep(0.0001)

        thread = threading.Thread(target=send)
        thread.start()
        turn = 0
        while thread.is_alive():
            poll = asyncio.ensure_future(receive())
            for _ in range(turn % 7):
                await asyncio.sleep(0)
            poll.cancel()
            await asyncio.wait([poll])
            turn += 1
        thread.join()

    asyncio.run(main())
    assert received
    while lease := plain.claim():
        received[lease.body] += 1
    assert received == Counter(map(str, range(300)))


def test_a_call_that_is_cancelled_at_once_has_done_nothing() -> None:
    async def main() -> None:
        queue = AsyncMemoryQueue()
        await queue.publish(Message("kept"))
        lease = await queue.claim()
        assert lease
        for call in (queue.publish(Message("late")), queue.ack(lease), queue.claim(wait=1)):
            task = asyncio.ensure_future(call)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        stats = await queue.stats()
        assert (stats.waiting, stats.in_flight) == (0, 1)

    asyncio.run(main())


def test_a_task_that_only_works_on_a_queue_lets_the_others_of_its_loop_run() -> None:
    async def main() -> None:
        queue = AsyncMemoryQueue()
        done = asyncio.Event()

        async def work() -> None:
            while not done.is_set():
                await queue.publish(Message("x"))
                lease = await queue.claim()
                assert lease
                await queue.ack(lease)

        task = asyncio.ensure_future(work())
        await asyncio.sleep(0.01)
        done.set()
        await asyncio.wait_for(task, 1)

    asyncio.run(main())


def test_a_loop_that_was_closed_under_a_poll_breaks_no_send() -> None:
    plain = MemoryQueue()
    loop = asyncio.new_event_loop()
    task = loop.create_task(AsyncMemoryQueue(server=plain.server).claim(wait=20))
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()

    assert plain.publish(Message("sent"))
    task.get_coro().close()  # pyright: ignore[reportOptionalMemberAccess]


def test_a_dead_letter_wakes_a_receive_that_waits_for_one() -> None:
    async def main() -> None:
        clock = ManualClock()
        dead = AsyncMemoryQueue("dead", clock=clock)
        queue = AsyncMemoryQueue("jobs", dead_letter_queue=dead, max_receive_count=1)
        await queue.publish(Message("spent"))
        await queue.claim(visibility=0)
        poll = asyncio.ensure_future(dead.claim(wait=20))
        await until_waiting(clock)
        assert await queue.claim() is None
        lease = await asyncio.wait_for(poll, 1)
        assert lease
        assert lease.body == "spent"

    asyncio.run(main())


def test_a_poll_that_ended_is_told_of_no_further_change() -> None:
    changes = Changes(threading.RLock())
    told: list[str] = []
    with changes.waking(lambda: told.append("a")):
        changes.announce()
    changes.announce()
    assert told == ["a"]


def test_a_clock_that_jumps_just_before_a_poll_waits_for_it_ends_the_poll() -> None:
    class Jumping(ManualClock):
        @contextmanager
        def waking(self, wake: Callable[[], None]) -> Generator[None]:
            self.advance(20)
            with super().waking(wake):
                yield

    async def main() -> None:
        twin = AsyncMemoryQueue(clock=Jumping())
        assert await asyncio.wait_for(twin.claim(wait=20), 2) is None

    asyncio.run(main())
    plain = MemoryQueue(clock=Jumping())
    poll = threading.Thread(target=plain.claim, kwargs={"wait": 20}, daemon=True)
    poll.start()
    poll.join(2)
    assert not poll.is_alive()


def test_a_connection_of_a_process_has_one_server_for_both_kinds() -> None:
    reports, other = SimpleNamespace(name="one-server"), SimpleNamespace(name="another")
    jobs = QueueDefinition(name="jobs", backend="memory")
    plain, twin = find_backend("memory"), find_async_backend("memory")

    def server_of(queue: object) -> MemoryServer:
        assert isinstance(queue, MemoryQueue | AsyncMemoryQueue)
        return queue.server

    first = server_of(plain(jobs, settings=reports))
    assert server_of(twin(jobs, settings=reports)) is first
    assert server_of(twin(jobs, settings=other)) is not first
    assert server_of(twin(jobs)) is not server_of(twin(jobs))
