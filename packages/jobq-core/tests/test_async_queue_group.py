"""Async groups are built without a call, and open their queues on each loop that enters them."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest
from async_trays import AsyncTray, Client, WiredBackend, WiredTray, async_group, wire
from trays import AsyncTrace, PlainTrace, Tray

from jobq.core import (
    AsyncQueueGroup,
    BackendNotInstalledError,
    ConfigurationError,
    JobRequest,
    Message,
    QueueDefinition,
    QueueGroup,
    UnknownQueueError,
)
from jobq.core.memory import AsyncMemoryQueue, MemoryQueue, MemoryServer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

__all__ = ["wire"]

WIRED = {"a": {"name": "a", "backend": "wire"}, "b": {"name": "b", "backend": "wire"}}


async def client_of(queues: AsyncQueueGroup, name: str = "a") -> Client:
    queue = queues.queue(name)
    assert isinstance(queue, WiredTray)
    return await queue.client()


def test_a_group_is_built_from_mappings_and_definitions_without_a_loop() -> None:
    queues = AsyncQueueGroup.build(
        queues={
            "default": {"name": "jobs", "backend": "memory", "weight": 5},
            "ledger": QueueDefinition(name="ledger.fifo", backend="memory"),
        },
    )

    assert queues.names == ("default", "ledger")
    assert queues.definition("default").weight == 5
    assert queues.definitions["ledger"].name == "ledger.fifo"
    assert queues.middleware == ()
    assert queues.retry is None
    assert not queues.publishes_only


def test_jobs_sent_on_one_loop_are_there_on_the_next() -> None:
    queues = AsyncQueueGroup({"a": {"name": "jobs", "backend": "memory"}})

    async def send() -> int:
        async with queues:
            await queues.enqueue("a", "t")
            return (await queues.stats())["a"].waiting

    assert [asyncio.run(send()), asyncio.run(send())] == [1, 2]


def test_groups_share_nothing_but_a_server_that_they_were_given() -> None:
    def group(server: MemoryServer | None) -> AsyncQueueGroup:
        return AsyncQueueGroup({"a": {"name": "jobs", "backend": "memory"}}, client=server)

    async def main() -> None:
        for server, shared in ((None, 0), (MemoryServer(), 1)):
            first, second = group(server), group(server)
            async with first, second:
                await first.enqueue("a", "t")
                assert (await second.stats())["a"].waiting == shared
            assert not first.publishes_only

    asyncio.run(main())


def test_a_loop_that_has_not_entered_the_group_is_refused() -> None:
    queues = AsyncQueueGroup({"a": {"name": "jobs", "backend": "memory"}})

    async def outside() -> None:
        for call in (queues.enqueue("a", "t"), queues.enqueue_batch("a", []), queues.stats()):
            with pytest.raises(ConfigurationError, match=r"running event loop hasn't entered"):
                await call
        async with queues:
            pass
        with pytest.raises(ConfigurationError, match="hasn't entered"):
            queues.queue("a")

    asyncio.run(outside())
    with pytest.raises(ConfigurationError, match="a thread without an event loop hasn't entered"):
        queues.queue("a")


def test_an_unknown_queue_is_refused_with_those_that_there_are() -> None:
    queues = AsyncQueueGroup({"a": {"name": "jobs", "backend": "memory"}})

    async def main() -> None:
        async with queues:
            for call in (queues.enqueue("c", "t"), queues.dead_letter_queue("c")):
                with pytest.raises(UnknownQueueError, match="'c' in this group: it holds 'a'"):
                    await call
            with pytest.raises(UnknownQueueError, match="'c'"):
                queues.queue("c")

    asyncio.run(main())


def test_entering_opens_one_client_for_the_queues_of_a_backend_and_the_last_exit_closes_it(
    wire: WiredBackend,
) -> None:
    async def main() -> None:
        queues = AsyncQueueGroup(WIRED, session="session")
        async with queues:
            (client,) = wire.clients
            assert client.session == "session"
            async with queues:
                assert await client_of(queues, "a") is await client_of(queues, "b") is client
            assert not client.closed
            queue = queues.queue("a")
        assert client.closed
        assert cast("WiredTray", queue).closed == 1

    asyncio.run(main())


def test_tasks_that_enter_at_once_open_one_client(wire: WiredBackend) -> None:
    async def main() -> None:
        queues = AsyncQueueGroup(WIRED)

        async def use() -> None:
            async with queues:
                await asyncio.sleep(0.01)
                assert not (await client_of(queues)).closed

        await asyncio.gather(*(use() for _ in range(5)))

    asyncio.run(main())
    assert [client.closed for client in wire.clients] == [True]


def test_two_loops_that_enter_at_once_have_clients_of_their_own(wire: WiredBackend) -> None:
    queues = AsyncQueueGroup(WIRED)
    both = threading.Barrier(2)

    async def use() -> None:
        async with queues:
            await asyncio.to_thread(both.wait, 5)
            assert (await client_of(queues)).loop is asyncio.get_running_loop()
            await queues.enqueue("a", "t")
            await asyncio.to_thread(both.wait, 5)

    other = threading.Thread(target=asyncio.run, args=(use(),))
    other.start()
    asyncio.run(use())
    other.join()
    assert [client.closed for client in wire.clients] == [True, True]


def test_closing_leaves_the_running_loop_altogether_and_no_other_one(wire: WiredBackend) -> None:
    queues = AsyncQueueGroup(WIRED)

    async def close() -> None:
        async with queues, queues:
            await queues.close()
            with pytest.raises(ConfigurationError, match="hasn't entered"):
                queues.queue("a")
        await queues.close()
        async with queues:
            assert not (await client_of(queues)).closed

    async def main() -> None:
        async with queues:
            await asyncio.to_thread(asyncio.run, close())
            assert not (await client_of(queues)).closed

    asyncio.run(main())
    assert len(wire.clients) == 3


def test_what_opening_a_client_raises_fails_the_entry_which_may_be_tried_again(
    wire: WiredBackend,
) -> None:
    async def main() -> None:
        queues = AsyncQueueGroup({**WIRED, "c": {"name": "c", "backend": "wire2"}})
        wire.most = 0
        with pytest.raises(ConfigurationError, match="no region"):
            await queues.__aenter__()
        with pytest.raises(ConfigurationError, match="hasn't entered"):
            queues.queue("a")
        wire.most = 9
        async with queues:
            assert len(wire.clients) == 2

    asyncio.run(main())


def test_a_client_that_was_opened_is_closed_where_the_next_one_fails(wire: WiredBackend) -> None:
    wire.most = 1

    async def main() -> None:
        with pytest.raises(ConfigurationError, match="no region"):
            await AsyncQueueGroup({**WIRED, "c": {"name": "c", "backend": "wire2"}}).__aenter__()

    asyncio.run(main())
    assert [client.closed for client in wire.clients] == [True]


def test_a_callable_given_as_client_opens_one_for_each_loop(wire: WiredBackend) -> None:
    opened: list[Client] = []

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Client]:
        opened.append(Client())
        yield opened[-1]
        opened[-1].closed = True

    queues = AsyncQueueGroup({**WIRED, "c": {"name": "c", "backend": "wire2"}}, client=connect)

    async def use() -> None:
        async with queues:
            assert await client_of(queues, "a") is await client_of(queues, "c") is opened[-1]

    asyncio.run(use())
    asyncio.run(use())
    assert not queues.publishes_only
    assert [client.closed for client in opened] == [True, True]


def test_a_group_over_a_client_that_was_entered_only_publishes_on_its_loop(
    wire: WiredBackend,
) -> None:
    async def build() -> AsyncQueueGroup:
        queues = AsyncQueueGroup.build(queues=WIRED, client=Client())
        async with queues:
            await queues.enqueue("a", "t")
            assert not (await client_of(queues)).closed
        async with queues:
            await queues.enqueue("a", "t")
        return queues

    queues = asyncio.run(build())
    assert queues.publishes_only
    with pytest.raises(ConfigurationError, match=r"another event loop.*session=aioboto3\.Session"):
        asyncio.run(queues.__aenter__())


def test_a_session_and_a_client_are_refused_together() -> None:
    with pytest.raises(ConfigurationError, match="session= and client= were both given"):
        AsyncQueueGroup({"a": {"queue": AsyncTray()}}, session=object(), client=object())


@pytest.mark.parametrize("backend", ["memory", "wire"])
def test_an_address_is_no_client(wire: WiredBackend, backend: str) -> None:
    with pytest.raises(ConfigurationError, match="'http://sqs'"):
        AsyncQueueGroup({"a": {"name": "a", "backend": backend}}, client="http://sqs")


def test_a_queue_made_by_hand_is_used_as_it_is_and_never_closed() -> None:
    tray = AsyncTray()
    queues = AsyncQueueGroup({"a": {"queue": tray}})

    async def main() -> None:
        async with queues:
            assert queues.queue("a") is tray

    asyncio.run(main())
    assert tray.closed == 0


def test_a_queue_made_by_hand_on_another_loop_refuses_by_itself() -> None:
    class Bound(AsyncTray):
        loop: Any = None

        async def publish(self, message: Message) -> str:
            if self.loop is not asyncio.get_running_loop():
                raise ConfigurationError("this queue belongs to another event loop")
            return await super().publish(message)

    tray = Bound()
    queues = async_group(tray)

    async def main() -> None:
        tray.loop = tray.loop or asyncio.get_running_loop()
        async with queues:
            await queues.enqueue("default", "t")

    asyncio.run(main())
    with pytest.raises(ConfigurationError, match="another event loop"):
        asyncio.run(main())


@pytest.mark.parametrize("address", ["grave", "https://sqs.example/1/grave"])
def test_a_named_dead_letter_queue_is_opened_over_the_connection_of_its_queue(address: str) -> None:
    async def main() -> None:
        queues = AsyncQueueGroup(
            {
                "a": {"name": "jobs", "backend": "memory", "dead_letter": address},
                "b": {"name": "grave", "backend": "memory"},
            }
        )
        async with queues:
            dead = await queues.dead_letter_queue("a")
            assert dead is not None
            await dead.publish(Message("buried"))
            assert (await queues.stats())["b"].waiting == 1

    asyncio.run(main())


def test_without_a_name_the_dead_letter_queue_is_the_redrive_policys_or_none() -> None:
    dead = AsyncMemoryQueue("dead")
    policed = AsyncMemoryQueue("policed", dead_letter_queue=dead, max_receive_count=3)
    queues = AsyncQueueGroup({"a": {"queue": policed}, "b": {"queue": AsyncMemoryQueue("free")}})

    async def main() -> None:
        async with queues:
            found = await queues.dead_letter_queue("a")
            assert isinstance(found, AsyncMemoryQueue)
            assert found.name == "dead"
            assert await queues.dead_letter_queue("b") is None

    asyncio.run(main())


def test_a_client_that_only_a_dead_letter_queue_needs_is_closed_with_the_group(
    wire: WiredBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over `sqs` the suffix picks the backend: that of a dead-letter queue may be the only one."""

    def by_suffix(definition: QueueDefinition) -> str:
        return "wire2" if definition.name == "grave" else "wire"

    monkeypatch.setattr("jobq.core.async_entries.backend_name", by_suffix)

    async def main() -> None:
        queues = AsyncQueueGroup({"a": {"name": "a", "dead_letter": "grave"}})
        async with queues:
            dead = await queues.dead_letter_queue("a")
            assert isinstance(dead, WiredTray)
            await dead.client()
            assert len(wire.clients) == 2

    asyncio.run(main())
    assert [client.closed for client in wire.clients] == [True, True]


@pytest.mark.parametrize(
    ("queues", "what"),
    [
        ({}, "at least one name"),
        ({"a": {"name": "jobs", "wieght": 1}}, "queue 'a': unknown key 'wieght'"),
        ({"a": {"queue": object()}}, "queue 'a': .* is no AsyncQueue"),
        ({"a": {"queue": Tray()}}, "Tray is a sync queue.* put it into a QueueGroup"),
        ({"a": {"queue": MemoryQueue()}}, "MemoryQueue is a sync queue"),
        (
            {
                "a": {"name": "jobs", "backend": "memory"},
                "b": {"name": "jobs", "backend": "memory"},
            },
            "queues 'a' and 'b' are the same queue, 'jobs'",
        ),
    ],
)
def test_a_group_that_makes_no_sense_is_refused(queues: Any, what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        AsyncQueueGroup(queues)


def test_an_async_queue_in_a_sync_group_is_sent_to_an_async_one() -> None:
    with pytest.raises(ConfigurationError, match="put it into an AsyncQueueGroup"):
        QueueGroup({"a": {"queue": AsyncMemoryQueue()}})


def test_a_backend_that_is_not_installed_is_refused_when_the_group_is_built() -> None:
    with pytest.raises(BackendNotInstalledError, match="no async backend 'rabbit'"):
        AsyncQueueGroup({"a": {"name": "jobs", "backend": "rabbit"}})


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_nothing_is_entered_and_the_child_opens_its_own(wire: WiredBackend) -> None:
    queues = AsyncQueueGroup(
        {**WIRED, "m": {"name": "m", "backend": "memory"}}, [AsyncTrace(), PlainTrace()]
    )

    async def in_the_child() -> None:
        with pytest.raises(ConfigurationError, match="hasn't entered"):
            queues.queue("a")
        async with queues:
            assert (await client_of(queues)).loop is asyncio.get_running_loop()
            await queues.enqueue_batch("m", [JobRequest("t", {"n": n}) for n in range(3)])
            assert (await queues.queue("m").stats()).waiting == 3
        assert [client.closed for client in wire.clients] == [False, True]

    def child() -> NoReturn:
        try:
            with pytest.raises(ConfigurationError, match="hasn't entered"):
                queues.queue("a")
            # In a thread of its own: the child's main thread still stands in the parent's loop.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(asyncio.run, in_the_child()).result()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - the child says what failed, and goes no further
            traceback.print_exc()
        finally:
            os._exit(1)

    async def main() -> int:
        async with queues:
            await queues.enqueue("m", "t")
            return os.fork() or child()

    pid = asyncio.run(main())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_loop_that_goes_on_in_a_forked_child_has_not_entered_there(wire: WiredBackend) -> None:
    queues = AsyncQueueGroup(WIRED)
    with asyncio.Runner() as runner:
        runner.run(queues.__aenter__())
        pid = os.fork()
        if pid == 0:
            try:
                with pytest.raises(ConfigurationError, match="hasn't entered"):
                    runner.run(queues.enqueue("a", "t"))
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        runner.run(queues.close())


def test_the_loops_that_are_gone_leave_nothing_behind(wire: WiredBackend) -> None:
    queues = AsyncQueueGroup(WIRED)

    async def enter() -> None:
        await queues.__aenter__()

    for _ in range(3):
        asyncio.run(enter())
    entries: dict[Any, Any] = vars(queues)["_entries"]
    assert len(entries) == 1
