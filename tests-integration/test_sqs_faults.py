"""What goes wrong between boto3 and a server, over real sockets, as a user of a queue sees it."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aioboto3
import boto3
import pytest
from aiobotocore.config import AioConfig
from botocore.config import Config

from jobq.core import (
    AsyncQueueGroup,
    BackendError,
    ConfigurationError,
    LeaseLostError,
    Message,
    QueueDefinition,
    QueueNotFoundError,
)
from jobq.core.interfaces import ClientMaker, Connected
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.common.queue import SqsQueue
from jobq.sqs.fifo import AsyncSqsFifoQueue, SqsFifoQueue
from jobq.sqs.fifo import backend as fifo_backend
from jobq.sqs.standard import AsyncSqsStandardQueue, SqsStandardQueue
from jobq.sqs.standard import backend as standard_backend
from jobq.sqs.standard.queue import SDK

Kind = type[SqsQueue]
Answer = tuple[int, dict[str, Any]] | Callable[[BaseHTTPRequestHandler], None]
URLS: dict[Kind, str] = {
    SqsStandardQueue: "http://sqs/1/orders",
    SqsFifoQueue: "http://sqs/1/orders.fifo",
}
MESSAGE = Message("hello", group_id="g")


class Endpoint:
    """A server on loopback that gives its answers one by one, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict[str, Any]]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                operation = self.headers["X-Amz-Target"].rpartition(".")[2]
                endpoint.requests.append((operation, body))
                endpoint.answer(self)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        answer = self.answers.pop(0)
        if callable(answer):
            return answer(handler)
        status, reply = answer
        data = json.dumps(reply).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/x-amz-json-1.0")
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)
        return None

    @contextmanager
    def serving(self) -> Generator[Endpoint]:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def fault(code: str, text: str = "said so", status: int = 400) -> Answer:
    return status, {"__type": f"com.amazonaws.sqs#{code}", "message": text}


def nothing(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Half a reply."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
    handler.wfile.flush()
    handler.connection.shutdown(socket.SHUT_RDWR)


def hang(handler: BaseHTTPRequestHandler) -> None:
    time.sleep(1.5)


@pytest.fixture(params=[SqsStandardQueue, SqsFifoQueue], ids=["standard", "fifo"])
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


def boto3_client(url: str, config: Config) -> Any:
    session: Any = boto3.session.Session()
    return session.client("sqs", endpoint_url=url, config=config)


@contextmanager
def failing(kind: Kind, *answers: Answer) -> Generator[tuple[SqsQueue, Endpoint]]:
    """A queue with a client of its own at such an endpoint."""
    with (
        Endpoint(*answers).serving() as endpoint,
        kind(URLS[kind], endpoint_url=endpoint.url) as queue,
    ):
        yield queue, endpoint


@pytest.mark.parametrize(
    ("answer", "retryable", "throttled", "text"),
    [
        (fault("ServiceUnavailable", status=503), True, False, "ServiceUnavailable: said so"),
        (nothing, True, False, "503"),
        (fault("RequestThrottled"), True, True, "RequestThrottled.*slow down"),
        (fault("OverLimit", status=403), True, True, "OverLimit"),
        (cut, True, False, "check the endpoint"),
        (fault("ExpiredToken", status=403), True, False, "expired"),
    ],
    ids=["503", "503 without a body", "throttled", "in-flight limit", "cut off", "expired token"],
)
def test_what_may_pass_is_retryable(
    kind: Kind,
    answer: Answer,
    retryable: bool,  # noqa: FBT001
    throttled: bool,  # noqa: FBT001
    text: str,
) -> None:
    with failing(kind, answer) as (queue, endpoint):
        with pytest.raises(BackendError, match=rf"'{queue.name}' failed.*{text}") as raised:
            queue.claim(visibility=30)
        assert (raised.value.retryable, raised.value.throttled) == (retryable, throttled)
        assert raised.value.__cause__ is not None
        assert len(endpoint.requests) == 1


def test_an_endpoint_that_never_answers(kind: Kind) -> None:
    config = Config(read_timeout=0.3, retries={"total_max_attempts": 1})
    with Endpoint(hang).serving() as endpoint:
        client = boto3_client(endpoint.url, config)
        with pytest.raises(BackendError, match=r"Read timeout on endpoint.*127") as raised:
            kind(URLS[kind], client=client).claim(visibility=30)
        client.close()
    assert raised.value.retryable


def test_an_endpoint_that_refuses(kind: Kind) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with (
            kind(URLS[kind], endpoint_url=url) as queue,
            pytest.raises(BackendError, match=f"{url}.*check the endpoint") as raised,
        ):
            queue.publish(MESSAGE)
    assert raised.value.retryable
    assert not raised.value.denied
    assert raised.value.__cause__ is not None


def test_no_credentials(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with (
        kind(URLS[kind], endpoint_url="http://127.0.0.1:9") as queue,
        pytest.raises(BackendError, match=r"credentials.*AWS_ACCESS_KEY_ID") as raised,
    ):
        queue.publish(MESSAGE)
    assert raised.value.denied
    assert not raised.value.retryable
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize("variable", ["AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID"])
def test_credentials_with_a_line_break_are_in_no_message(
    kind: Kind, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "FwoGZXIvYXdzEXAMPLE\n")
    with (
        kind(URLS[kind], endpoint_url="http://127.0.0.1:9") as queue,
        pytest.raises(BackendError, match=r"line break.*credentials") as raised,
    ):
        queue.publish(MESSAGE)
    assert raised.value.denied
    assert "FwoG" not in str(raised.value)


def test_no_region(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigurationError, match=r"region_name=.*AWS_DEFAULT_REGION") as raised:
        kind(URLS[kind]).publish(MESSAGE)
    assert raised.value.__cause__ is not None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"endpoint_url": "localhost:4566"}, "localhost:4566"),
        ({"region_name": "not a region"}, "not a region"),
    ],
)
def test_options_that_no_client_can_be_made_with(
    kind: Kind, options: dict[str, str], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=text) as raised:
        kind(URLS[kind], **options).publish(MESSAGE)
    assert raised.value.__cause__ is not None


def test_a_profile_that_does_not_exist(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigurationError, match=r"nobody.*AWS_PROFILE"):
        kind(URLS[kind]).publish(MESSAGE)


@pytest.mark.parametrize("code", ["AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"])
def test_p9_a_missing_queue_is_one_error_however_it_is_spelled(kind: Kind, code: str) -> None:
    with (
        failing(kind, fault(code)) as (queue, _),
        pytest.raises(QueueNotFoundError, match=f"'{queue.name}'.*create the queue"),
    ):
        queue.publish(MESSAGE)


@pytest.mark.parametrize("reply", [{}, {"Messages": []}, {"Messages": None}])
def test_p9_a_reply_without_messages_is_nothing_received(kind: Kind, reply: dict[str, Any]) -> None:
    with failing(kind, (200, reply), (200, reply)) as (queue, endpoint):
        assert queue.claim(visibility=30) is None
        assert queue.claim_batch(10, visibility=30) == []
        assert len(endpoint.requests) == 2


def test_a_role_that_may_not(kind: Kind) -> None:
    with (
        failing(kind, fault("AccessDeniedException", status=403)) as (queue, _),
        pytest.raises(BackendError, match="grant this role sqs:ReceiveMessage") as raised,
    ):
        queue.claim(visibility=30)
    assert raised.value.denied


def test_a_web_server_that_is_not_sqs(kind: Kind) -> None:
    def page(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n<html>hello</html>")

    with (
        failing(kind, page, page, page) as (queue, _),
        pytest.raises(BackendError, match="check that the endpoint is one of SQS"),
    ):
        queue.publish(MESSAGE)


OTHER_SHAPES: list[Any] = [None, [], "Messages", {"Messages": "m"}, {"Messages": [{}]}]


@pytest.mark.parametrize("reply", OTHER_SHAPES, ids=str)
def test_json_of_another_shape_is_an_error_of_jobq_s_and_worth_another_try(
    kind: Kind, reply: Any
) -> None:
    said = "check that the endpoint is one of SQS"
    with failing(kind, *[(200, reply)] * 2) as (queue, _):
        for ask in (lambda: queue.claim(visibility=30), queue.stats):
            with pytest.raises(BackendError, match=said) as raised:
                ask()
            assert raised.value.retryable


def test_a_receipt_that_is_no_longer_good(kind: Kind) -> None:
    received = {"Messages": [{"MessageId": "m", "Body": "b", "ReceiptHandle": "r"}]}
    lost = fault("MessageNotInflight")
    with failing(kind, (200, received), lost) as (queue, _):
        lease = queue.claim(visibility=30)
        assert lease is not None
        with pytest.raises(LeaseLostError):
            queue.extend(lease, 30)


def test_l4_a_send_is_tried_three_times_and_is_one_message(kind: Kind) -> None:
    answers = (fault("ServiceUnavailable", status=503), cut, (200, {"MessageId": "m"}))
    with failing(kind, *answers) as (queue, endpoint):
        assert queue.publish(MESSAGE) == "m"
        ids = [body.get("MessageDeduplicationId") for _, body in endpoint.requests]
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert (ids[0] is not None) == (kind is SqsFifoQueue)


@pytest.mark.parametrize("way", ["a client of its own", "the client of a group"])
@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_l4_an_awaited_send_is_tried_three_times_and_is_one_message(
    fifo: bool,  # noqa: FBT001
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = URLS[SqsFifoQueue if fifo else SqsStandardQueue]
    kind = AsyncSqsFifoQueue if fifo else AsyncSqsStandardQueue

    async def send(endpoint: str) -> str:
        if way == "a client of its own":
            async with kind(url, endpoint_url=endpoint) as queue:
                return await queue.publish(MESSAGE)
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", endpoint)
        group = AsyncQueueGroup({"orders": {"url": url}})
        async with group:
            return await group.enqueue("orders", "pay", message_group_id="g")

    answers = (fault("ServiceUnavailable", status=503), cut, (200, {"MessageId": "m"}))
    with Endpoint(*answers).serving() as endpoint:
        assert asyncio.run(send(endpoint.url)) == "m"
        ids = [body.get("MessageDeduplicationId") for _, body in endpoint.requests]
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert (ids[0] is not None) == fifo


def test_an_awaited_client_that_was_handed_in_keeps_its_own_retries() -> None:
    async def publish(endpoint: str) -> None:
        config = AioConfig(retries={"total_max_attempts": 2, "mode": "standard"})
        session: Any = aioboto3.Session()
        async with session.client("sqs", endpoint_url=endpoint, config=config) as client:
            await AsyncSqsStandardQueue(URLS[SqsStandardQueue], client=client).publish(MESSAGE)

    with Endpoint(*[fault("ServiceUnavailable", status=503)] * 2).serving() as endpoint:
        with pytest.raises(BackendError):
            asyncio.run(publish(endpoint.url))
        assert len(endpoint.requests) == 2


def test_a_client_that_was_handed_in_keeps_its_own_retries(kind: Kind) -> None:
    config = Config(retries={"total_max_attempts": 2, "mode": "standard"})
    with Endpoint(*[fault("ServiceUnavailable", status=503)] * 2).serving() as endpoint:
        client = boto3_client(endpoint.url, config)
        with pytest.raises(BackendError) as raised:
            kind(URLS[kind], client=lambda: client).publish(MESSAGE)
        client.close()
        assert len(endpoint.requests) == 2
    assert raised.value.retryable


def test_the_client_of_a_group_is_one_of_ours(kind: Kind) -> None:
    assert isinstance(standard_backend, ClientMaker)
    with Endpoint(*[fault("InternalError", status=500)] * 3).serving() as endpoint:
        client = SDK.make_client(ClientOptions(endpoint_url=endpoint.url))
        backend = fifo_backend if kind is SqsFifoQueue else standard_backend
        queue = backend(QueueDefinition(url=URLS[kind]), client=lambda: client)
        assert isinstance(queue, Connected)
        info = queue.connection()
        assert (info.client, info.max_connections, info.read_timeout) == (client, 256, 30)
        with pytest.raises(BackendError):
            queue.publish(MESSAGE)
        assert len(endpoint.requests) == 3
        queue.close()
        endpoint.answers.append((200, {}))
        assert queue.claim(visibility=30) is None
        client.close()


def test_a_lost_fifo_receive_is_asked_again_with_the_next_claim() -> None:
    with failing(SqsFifoQueue, cut, (200, {}), (200, {})) as (queue, endpoint):
        with pytest.raises(BackendError):
            queue.claim(visibility=30)
        queue.claim(visibility=30)
        queue.claim(visibility=30)
        first, again, fresh = (body["ReceiveRequestAttemptId"] for _, body in endpoint.requests)
    assert first == again != fresh


def test_create_waits_for_an_endpoint_that_starts_up(kind: Kind) -> None:
    answers = (cut, fault("QueueDoesNotExist"), (200, {"QueueUrl": URLS[kind]}))
    with Endpoint(*answers).serving() as endpoint:
        with kind.create("orders", endpoint_url=endpoint.url) as queue:
            assert queue.name == URLS[kind].rpartition("/")[2]
        operations = [operation for operation, _ in endpoint.requests]
    assert operations == ["GetQueueUrl", "GetQueueUrl", "CreateQueue"]
