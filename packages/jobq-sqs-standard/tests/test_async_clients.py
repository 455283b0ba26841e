"""What clients async queues and groups take, which they open, and when they close them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aioboto3
import boto3
import pytest

from jobq.core import (
    AsyncQueueGroup,
    ConfigurationError,
    Message,
    QueueDefinition,
    QueueGroup,
    QueueNotFoundError,
)
from jobq.core.backends import find_async_backend
from jobq.core.clients import AsyncClientSource
from jobq.core.interfaces import AsyncClientMaker, AsyncConnected
from jobq.sqs.standard import AsyncSqsStandardQueue, SqsStandardQueue
from jobq.sqs.standard.aio import backend

UNREACHABLE = "http://127.0.0.1:9"


def opened(server: str) -> Any:
    """What opens a client of the caller's own."""
    session: Any = aioboto3.Session()
    return session.client("sqs", endpoint_url=server)


class Settings:
    """A connection's."""

    region = "eu-west-1"
    timeout = 25.0

    def __init__(self, *, endpoint: str) -> None:
        self.endpoint = endpoint


def test_a_boto3_client_is_none_for_an_async_queue(client: Any) -> None:
    with pytest.raises(ConfigurationError, match="boto3 client goes with the sync class"):
        AsyncSqsStandardQueue("orders", client=client)


@pytest.fixture
def never_entered(server: str) -> Iterator[Any]:
    manager = opened(server)
    yield manager
    manager._coro.close()  # noqa: SLF001 - it warns where it is dropped without


@pytest.fixture
def session() -> Any:
    return aioboto3.Session()


@pytest.mark.parametrize("given", ["client", "never_entered", "session"])
def test_a_group_over_what_is_no_async_client_sends_nothing(
    server: str, name: str, given: str, request: pytest.FixtureRequest
) -> None:
    async def main() -> None:
        client = request.getfixturevalue(given)
        async with AsyncQueueGroup.build(client=client, queues={"q": {"name": name}}) as group:
            with pytest.raises(ConfigurationError, match=r"session\.client\('sqs'\)"):
                await group.enqueue("q", "work")

    with SqsStandardQueue.create(name, endpoint_url=server) as queue:
        asyncio.run(main())
        assert queue.stats().waiting == 0


def test_a_sync_group_over_an_async_client_says_so(server: str) -> None:
    async def main() -> None:
        async with opened(server) as client:
            group = QueueGroup.build(client=client, queues={"q": {"name": "orders"}})
            with pytest.raises(ConfigurationError, match=r"is an async client.*boto3"):
                group.enqueue("q", "work")

    asyncio.run(main())


def test_a_client_that_nobody_entered_is_refused(never_entered: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"not entered.*async with session\.client"):
        AsyncSqsStandardQueue("orders", client=never_entered)


class TestClients:
    def test_a_client_that_was_handed_in_is_used_and_left_open(
        self, server: str, name: str
    ) -> None:
        async def main() -> None:
            async with opened(server) as client:
                async with await AsyncSqsStandardQueue.create(name, client=client) as queue:
                    assert (await queue.connection()).client is client
                assert (await queue.stats()).waiting == 0

        asyncio.run(main())

    def test_a_callable_opens_one_for_the_queue_which_closes_it(
        self, server: str, name: str
    ) -> None:
        async def main() -> None:
            queue = await AsyncSqsStandardQueue.create(name, client=lambda: opened(server))
            assert await queue.publish(Message("hello"))
            await queue.close()

        asyncio.run(main())

    def test_a_queue_that_cannot_be_made_leaves_no_client_open(
        self, server: str, name: str
    ) -> None:
        closed: list[str] = []

        @asynccontextmanager
        async def watched() -> AsyncGenerator[Any]:
            async with opened(server) as client:
                yield client
            closed.append("client")

        async def main() -> None:
            with pytest.raises(QueueNotFoundError):
                await AsyncSqsStandardQueue.create(
                    name, client=watched, dead_letter_queue=f"{name}-dead", max_receive_count=3
                )
            assert closed == ["client"]

        asyncio.run(main())

    def test_our_own_tries_once_and_waits_longer_than_a_long_poll(self, server: str) -> None:
        async def main() -> None:
            async with AsyncSqsStandardQueue("orders", endpoint_url=server) as queue:
                info = await queue.connection()
                made: Any = info.client
                assert (info.max_connections, info.read_timeout) == (256, 30)
                assert made.meta.config.retries == {"total_max_attempts": 1, "mode": "standard"}

        asyncio.run(main())

    def test_closing_lets_go_of_every_connection(self, server: str, name: str) -> None:
        """Warnings are errors here, and aiohttp warns of a session that nobody closed."""

        async def main() -> None:
            queue = await AsyncSqsStandardQueue.create(name, endpoint_url=server)
            await queue.publish(Message("hello"))
            await queue.close()
            again = (await queue.connection()).client
            assert (await queue.connection()).client is again
            await queue.close()

        asyncio.run(main())


class TestTheBackend:
    def test_it_does_no_io(self, server: str, name: str) -> None:
        by_name = backend(QueueDefinition(name=name))
        by_url = backend(QueueDefinition(url=f"{UNREACHABLE}/1/{name}"))
        assert by_name.name == by_url.name == name
        assert isinstance(backend, AsyncClientMaker)
        assert isinstance(by_name, AsyncConnected)
        assert find_async_backend("sqs-standard") is backend

    def test_its_queues_share_the_client_that_it_opens(self, server: str, name: str) -> None:
        async def main() -> None:
            settings = Settings(endpoint=server)
            source = AsyncClientSource(lambda: backend.open_client(settings))
            names = [f"{name}-{number}" for number in range(2)]
            queues = [backend(QueueDefinition(name=one), client=source) for one in names]
            clients = {id((await queue.connection()).client) for queue in queues}
            assert len(clients) == 1
            made: Any = (await queues[0].connection()).client
            assert made.meta.region_name == "eu-west-1"
            assert made.meta.config.read_timeout == 25
            with pytest.raises(QueueNotFoundError, match=f"'{name}-0'.*create the queue"):
                await queues[0].publish(Message("hello"))
            await source.close()

        asyncio.run(main())

    def test_a_session_of_the_caller_s_says_where_and_who(self, server: str) -> None:
        session = aioboto3.Session(
            aws_access_key_id="AKIDOURS", aws_secret_access_key="s", region_name="eu-north-1"
        )

        async def main() -> None:
            async with backend.open_client(session=session) as client:
                assert client.meta.region_name == "eu-north-1"
                assert client._get_credentials().access_key == "AKIDOURS"  # noqa: SLF001
                assert client.meta.config.max_pool_connections == 256

        asyncio.run(main())

    def test_a_session_of_another_kind_is_refused(self) -> None:
        async def main() -> None:
            async with backend.open_client(session=boto3.session.Session()):
                pass

        with pytest.raises(ConfigurationError, match=r"must be an aioboto3\.Session"):
            asyncio.run(main())

    def test_a_client_that_cannot_be_made_says_what_is_missing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("AWS_DEFAULT_REGION")

        async def main() -> None:
            async with backend.open_client():
                pass

        with pytest.raises(ConfigurationError, match="set AWS_DEFAULT_REGION") as raised:
            asyncio.run(main())
        assert raised.value.__cause__ is not None
