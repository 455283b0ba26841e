"""What only a FIFO queue has, over moto's server."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from jobq.core import ConfigurationError, Message, QueueDefinition
from jobq.sqs.fifo import SqsFifoQueue, backend


@pytest.fixture
def name() -> str:
    return f"orders-{uuid4().hex}"


def test_a_queue_of_its_own_client_from_create_to_close(server: str, name: str) -> None:
    with SqsFifoQueue.create(name, endpoint_url=server) as queue:
        assert queue.name == f"{name}.fifo"
        queue.publish(Message('{"event": "paid"}', group_id="order-42"))
        lease = queue.claim(visibility=30, wait=2)
        assert lease is not None
        assert lease.group_id == "order-42"
        queue.extend(lease, 60)
        queue.nack(lease)
        again = queue.claim(visibility=30, wait=2)
        assert again is not None
        queue.ack(again)


def test_create_takes_the_name_with_its_suffix_too(client: Any, name: str) -> None:
    SqsFifoQueue.create(name, client=client, visibility_timeout=60)
    again = SqsFifoQueue.create(f"{name}.fifo", client=client)
    info = again.describe()
    assert (info.fifo, info.visibility_timeout) == (True, 60)


def test_its_dead_letter_queue_is_fifo(client: Any, name: str) -> None:
    dead = SqsFifoQueue.create(f"{name}-dead", client=client)
    queue = SqsFifoQueue.create(name, client=client, dead_letter_queue=dead, max_receive_count=2)
    found = queue.dead_letter_queue()
    assert type(found) is SqsFifoQueue
    assert found.name == f"{name}-dead.fifo"


def test_a_backend_adds_the_suffix_to_a_name_and_not_to_a_url(client: Any, name: str) -> None:
    SqsFifoQueue.create(name, client=client)
    assert backend(QueueDefinition(name=name), client=client).stats().waiting == 0
    with pytest.raises(ConfigurationError, match=r"names end in '\.fifo'"):
        backend(QueueDefinition(url=f"https://sqs/1/{name}"))


def test_a_long_batch_keeps_its_group_in_order(client: Any, name: str) -> None:
    queue = SqsFifoQueue.create(name, client=client)
    results = queue.publish_batch([Message(str(n), group_id="g") for n in range(25)])
    assert all(result.error is None for result in results)
    received: list[str] = []
    while leases := queue.claim_batch(10, visibility=30):
        received += [lease.body for lease in leases]
        queue.ack_batch(leases)
    assert received == [str(n) for n in range(25)]
