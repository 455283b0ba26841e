"""Credentials are the SDK's own chain: looked up anew when they run out, and never kept here."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import aioboto3
import boto3
import pytest
from aiobotocore.config import AioConfig
from aiobotocore.credentials import AioCredentialResolver, AioCredentials
from aiobotocore.session import get_session
from botocore.utils import ContainerMetadataFetcher
from credential_servers import (
    Issuer,
    container_endpoint,
    metadata_endpoint,
    signer_of,
    sts_endpoint,
)
from sqs_proxy import Proxy, Reply, proxy_before

from jobq.core import BackendError, ClientSource, ConfigurationError, Message, QueueDefinition
from jobq.core.clients import AsyncClientSource
from jobq.sqs.standard import AsyncSqsStandardQueue, SqsStandardQueue
from jobq.sqs.standard import backend as sync_backend
from jobq.sqs.standard.aio import backend as async_backend

URL = "http://sqs/123456789012/orders"
SENT = Reply(200, {"MessageId": "m"}, {"content-type": "application/x-amz-json-1.0"})
LIFE = 1.2


class Publisher(Protocol):
    """A queue of either kind, to ask something of: a publish is tried again, a claim isn't."""

    def publish(self) -> object: ...

    def claim(self) -> object: ...


class Blocking:
    def __init__(self, queue: SqsStandardQueue) -> None:
        self._queue = queue

    def publish(self) -> object:
        return self._queue.publish(Message("hello"))

    def claim(self) -> object:
        return self._queue.claim(visibility=30)


class Awaited:
    def __init__(self, queue: AsyncSqsStandardQueue, runner: asyncio.Runner) -> None:
        self._queue = queue
        self._runner = runner

    def publish(self) -> object:
        return self._runner.run(self._queue.publish(Message("hello")))

    def claim(self) -> object:
        return self._runner.run(self._queue.claim(visibility=30))


class Kind(Protocol):
    """A kind of queues, and the ways in which one may come by its client."""

    def queue(self, endpoint: str) -> Publisher: ...

    def over_a_callable(self, endpoint: str) -> Publisher: ...

    def of_a_group(self, endpoint: str, timeout: float = 25) -> Publisher: ...


class Sync:
    def queue(self, endpoint: str) -> Publisher:
        return Blocking(SqsStandardQueue(URL, endpoint_url=endpoint))

    def over_a_callable(self, endpoint: str) -> Publisher:
        session: Any = boto3.session.Session()
        return Blocking(
            SqsStandardQueue(URL, client=lambda: session.client("sqs", endpoint_url=endpoint))
        )

    def of_a_group(self, endpoint: str, timeout: float = 25) -> Publisher:
        source = ClientSource(lambda: sync_backend.make_client(settings(endpoint, timeout)))
        return Blocking(sync_backend(QueueDefinition(url=URL), client=source))


class Async:
    """`session` is what a group was given."""

    def __init__(self, runner: asyncio.Runner, *, session: Any = None) -> None:
        self._runner = runner
        self._session = session
        self._opened: list[AsyncSqsStandardQueue | AsyncClientSource] = []

    def queue(self, endpoint: str) -> Publisher:
        queue = AsyncSqsStandardQueue(URL, endpoint_url=endpoint)
        self._opened.append(queue)
        return Awaited(queue, self._runner)

    def over_a_callable(self, endpoint: str) -> Publisher:
        session: Any = aioboto3.Session()
        return self._over(lambda: session.client("sqs", endpoint_url=endpoint))

    def of_a_group(self, endpoint: str, timeout: float = 25) -> Publisher:
        return self._over(
            lambda: async_backend.open_client(settings(endpoint, timeout), session=self._session)
        )

    def _over(self, make: Callable[[], Any]) -> Publisher:
        source = AsyncClientSource(make)
        self._opened.append(source)
        queue = async_backend(QueueDefinition(url=URL), client=source)
        return Awaited(queue, self._runner)

    def close(self) -> None:
        for one in self._opened:
            self._runner.run(one.close())


def settings(endpoint: str, timeout: float) -> Any:
    return SimpleNamespace(region="us-east-1", endpoint=endpoint, timeout=timeout)


# "session": async, over one of the caller's that was never asked for credentials.
EVERY_KIND = pytest.mark.parametrize("kind", ["sync", "async", "session"], indirect=True)


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    if request.param == "sync":
        yield Sync()
        return
    with asyncio.Runner() as runner:
        kind = Async(runner, session=aioboto3.Session() if request.param == "session" else None)
        yield kind
        kind.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """SQS, as far as it takes every message."""
    with proxy_before("http://127.0.0.1:9") as proxy:
        proxy.intercept = lambda request, forward: SENT
        yield proxy


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with container_endpoint() as issuer:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", issuer.url)
        yield issuer


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    with metadata_endpoint() as issuer:
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", issuer.url)
        yield issuer


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Issuer]:
    token = tmp_path / "token"
    token.write_text("a token of the cluster's")
    with sts_endpoint() as issuer:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", issuer.url)
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/jobs")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(token))
        yield issuer


def signers(proxy: Proxy) -> list[str]:
    return [signer_of(exchange.request) for exchange in proxy.exchanges]


def publish_for(seconds: float, publisher: Publisher) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        publisher.publish()
        time.sleep(0.1)


@pytest.mark.parametrize("where", ["container", "sts"])
def test_requests_are_signed_with_credentials_that_have_not_expired(
    kind: Kind, proxy: Proxy, request: pytest.FixtureRequest, where: str
) -> None:
    issuer: Issuer = request.getfixturevalue(where)
    issuer.seconds = LIFE
    publish_for(2 * LIFE, kind.queue(proxy.url))
    used = [issuer.of(exchange.request) for exchange in proxy.exchanges]
    assert len({keys.access_key for keys in used}) >= 3
    for exchange, keys in zip(proxy.exchanges, used, strict=True):
        assert keys.given <= exchange.request.at <= keys.expires


@pytest.mark.parametrize("way", ["queue", "over_a_callable", "of_a_group"])
def test_a_client_made_before_there_were_any_is_made_anew(
    kind: Kind, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    publisher: Publisher = getattr(kind, way)(proxy.url)
    for _ in range(2):
        with pytest.raises(BackendError, match="give this process AWS credentials") as raised:
            publisher.publish()
        assert raised.value.denied
    assert proxy.exchanges == []
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "LATE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    publisher.publish()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NEVER")
    publisher.publish()
    assert signers(proxy) == ["LATE", "LATE"]


@pytest.mark.parametrize(
    ("way", "where"), [("queue", "sts"), ("over_a_callable", "container"), ("of_a_group", "sts")]
)
def test_a_lookup_that_fails_is_worth_another_try(
    kind: Kind, proxy: Proxy, request: pytest.FixtureRequest, way: str, where: str
) -> None:
    issuer: Issuer = request.getfixturevalue(where)
    issuer.failing = 500
    publisher: Publisher = getattr(kind, way)(proxy.url)
    with pytest.raises(BackendError, match="where the AWS credentials come from") as raised:
        publisher.claim()
    assert raised.value.retryable
    assert raised.value.__cause__ is not None
    issuer.failing = None
    publisher.claim()
    assert signers(proxy) == ["KEY0"]


def test_one_that_fails_later_is_worth_another_try_too(
    kind: Kind, proxy: Proxy, sts: Issuer
) -> None:
    sts.seconds = 1
    publisher = kind.queue(proxy.url)
    publisher.claim()
    sts.failing = 500
    time.sleep(1)
    with pytest.raises(BackendError, match="where the AWS credentials come from") as raised:
        publisher.claim()
    assert raised.value.retryable
    sts.failing = None
    publisher.claim()
    assert signers(proxy) == ["KEY0", "KEY1"]


def test_credentials_that_had_expired_when_they_came_are_looked_up_again(
    kind: Kind, proxy: Proxy, container: Issuer
) -> None:
    container.seconds = 1
    publisher = kind.queue(proxy.url)
    publisher.claim()
    container.seconds = -1
    with pytest.raises(BackendError, match="still expired") as raised:
        publisher.claim()
    assert raised.value.retryable
    container.seconds = 60
    publisher.claim()


def test_a_web_identity_whose_token_is_gone_is_worth_another_try(
    kind: Kind, proxy: Proxy, sts: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    text = token.read_text()
    token.unlink()
    publisher = kind.queue(proxy.url)
    with pytest.raises(BackendError, match=r"FileNotFoundError.*credentials come from") as raised:
        publisher.claim()
    assert raised.value.retryable
    token.write_text(text)
    publisher.claim()
    assert signers(proxy) == ["KEY0"]


@pytest.mark.parametrize("left", ["", "a t"])
def test_a_token_file_that_is_empty_or_cut_short_is_named_and_worth_another_try(
    kind: Kind, proxy: Proxy, sts: Issuer, tmp_path: Path, left: str
) -> None:
    token = tmp_path / "token"
    text = token.read_text()
    token.write_text(left)
    publisher = kind.queue(proxy.url)
    with pytest.raises(BackendError, match="token file that AWS_WEB_IDENTITY_TOKEN_FILE") as raised:
        publisher.claim()
    assert raised.value.retryable
    token.write_text(text)
    publisher.claim()
    assert signers(proxy) == ["KEY0"]


@pytest.mark.parametrize("answer", ["<html>Welcome<br></html>", "<Key>Welcome", ""])
def test_an_answer_to_a_lookup_that_cannot_be_read_is_worth_another_try_and_not_shown(
    kind: Kind, proxy: Proxy, sts: Issuer, answer: str
) -> None:
    sts.another = (200, {"Content-Type": "text/html"}, answer.encode())
    publisher = kind.queue(proxy.url)
    said = "ResponseParserError: Unable to parse .*; try again, .* where the AWS credentials come"
    with pytest.raises(BackendError, match=said) as raised:
        publisher.claim()
    assert raised.value.retryable
    assert "Welcome" not in str(raised.value)
    sts.another = None
    publisher.claim()
    assert signers(proxy) == ["KEY0"]


def test_a_role_that_nobody_may_take_is_named(kind: Kind, proxy: Proxy, sts: Issuer) -> None:
    sts.failing = 403
    said = "AssumeRoleWithWebIdentity failed: AccessDenied: not you; check the role"
    with pytest.raises(BackendError, match=said) as raised:
        kind.queue(proxy.url).claim()
    assert raised.value.denied
    assert not raised.value.retryable


@EVERY_KIND
def test_a_lookup_is_one_attempt_with_each_of_ours(kind: Kind, proxy: Proxy, sts: Issuer) -> None:
    sts.failing = 500
    publisher = kind.of_a_group(proxy.url)
    with pytest.raises(BackendError, match="AssumeRoleWithWebIdentity failed") as raised:
        publisher.claim()
    assert raised.value.retryable
    assert sts.asked == 1


@EVERY_KIND
def test_a_lookup_that_hangs_takes_no_longer_than_the_timeout(
    kind: Kind, proxy: Proxy, sts: Issuer
) -> None:
    """A container's endpoint has bounds of botocore's own: three tries of 2 s each."""
    released = threading.Event()
    sts.hold = released.wait
    began = time.monotonic()
    with pytest.raises(BackendError) as raised:
        kind.of_a_group(proxy.url, timeout=1).claim()
    took = time.monotonic() - began
    released.set()
    assert raised.value.retryable
    assert took < 4
    assert sts.asked == 1


def test_a_session_that_two_loops_share_looks_up_credentials_for_each(
    proxy: Proxy, container: Issuer
) -> None:
    container.seconds = 1
    container.hold = lambda: time.sleep(0.05)
    session = aioboto3.Session(region_name="us-east-1")
    errors: list[BaseException] = []

    async def publish(meanwhile: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        client = async_backend.open_client(settings(proxy.url, 25), session=session)
        async with client as opened:
            queue = async_backend(QueueDefinition(url=URL), client=opened)
            thread = meanwhile and threading.Thread(target=_kept, args=(meanwhile, errors))
            if thread:
                thread.start()
            end = time.monotonic() + 2
            while time.monotonic() < end:
                await asyncio.gather(*(queue.publish(Message("hello")) for _ in range(8)))
            if thread:
                await asyncio.to_thread(thread.join)

    asyncio.run(publish(publish))
    assert errors == []
    assert len(proxy.exchanges) >= 16
    for exchange in proxy.exchanges:
        assert exchange.request.at <= container.of(exchange.request).expires


def _kept(run: Callable[[], Coroutine[Any, Any, None]], errors: list[BaseException]) -> None:
    try:
        asyncio.run(run())
    except BaseException as error:  # noqa: BLE001 - the test looks at it
        errors.append(error)


class Vault:
    """A provider of credentials that is none of botocore's."""

    METHOD = CANONICAL_NAME = "vault"

    async def load(self) -> Any:
        return AioCredentials("VAULT", "secret", method="vault")


class TestASessionOfTheCallers:
    def signer(self, proxy: Proxy, session: Any) -> str:
        async def publish() -> None:
            client = async_backend.open_client(settings(proxy.url, 25), session=session)
            async with client as opened:
                queue = async_backend(QueueDefinition(url=URL), client=opened)
                await queue.publish(Message("hello"))

        asyncio.run(publish())
        return signers(proxy)[-1]

    def test_it_signs_with_the_keys_that_it_was_given(
        self, proxy: Proxy, container: Issuer
    ) -> None:
        session = aioboto3.Session(aws_access_key_id="GIVEN", aws_secret_access_key="secret")
        assert self.signer(proxy, session) == "GIVEN"
        assert container.asked == 0

    def test_with_credentials_of_the_caller_s_making_they_count(
        self, proxy: Proxy, container: Issuer
    ) -> None:
        from aiobotocore.credentials import AioRefreshableCredentials

        def refreshed() -> dict[str, str]:
            return {
                "access_key": "ASSUMED",
                "secret_key": "secret",
                "token": "token",
                "expiry_time": "2099-01-01T00:00:00Z",
            }

        core: Any = get_session()
        core._credentials = AioRefreshableCredentials.create_from_metadata(  # noqa: SLF001
            metadata=refreshed(), refresh_using=refreshed, method="assume-role"
        )
        assert self.signer(proxy, aioboto3.Session(botocore_session=core)) == "ASSUMED"
        assert container.asked == 0

    def test_what_it_looked_up_for_others_stays_theirs(
        self, proxy: Proxy, container: Issuer
    ) -> None:
        session: Any = aioboto3.Session()

        async def look_up() -> str:
            found = await session.get_credentials()
            return (await found.get_frozen_credentials()).access_key

        assert asyncio.run(look_up()) == "KEY0"
        assert self.signer(proxy, session) == "KEY1"
        assert asyncio.run(look_up()) == "KEY0"

    def test_with_a_provider_of_the_caller_s_it_asks_that_one(
        self, proxy: Proxy, container: Issuer
    ) -> None:
        core: Any = get_session()
        core.get_component("credential_provider").insert_before("env", Vault())
        assert self.signer(proxy, aioboto3.Session(botocore_session=core)) == "VAULT"

    def test_with_a_chain_of_the_caller_s_that_nothing_asked_yet_it_asks_that_one(
        self, proxy: Proxy, container: Issuer
    ) -> None:
        core: Any = get_session()
        own: list[Any] = [Vault()]
        core._components.lazy_register_component(  # noqa: SLF001
            "credential_provider", lambda: AioCredentialResolver(own)
        )
        assert self.signer(proxy, aioboto3.Session(botocore_session=core)) == "VAULT"


def test_a_redirect_is_not_followed(
    kind: Kind, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with proxy_before("http://127.0.0.1:9") as elsewhere:
        elsewhere.intercept = lambda request, forward: SENT
        proxy.intercept = lambda request, forward: Reply(307, {}, {"Location": elsewhere.url})
        with pytest.raises(BackendError):
            kind.of_a_group(proxy.url).publish()
        assert proxy.exchanges
        assert elsewhere.exchanges == []


@pytest.mark.parametrize("default", [None, AioConfig(retries={"total_max_attempts": 2})])
def test_nor_over_a_session_of_the_caller_s(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch, default: AioConfig | None
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    core: Any = get_session()
    core.set_default_client_config(default)
    session = aioboto3.Session(botocore_session=core)

    async def publish() -> None:
        client = async_backend.open_client(settings(proxy.url, 25), session=session)
        async with client as opened:
            queue = async_backend(QueueDefinition(url=URL), client=opened)
            with pytest.raises(BackendError):
                await queue.publish(Message("hello"))

    with proxy_before("http://127.0.0.1:9") as elsewhere:
        elsewhere.intercept = lambda request, forward: SENT
        proxy.intercept = lambda request, forward: Reply(307, {}, {"Location": elsewhere.url})
        asyncio.run(publish())
        assert proxy.exchanges
        assert elsewhere.exchanges == []


@EVERY_KIND
@pytest.mark.parametrize("where", ["sts", "container", "instance"])
def test_a_lookup_follows_no_redirect(
    kind: Kind,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    where: str,
) -> None:
    # Three seconds between the tries to ask a container's endpoint would show nothing more.
    monkeypatch.setattr(ContainerMetadataFetcher, "SLEEP_TIME", 0)
    issuer: Issuer = request.getfixturevalue(where)
    publisher = kind.of_a_group(proxy.url)
    with sts_endpoint() if where == "sts" else metadata_endpoint() as elsewhere:
        issuer.another = (307, {"Location": elsewhere.url}, b"")
        with pytest.raises(BackendError):
            publisher.claim()
        assert issuer.asked
        assert elsewhere.asked == 0
    issuer.another = None
    publisher.claim()
    assert signers(proxy) == ["KEY0"]


def test_a_cookie_is_not_sent_back(
    kind: Kind, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    given = Reply(200, SENT.body, {**SENT.headers, "Set-Cookie": "AWSALB=sticky; Path=/"})
    proxy.intercept = lambda request, forward: given
    # No cookie of a host that is an address is kept by anybody.
    publisher = kind.of_a_group(proxy.url.replace("127.0.0.1", "localhost"))
    publisher.publish()
    publisher.publish()
    assert [exchange.request.headers.get("Cookie") for exchange in proxy.exchanges] == [None, None]


def test_an_endpoint_for_credentials_that_may_not_be_one_is_a_mistake(
    kind: Kind, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/credentials")
    with pytest.raises(ConfigurationError, match=r"example\.com"):
        kind.queue(proxy.url).publish()


def test_an_endpoint_of_the_aws_profile_leads_no_connection_of_the_environment_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = tmp_path / "config"
    profile.write_text("[default]\nendpoint_url = http://127.0.0.1:9\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(profile))
    connection = SimpleNamespace(region="eu-west-1", endpoint=None, timeout=25)

    async def endpoint() -> str:
        async with async_backend.open_client(connection) as client:
            return client.meta.endpoint_url

    client = sync_backend.make_client(connection)
    assert client.meta.endpoint_url == "https://sqs.eu-west-1.amazonaws.com"
    assert asyncio.run(endpoint()) == "https://sqs.eu-west-1.amazonaws.com"
    client.close()
