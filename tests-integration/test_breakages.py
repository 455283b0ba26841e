"""The proxy breaks what it says it does: what reaches the server, what a client makes of it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import breakages
import pytest
from bench import Bench
from breakages import Mischief
from faults import both, refuse_first
from sqs_proxy import Intercept

from jobq.core import BackendError, Message
from jobq.sqs.common.client import ClientOptions
from jobq.sqs.standard import SqsStandardQueue
from jobq.sqs.standard.queue import SDK

BEFORE_THE_SERVER: dict[str, Intercept] = {
    "unsent": breakages.unsent,
    "silent": breakages.silent(30),
    "maintenance": breakages.maintenance,
    "nothing": breakages.nothing,
    "garbage": breakages.garbage,
    "moved": breakages.moved,
    "error with 200": breakages.error_with_200,
    "bad gateway": breakages.bad_gateway,
    "throttled": breakages.throttled,
    "unavailable": breakages.unavailable,
}
BEHIND_THE_SERVER: dict[str, Intercept] = {
    "unanswered": breakages.unanswered,
    "reset midway": breakages.reset_midway,
    "cut short": breakages.cut_short,
    "cut in headers": breakages.cut_in_headers,
    "halved": breakages.halved,
}


@contextmanager
def through(bench: Bench, intercept: Intercept) -> Generator[SqsStandardQueue]:
    """A queue with one message, over a client of short patience."""
    queue = bench.queue("jobs")
    queue.publish(Message("hello"))
    config = {**ClientOptions().config, "read_timeout": 1}
    client = SDK.make_client(ClientOptions(endpoint_url=bench.proxy.url, config=config))
    url = client.get_queue_url(QueueName=queue.name)["QueueUrl"]
    bench.proxy.served.clear()
    bench.proxy.intercept = intercept
    try:
        yield SqsStandardQueue(url, client=client)
    finally:
        client.close()


@pytest.mark.parametrize("name", BEFORE_THE_SERVER)
def test_a_receive_that_never_reaches_the_server_has_failed(bench: Bench, name: str) -> None:
    with (
        through(bench, BEFORE_THE_SERVER[name]) as queue,
        pytest.raises(BackendError) as raised,
    ):
        queue.claim(visibility=30)
    assert raised.value.retryable
    assert bench.proxy.served == []


@pytest.mark.parametrize("name", BEHIND_THE_SERVER)
def test_a_receive_whose_reply_is_broken_has_failed_and_its_message_is_in_flight(
    bench: Bench, name: str
) -> None:
    with (
        through(bench, BEHIND_THE_SERVER[name]) as queue,
        pytest.raises(BackendError) as raised,
    ):
        queue.claim(visibility=30)
    assert raised.value.retryable
    assert len(bench.served.received) == 1
    assert bench.traffic.received == []


def test_a_connection_that_is_reset_before_it_is_read_from(bench: Bench) -> None:
    with through(bench, breakages.late(0)) as queue:
        bench.proxy.welcome = lambda: False
        client: Any = queue.connection().client
        client.close()  # so that the next request needs a connection of its own
        with pytest.raises(BackendError, match="check the endpoint"):
            queue.claim(visibility=30)
        bench.proxy.welcome = lambda: True
        assert queue.claim(visibility=30) is not None


def test_one_fault_stands_behind_another(bench: Bench) -> None:
    refuse = refuse_first(1, lambda request: True, "RequestThrottled")
    with through(bench, both(refuse, breakages.cut_short)) as queue:
        with pytest.raises(BackendError, match="RequestThrottled"):
            queue.claim(visibility=30)
        with pytest.raises(BackendError, match="Connection"):
            queue.claim(visibility=30)


def test_mischief_follows_from_its_seed_and_is_bounded(bench: Bench) -> None:
    def counts(seed: int) -> dict[str, int]:
        faults = {"late": breakages.late(0), "throttled": breakages.throttled}
        mischief = Mischief(seed, share=0.5, most=12, faults=faults)
        with through(bench, mischief) as queue:
            for _ in range(60):
                with suppress(BackendError):
                    queue.stats()
        return dict(mischief.counts)

    assert counts(1) == counts(1)
    assert sum(counts(2).values()) == 12
