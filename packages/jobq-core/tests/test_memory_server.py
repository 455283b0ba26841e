"""Which in-memory queues are one and the same, and which can't be made."""

from __future__ import annotations

from typing import Any

import pytest

from jobq.core import ConfigurationError, Message, QueueGroup, QueueNotFoundError
from jobq.core.backends import find_backend
from jobq.core.definitions import QueueDefinition
from jobq.core.interfaces import ClientMaker
from jobq.core.memory import ManualClock, MemoryQueue, MemoryServer, backend


def test_queues_made_apart_share_nothing() -> None:
    MemoryQueue("jobs").publish(Message("mine"))
    assert MemoryQueue("jobs").claim() is None


def test_one_name_on_one_server_is_one_queue() -> None:
    server = MemoryServer()
    MemoryQueue("jobs", server=server).publish(Message("ours"))
    assert MemoryQueue("jobs", server=server).claim()
    assert MemoryQueue("others", server=server).claim() is None


def test_a_queue_that_exists_stays_as_it_is() -> None:
    server = MemoryServer()
    MemoryQueue("jobs", visibility_timeout=7, server=server)
    assert MemoryQueue("jobs", server=server).describe().visibility_timeout == 7


def test_the_suffix_makes_a_queue_fifo() -> None:
    assert MemoryQueue("ledger.fifo").describe().fifo
    assert not MemoryQueue("ledger").describe().fifo


def test_the_suffix_is_added_where_fifo_is_asked_for() -> None:
    assert MemoryQueue("ledger", fifo=True).name == "ledger.fifo"


def test_a_smaller_limit_of_the_queue_s_own_counts() -> None:
    queue = MemoryQueue(max_message_bytes=1024)
    assert queue.describe().max_message_bytes == 1024
    assert queue.capabilities.largest_message == 1024
    [result] = queue.publish_batch([Message("x" * 1025)])
    assert "1025 bytes" in str(result.error)
    queue.publish(Message("x" * 1024))


def test_the_limit_of_a_queue_that_exists_is_known_once_its_server_was_asked() -> None:
    server = MemoryServer()
    dead = MemoryQueue("dead", max_message_bytes=2048, server=server)
    MemoryQueue("jobs", max_message_bytes=1024, server=server)
    assert MemoryQueue("jobs", server=server).capabilities.largest_message == 1024

    asked_late = MemoryQueue("jobs", server=lambda: server)
    assert asked_late.capabilities.largest_message == 1_048_576
    asked_late.stats()
    assert asked_late.capabilities.largest_message == 1024

    failing = MemoryQueue("failing", dead_letter_queue=dead, max_receive_count=3)
    found = failing.dead_letter_queue()
    assert found
    assert found.capabilities.largest_message == 2048


def test_propagation_is_shed_to_meet_a_limit_of_the_queue_s_own() -> None:
    queue = MemoryQueue(max_message_bytes=100)
    queues = QueueGroup({"default": {"queue": queue}})
    queues.enqueue("default", "greet", correlation_fields={"request": "x" * 100})
    lease = queue.claim()
    assert lease
    assert lease.attributes == {}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"name": ""}, "''"),
        ({"name": "with space"}, "'with space'"),
        ({"name": "x" * 81}, "80"),
        ({"name": "x.fifo", "fifo": False}, "fifo=False"),
        ({"visibility_timeout": 43_201}, "43201"),
        ({"max_receive_count": 3}, "both or neither"),
        ({"dead_letter_queue": MemoryQueue("dead")}, "both or neither"),
        ({"dead_letter_queue": MemoryQueue("dead"), "max_receive_count": 0}, "not 0"),
        ({"dead_letter_queue": MemoryQueue("dead"), "max_receive_count": 1001}, "1000.*1001"),
        ({"dead_letter_queue": MemoryQueue("d.fifo"), "max_receive_count": 3}, "another kind"),
        (
            {
                "dead_letter_queue": MemoryQueue("dead"),
                "max_receive_count": 3,
                "server": MemoryServer(),
            },
            "another server",
        ),
        ({"server": MemoryServer(), "clock": ManualClock()}, "server's clock"),
    ],
)
def test_a_queue_that_can_not_be_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        MemoryQueue(options.pop("name", "jobs"), **options)


def test_the_entry_point_names_a_backend_that_makes_its_own_client() -> None:
    found = find_backend("memory")
    assert found is backend
    assert isinstance(found, ClientMaker)


def _definitions() -> dict[str, dict[str, Any]]:
    return {
        "default": {"name": "app-jobs", "backend": "memory"},
        "ledger": {"url": "memory://here/app-ledger.fifo", "backend": "memory"},
    }


def test_two_groups_of_the_same_definitions_share_nothing() -> None:
    one, other = (QueueGroup.build(queues=_definitions()) for _ in range(2))
    one.enqueue("default", "greet")
    assert one.queue("default").claim()
    assert other.queue("default").claim() is None


def test_two_groups_on_one_server_share_their_queues() -> None:
    server = MemoryServer()
    one, other = (QueueGroup.build(queues=_definitions(), client=server) for _ in range(2))
    one.enqueue("ledger", "greet", message_group_id="g")
    assert other.queue("ledger").claim()
    assert MemoryQueue("app-ledger.fifo", server=server).stats().in_flight == 1


def test_a_client_that_is_a_callable_is_asked_at_each_call() -> None:
    servers = [MemoryServer(), MemoryServer()]
    queue = backend(QueueDefinition(name="jobs"), client=lambda: servers[0])
    queue.publish(Message("first"))
    servers.reverse()
    assert queue.claim() is None
    servers.reverse()
    assert queue.claim()


def test_a_callable_is_not_asked_while_the_queue_is_built() -> None:
    def make() -> MemoryServer:
        raise AssertionError("asked too early")

    queue = backend(QueueDefinition(name="jobs.fifo"), client=make)
    assert queue.capabilities.ordered


def test_a_client_of_another_service_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="MemoryServer, not 'sqs'"):
        backend(QueueDefinition(name="jobs"), client="sqs")


def test_a_definition_s_visibility_timeout_is_the_queue_s() -> None:
    queue = backend(QueueDefinition(name="jobs", visibility_timeout=5))
    assert queue.describe().visibility_timeout == 5


def test_a_queue_that_is_not_there_is_named_beside_those_that_are() -> None:
    server = MemoryServer()
    MemoryQueue("jobs", server=server)
    with pytest.raises(QueueNotFoundError, match=r"'nobody'.*jobs"):
        server.find("nobody")


def test_it_knows_when_the_next_message_of_any_queue_becomes_visible() -> None:
    clock = ManualClock()
    server = MemoryServer(clock=clock)
    early, late = MemoryQueue("early", server=server), MemoryQueue("late", server=server)
    assert server.next_due() is None
    early.publish(Message(body="a", delay_seconds=5))
    late.publish(Message(body="b", delay_seconds=60))
    assert server.next_due() == 5
    clock.advance(5)
    assert server.next_due() == 60
    late.operations.purge()
    assert server.next_due() is None
