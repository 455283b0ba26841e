"""Every wrong argument ends in an error of jobq's that names it and says what to do."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from programs import run

from jobq.core import (
    BackendError,
    BackendNotInstalledError,
    ConfigurationError,
    DelayTooLongError,
    InvalidMessageError,
    JobqError,
    JobRequest,
    Lease,
    Message,
    MessageTooLargeError,
    QueueGroup,
    QueueNotFoundError,
    RetryAfter,
    RetryPolicy,
    UnknownQueueError,
    UnsupportedFeatureError,
)
from jobq.sqs.fifo import SqsFifoQueue
from jobq.sqs.standard import SqsStandardQueue
from jobq.worker import Worker
from jobq.worker.cli.local import local_environment, local_sqs

REFUSING = "http://127.0.0.1:1"
LIMIT = 1_048_576


@dataclass(frozen=True, slots=True)
class Row:
    """Arguments of `enqueue`, the error they end in, and what its text must hold: value, remedy."""

    arguments: tuple[Any, ...]
    error: type[JobqError]
    said: tuple[str, ...]
    options: Mapping[str, Any] | None = None


REFUSED = {
    "an unknown queue": Row(
        ("defualt", "greet"), UnknownQueueError, ("'defualt'", "'default'", "'ledger'")
    ),
    "a missing group id": Row(
        ("ledger", "greet"), InvalidMessageError, ("message_group_id", "FIFO")
    ),
    "a payload that is no mapping": Row(
        ("default", "greet", [1]), InvalidMessageError, ("payload", "list", "mapping")
    ),
    "a payload that is no JSON": Row(
        ("default", "greet", {"on": date(2026, 1, 2)}), InvalidMessageError, ("payload", "date")
    ),
    "a number that is no JSON": Row(
        ("default", "greet", {"n": float("nan")}), InvalidMessageError, ("payload", "nan")
    ),
    "a body over the limit": Row(
        ("default", "greet", {"text": "x" * LIMIT}), MessageTooLargeError, (str(LIMIT), "bytes")
    ),
    "a job type that is empty": Row(("default", ""), InvalidMessageError, ("job_type", "''")),
    "a delay over the limit": Row(
        ("default", "greet"), DelayTooLongError, ("901", "900"), {"delay_seconds": 901}
    ),
    "a delay on FIFO": Row(
        ("ledger", "greet"),
        UnsupportedFeatureError,
        ("5", "FIFO"),
        {"delay_seconds": 5, "message_group_id": "a"},
    ),
    "attempts that are none": Row(
        ("default", "greet"), InvalidMessageError, ("max_attempts", "0"), {"max_attempts": 0}
    ),
}


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with local_sqs() as endpoint:
        SqsStandardQueue.create("default", endpoint_url=endpoint).close()
        SqsFifoQueue.create("ledger", endpoint_url=endpoint).close()
        yield endpoint


class Shop:
    """A group on real queues, and every request that its client makes."""

    def __init__(
        self, endpoint: str, *, session: Any = None, read_timeout: float = 60, **names: str
    ) -> None:
        session = session or boto3.session.Session()
        client = self.client = session.client(
            "sqs",
            endpoint_url=endpoint,
            config=Config(retries={"total_max_attempts": 1}, read_timeout=read_timeout),
        )
        self.default = SqsStandardQueue("default", client=client)
        self.requests: list[str] = []
        client.meta.events.register("before-send.sqs", self._note)
        queues = {"default": {"name": "default"}, "ledger": {"name": "ledger.fifo"}}
        queues |= {name: {"name": value} for name, value in names.items()}
        self.queues = QueueGroup.build(client=client, queues=queues)

    def _note(self, request: Any, **_: Any) -> None:
        self.requests.append(request.headers["X-Amz-Target"].decode())


def assert_said(error: JobqError, *texts: str) -> None:
    for text in texts:
        assert text in str(error)


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
def test_what_can_not_be_sent_is_refused_before_any_request(row: Row, endpoint: str) -> None:
    shop = Shop(endpoint)
    with pytest.raises(row.error) as raised:
        shop.queues.enqueue(*row.arguments, **(row.options or {}))
    assert_said(raised.value, *row.said)
    assert shop.requests == []


@pytest.mark.parametrize("row", REFUSED.values(), ids=REFUSED)
def test_a_batch_with_one_such_item_is_refused_before_any_request(row: Row, endpoint: str) -> None:
    shop = Shop(endpoint)
    queue, *job = row.arguments
    good = JobRequest("greet", message_group_id="a" if queue == "ledger" else None)
    with pytest.raises(row.error) as raised:
        shop.queues.enqueue_batch(queue, [good, JobRequest(*job, **(row.options or {}))])
    assert_said(raised.value, *row.said)
    assert shop.requests == []


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({"delay_seconds": 5}, ("5", "FIFO", "no single message")),
        ({"priority": 3}, ("priority", "3")),
    ],
    ids=["a delay", "a priority"],
)
def test_o6_what_fifo_has_not_is_refused_before_any_request(
    wish: dict[str, Any], said: tuple[str, ...], endpoint: str
) -> None:
    shop = Shop(endpoint)
    queue = SqsFifoQueue("ledger.fifo", client=shop.client)
    message = Message("x", group_id="g", **wish)
    with pytest.raises(UnsupportedFeatureError) as raised:
        queue.publish(message)
    assert_said(raised.value, *said)
    (result,) = queue.publish_batch([message])
    assert isinstance(result.error, UnsupportedFeatureError)
    assert_said(result.error, *said)
    assert shop.requests == []


HELD = Lease(
    message_id="m",
    body="{}",
    attributes={},
    receipt="r",
    receive_count=1,
    sent_at=0,
    expires_at=0,
)
LATE = 43_201


# Each asks for too long a wait, of which the limit is this.
TOO_LONG: dict[str, tuple[Callable[[Shop], object], int]] = {
    "send": (lambda shop: shop.queues.enqueue("default", "greet", delay_seconds=901), 900),
    "batch": (
        lambda shop: shop.queues.enqueue_batch("default", [JobRequest("greet", delay_seconds=901)]),
        900,
    ),
    "give back": (lambda shop: shop.default.nack(HELD, LATE), LATE - 1),
    "give back a batch": (lambda shop: shop.default.nack_batch([HELD], LATE), LATE - 1),
    "policy": (lambda shop: RetryPolicy(base_delay=LATE), LATE - 1),
    "RetryAfter": (lambda shop: RetryAfter(LATE), LATE - 1),
}


@pytest.mark.parametrize(("delay", "limit"), TOO_LONG.values(), ids=TOO_LONG)
def test_m7_what_is_to_wait_for_too_long_is_refused_before_any_request(
    delay: Callable[[Shop], object], limit: int, endpoint: str
) -> None:
    shop = Shop(endpoint)
    with pytest.raises(DelayTooLongError) as raised:
        delay(shop)
    assert_said(raised.value, str(limit), str(limit + 1))
    assert shop.requests == []


@pytest.mark.parametrize("read_timeout", [5, 20])
def test_l11_a_read_timeout_not_above_the_long_poll_is_refused_when_the_worker_starts(
    read_timeout: float, endpoint: str
) -> None:
    shop = Shop(endpoint, read_timeout=read_timeout)
    with pytest.raises(ConfigurationError) as raised:
        Worker(shop.queues, {"greet": print}).run()
    assert_said(raised.value, f"{read_timeout} s", "20 s", "idle_wait_seconds")
    assert "AmazonSQS.ReceiveMessage" not in shop.requests


def test_a_backend_that_is_not_installed_is_refused_when_the_group_is_built() -> None:
    with pytest.raises(BackendNotInstalledError) as raised:
        QueueGroup.build(queues={"default": {"name": "default", "backend": "sqs-fiffo"}})
    assert_said(raised.value, "'sqs-fiffo'", "memory", "sqs-fifo", "sqs-standard")


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({"nmae": "default"}, ("'nmae'", "name")),
        ({}, ("'queue'", "'name'", "'url'")),
        ({"name": "default", "url": "http://x/1/default"}, ("'name' and 'url'",)),
        ({"name": "no such name!"}, ("'no such name!'", "A-Z")),
        ({"name": "ledger", "backend": "sqs-standard", "claim_size": 11}, ("claim_size", "11")),
        ({"name": "default", "visibility_timeout": 43_201}, ("43201", "43200")),
    ],
    ids=["unknown key", "nothing", "too much", "bad name", "claim_size", "visibility_timeout"],
)
def test_a_definition_that_can_not_work_is_refused_when_the_group_is_built(
    definition: dict[str, Any], said: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        QueueGroup.build(queues={"default": definition})
    assert_said(raised.value, *said)


def test_a_queue_that_does_not_exist_is_named(endpoint: str) -> None:
    shop = Shop(endpoint, lost="lost-and-found")
    with pytest.raises(QueueNotFoundError) as raised:
        shop.queues.enqueue("lost", "greet")
    assert_said(raised.value, "'lost-and-found'", "create the queue", "region")
    assert isinstance(raised.value.__cause__, ClientError)
    assert shop.requests == ["AmazonSQS.GetQueueUrl"]


def test_credentials_that_are_missing_are_told_before_any_request(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    shop = Shop(endpoint, session=boto3.session.Session())
    with pytest.raises(BackendError) as raised:
        shop.queues.enqueue("default", "greet")
    assert_said(raised.value, "'default'", "credentials", "AWS_ACCESS_KEY_ID")
    assert raised.value.denied
    assert isinstance(raised.value.__cause__, BotoCoreError)
    assert shop.requests == []


def test_an_endpoint_that_refuses_is_named_and_worth_another_try() -> None:
    shop = Shop(REFUSING)
    with pytest.raises(BackendError) as raised:
        shop.queues.enqueue("default", "greet")
    assert_said(raised.value, REFUSING, "check the endpoint")
    assert raised.value.retryable
    assert isinstance(raised.value.__cause__, BotoCoreError)


@pytest.mark.parametrize("make", [SqsStandardQueue.create, SqsFifoQueue.create])
def test_a_region_that_is_missing_is_told_by_create(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigurationError) as raised:
        make("orders")
    assert_said(raised.value, "region_name=", "AWS_DEFAULT_REGION")


APPLICATION = """
from jobq.core import QueueGroup
from jobq.worker import Worker

queues = QueueGroup.build(queues={"default": {"name": "lost-and-found"}})
worker = Worker(queues, {"greet": print})
"""
# Ten tries of an endpoint take two minutes, with pauses of up to 30 s between them.
HASTE = """
import time

sleep = time.sleep
time.sleep = lambda seconds: sleep(seconds / 50)
"""


def not_started(folder: Path, environment: dict[str, str]) -> dict[str, Any]:
    """The one line with which a worker that can't start ends."""
    (folder / "shop.py").write_text(HASTE + APPLICATION)
    ended = run("jobq", "worker", "shop:worker", folder=folder, more=environment)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stdout + ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    (line,) = [line for line in lines if line["level"] not in {"info", "warning"}]
    assert lines[-1] == line
    assert line["event"] == "worker_not_started"
    return line


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ("'default'", "'lost-and-found'", "create the queue")),
        ({"AWS_ENDPOINT_URL_SQS": REFUSING}, ("'default'", REFUSING, "check the endpoint")),
        ({"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, ("'default'", "credentials")),
        ({"AWS_DEFAULT_REGION": None}, ("AWS_DEFAULT_REGION",)),
        ({"AWS_ENDPOINT_URL_SQS": "localhost"}, ("localhost", "endpoint")),
    ],
    ids=["no such queue", "refused", "no credentials", "no region", "no URL"],
)
def test_a_worker_that_can_not_start_exits_1_with_one_clear_line(
    changes: dict[str, str | None],
    said: tuple[str, ...],
    endpoint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in changes:
        monkeypatch.delenv(name, raising=False)
    environment = {**local_environment(endpoint), **changes}
    line = not_started(tmp_path, {name: text for name, text in environment.items() if text})
    for text in said:
        assert text in line["error"]


def test_a_worker_that_need_not_read_settings_ends_at_once_without_credentials(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    application = APPLICATION.replace('"lost-and-found"', '"default", "visibility_timeout": 30')
    (tmp_path / "shop.py").write_text(application)
    leading = {"AWS_ENDPOINT_URL_SQS": endpoint}
    ended = run("jobq", "worker", "shop:worker", folder=tmp_path, more=leading, seconds=20)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stdout + ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    (why,) = [line for line in lines if line["event"] == "worker_stopping"]
    assert "AWS_ACCESS_KEY_ID" in why["reason"]
    assert lines[-1]["event"] == "worker_stopped"
    assert lines[-1]["exit_code"] == 1
