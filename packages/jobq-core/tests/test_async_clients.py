"""Async clients: one for a loop, opened there, and none across a fork."""

from __future__ import annotations

import asyncio
import gc
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from jobq.core import ConfigurationError, UnknownQueueError
from jobq.core.clients import AsyncClientSource

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


class Maker:
    """Opens and closes clients, slowly, and keeps what became of them."""

    def __init__(self) -> None:
        self.opened: list[object] = []
        self.closed: list[object] = []

    @asynccontextmanager
    async def __call__(self) -> AsyncGenerator[object]:
        await asyncio.sleep(0.01)
        client = object()
        self.opened.append(client)
        yield client
        await asyncio.sleep(0.01)
        self.closed.append(client)


def test_a_client_that_was_given_is_handed_out_and_left_open() -> None:
    client = object()

    async def main() -> None:
        source = AsyncClientSource(client)
        assert await source() is client
        await source.renew(client)
        await source.close()
        assert await source() is client

    asyncio.run(main())


def test_however_many_tasks_ask_at_once_one_client_is_opened() -> None:
    make = Maker()

    async def main() -> None:
        source = AsyncClientSource(make)
        assert make.opened == []
        assert set(await asyncio.gather(*(source() for _ in range(8)))) == set(make.opened)
        await source.close()

    asyncio.run(main())
    assert len(make.opened) == 1
    assert make.closed == make.opened


def test_a_task_that_is_cancelled_while_it_opens_leaves_the_others_a_client() -> None:
    make = Maker()

    async def main() -> None:
        source = AsyncClientSource(make)
        first, second = (asyncio.ensure_future(source()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second is make.opened[0]
        await source.close()

    asyncio.run(main())
    assert len(make.opened) == 1


def test_renewing_closes_the_stale_client_once_and_opens_another_with_the_next_call() -> None:
    make = Maker()

    async def main() -> None:
        source = AsyncClientSource(make)
        stale = await source()
        await asyncio.gather(source.renew(stale), source.renew(stale))
        assert make.closed == [stale]
        fresh = await source()
        await source.renew(stale)
        assert await source() is fresh
        await source.close()

    asyncio.run(main())
    assert len(make.opened) == 2


def test_a_source_that_is_closed_while_it_opens_leaves_nothing_open() -> None:
    make = Maker()

    async def main() -> None:
        source = AsyncClientSource(make)
        opening = asyncio.ensure_future(source())
        await asyncio.sleep(0)
        await source.close()
        await opening
        assert make.closed == make.opened

    asyncio.run(main())
    assert len(make.opened) == 1


def test_who_asks_around_a_close_shares_one_new_client() -> None:
    make = Maker()

    async def main() -> None:
        source = AsyncClientSource(make)
        await source()
        closing = asyncio.ensure_future(source.close())
        await asyncio.sleep(0)
        before = asyncio.ensure_future(source())
        await closing
        assert await source() is await before
        await source.close()

    asyncio.run(main())
    assert len(make.opened) == 2
    assert make.closed == make.opened


def test_a_source_that_opens_no_more_once_it_is_closed_says_so() -> None:
    make = Maker()

    async def main() -> None:
        source = AsyncClientSource(make, reopens=False)
        opening = asyncio.ensure_future(source())
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(source())
        closing = asyncio.ensure_future(source.close())
        await asyncio.wait([opening, waiting, closing])
        for late in (waiting, asyncio.ensure_future(source())):
            with pytest.raises(ConfigurationError, match="closed when its group was left"):
                await late
        await source.close()

    asyncio.run(main())
    assert make.closed == make.opened


@pytest.mark.parametrize("given", [object(), Maker()])
def test_a_source_made_on_one_loop_is_refused_on_another(given: Any) -> None:
    async def make() -> AsyncClientSource:
        return AsyncClientSource(given)

    source = asyncio.run(make())
    gc.collect()
    with pytest.raises(ConfigurationError, match="belongs to another event loop"):
        asyncio.run(source())  # pyright: ignore[reportArgumentType]


def test_a_source_made_on_no_loop_belongs_to_that_of_its_first_use_until_it_is_closed() -> None:
    make = Maker()
    source = AsyncClientSource(make)

    async def use() -> object:
        return await source()

    async def use_and_close() -> None:
        await source()
        await source.close()

    asyncio.run(use_and_close())
    asyncio.run(use())
    for again in (source(), source.renew(None), source.close()):
        with pytest.raises(ConfigurationError, match=r"another event loop.*session=aioboto3"):
            asyncio.run(again)  # pyright: ignore[reportArgumentType]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_client_of_the_parent_is_neither_used_nor_closed_in_a_child() -> None:
    make = Maker()
    source = AsyncClientSource(make)

    async def use() -> None:
        await source()

    async def refused() -> None:
        await source.close()
        assert make.closed == []
        with pytest.raises(ConfigurationError, match="after a fork"):
            await source()

    asyncio.run(use())
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(refused())
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_without_a_running_loop_a_client_is_refused() -> None:
    """As in an `async def` hook of a sync chain, which is driven by hand."""
    asking = AsyncClientSource(Maker())()
    with pytest.raises(ConfigurationError, match="on a running event loop"):
        asking.send(None)


def test_an_address_is_no_client() -> None:
    with pytest.raises(ConfigurationError, match=r"async context manager.* not 'http://sqs'"):
        AsyncClientSource("http://sqs")


def test_a_callable_that_returns_no_context_manager_is_refused() -> None:
    async def main() -> None:
        await AsyncClientSource(lambda: "client")()

    with pytest.raises(ConfigurationError, match=r"returned 'client'.*async context manager"):
        asyncio.run(main())


def test_what_opening_a_client_raises_becomes_the_cause_of_a_configuration_error() -> None:
    @asynccontextmanager
    async def fail() -> AsyncGenerator[object]:
        raise LookupError("no region")
        yield

    async def main() -> None:
        await AsyncClientSource(fail)()

    with pytest.raises(ConfigurationError, match="raised LookupError: no region") as caught:
        asyncio.run(main())
    assert isinstance(caught.value.__cause__, LookupError)


def test_an_error_of_ours_passes_through_as_it_is() -> None:
    error = UnknownQueueError("ours")

    def fail() -> Any:
        raise error

    async def main() -> None:
        await AsyncClientSource(fail)()

    with pytest.raises(UnknownQueueError) as caught:
        asyncio.run(main())
    assert caught.value is error
