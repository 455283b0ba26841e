"""Making queues and their clients, over moto's server."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jobq.core import ConfigurationError, Message, QueueDefinition, QueueNotFoundError
from jobq.core.interfaces import ClientMaker, Connected
from jobq.sqs.standard import SqsStandardQueue, backend

UNREACHABLE = "http://127.0.0.1:9"


def test_a_queue_of_its_own_client_from_create_to_close(server: str, name: str) -> None:
    with SqsStandardQueue.create(name, endpoint_url=server) as queue:
        queue.publish(Message('{"event": "paid"}', delay_seconds=0))
        lease = queue.claim(visibility=30, wait=2)
        assert lease is not None
        queue.extend(lease, 60)
        queue.nack(lease)
        again = queue.claim(visibility=30, wait=2)
        assert again is not None
        assert again.receive_count == 2
        queue.ack(again)
        assert queue.stats().in_flight == 0


def test_create_never_changes_a_queue_that_is_there(client: Any, name: str) -> None:
    SqsStandardQueue.create(name, client=client, visibility_timeout=60)
    again = SqsStandardQueue.create(name, client=client, visibility_timeout=10)
    assert again.describe().visibility_timeout == 60


@pytest.mark.parametrize("way", ["queue", "name", "arn"])
def test_a_dead_letter_queue_may_be_given_in_any_way(client: Any, name: str, way: str) -> None:
    dead = SqsStandardQueue.create(f"{name}-dead", client=client)
    given = {"queue": dead, "name": f"{name}-dead", "arn": dead.arn()}[way]
    queue = SqsStandardQueue.create(
        name, client=client, dead_letter_queue=given, max_receive_count=3
    )
    info = queue.describe()
    assert (info.max_receive_count, info.dead_letter_queue) == (3, dead.arn())
    found = queue.dead_letter_queue()
    assert type(found) is SqsStandardQueue
    found.publish(Message("dead"))
    assert dead.stats().waiting == 1
    assert dead.dead_letter_queue() is None


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: SqsStandardQueue("https://sqs/1/orders.fifo"), "use the FIFO backend"),
        (lambda: SqsStandardQueue.create("orders.fifo"), "use the FIFO backend"),
        (lambda: SqsStandardQueue.create("my orders"), "'my orders'"),
        (lambda: SqsStandardQueue("orders", client=object(), region_name="eu"), "'eu'.*client="),
        (lambda: SqsStandardQueue.create("orders", visibility_timeout=43_201), "43201"),
        (lambda: backend(QueueDefinition(queue=SqsStandardQueue("orders"))), "'name' or a 'url'"),
    ],
)
def test_what_cannot_be_made_is_refused_before_any_call(make: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()


def test_a_backend_does_no_io(client: Any, name: str) -> None:
    SqsStandardQueue.create(name, client=client)
    by_name = backend(QueueDefinition(name=name), client=client)
    by_url = backend(QueueDefinition(url=f"{UNREACHABLE}/1/{name}"))
    assert by_name.name == by_url.name == name
    assert by_name.stats().waiting == 0
    assert isinstance(backend, ClientMaker)
    assert isinstance(by_name, Connected)


def test_a_name_that_does_not_exist_is_named_on_first_use(client: Any, name: str) -> None:
    queue = backend(QueueDefinition(name=name), client=client)
    with pytest.raises(QueueNotFoundError, match=f"GetQueueUrl on queue '{name}'.*create"):
        queue.publish(Message("hello"))


def test_many_threads_may_begin_at_once(server: str, name: str) -> None:
    with SqsStandardQueue.create(name, endpoint_url=server):
        queues = [SqsStandardQueue(name, endpoint_url=server) for _ in range(8)]

        def publish(number: int) -> str:
            return queues[number % 8].publish(Message(str(number)))

        with ThreadPoolExecutor(32) as pool:
            ids = list(pool.map(publish, range(32)))
        clients = {id(queue.connection().client) for queue in queues}
        for queue in queues:
            queue.close()
    assert len(set(ids)) == 32
    assert len(clients) == 8


def test_close_closes_the_queue_s_own_client_only(server: str, client: Any, name: str) -> None:
    handed_in = SqsStandardQueue.create(name, client=client)
    handed_in.close()
    assert handed_in.connection().client is client
    assert handed_in.stats().waiting == 0
    own = SqsStandardQueue(name, endpoint_url=server)
    before = own.connection().client
    own.close()
    assert own.connection().client is not before
    own.close()


def test_a_client_of_ours_tries_once_and_waits_longer_than_a_long_poll(server: str) -> None:
    with SqsStandardQueue("orders", endpoint_url=server) as queue:
        info = queue.connection()
        made: Any = info.client
        config = made.meta.config
    assert (info.max_connections, info.read_timeout) == (256, 30)
    assert config.retries == {"total_max_attempts": 1, "mode": "standard"}
    assert config.tcp_keepalive


FORKING = """
import os, sys
from jobq.core import Message
from jobq.sqs.standard import SqsStandardQueue
from jobq.sqs.standard.queue import SDK
from jobq.sqs.common.client import ClientOptions

url, name = sys.argv[1:]
own = SqsStandardQueue(name, endpoint_url=url)
shared = SqsStandardQueue(name, client=SDK.make_client(ClientOptions(endpoint_url=url)))
print(own.publish(Message("parent")), shared.publish(Message("parent")), flush=True)
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(own.publish(Message("child")), flush=True)
try:
    shared.publish(Message("child"))
except Exception as error:
    print(type(error).__name__, error, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system doesn't fork")
def test_after_a_fork_a_queue_makes_its_client_anew(client: Any, server: str, name: str) -> None:
    queue = SqsStandardQueue.create(name, client=client)
    result = subprocess.run(
        [sys.executable, "-c", FORKING, server, name],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "ConfigurationError a client used in process" in result.stdout
    assert queue.stats().waiting == 3


def test_a_group_s_client_that_cannot_be_made_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(ConfigurationError, match="set AWS_DEFAULT_REGION") as raised:
        backend.make_client()
    assert raised.value.__cause__ is not None
