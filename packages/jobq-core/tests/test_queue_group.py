"""Groups are built without a call, and close what they made."""

import os
from typing import Any, cast

import pytest
from trays import AsyncTrace, PlainTrace, Tray, group

from jobq.core import (
    BackendNotInstalledError,
    ConfigurationError,
    JobRequest,
    Message,
    QueueDefinition,
    QueueGroup,
    UnknownQueueError,
)
from jobq.core.memory import MemoryQueue


def test_a_group_is_built_from_mappings_and_definitions_without_a_call() -> None:
    made: list[str] = []
    queues = QueueGroup.build(
        client=lambda: made.append("client"),
        queues={
            "default": {"name": "jobs", "backend": "memory", "weight": 5},
            "ledger": QueueDefinition(name="ledger.fifo", backend="memory"),
        },
    )

    assert queues.names == ("default", "ledger")
    assert queues.definition("default").weight == 5
    assert queues.definitions["ledger"].name == "ledger.fifo"
    assert queues.queue("ledger").capabilities.ordered
    assert queues.middleware == ()
    assert made == []


def test_the_queues_of_a_backend_share_the_client_that_it_makes() -> None:
    queues = QueueGroup(
        {
            "a": {"name": "jobs", "backend": "memory"},
            "b": {"url": "https://sqs.example/1/jobs", "backend": "memory"},
        }
    )
    queues.enqueue("a", "t")

    assert queues.stats()["b"].waiting == 1


def test_two_groups_share_nothing() -> None:
    first, second = (QueueGroup({"a": {"name": "jobs", "backend": "memory"}}) for _ in range(2))
    first.enqueue("a", "t")

    assert (first.stats()["a"].waiting, second.stats()["a"].waiting) == (1, 0)


def test_closing_closes_what_the_group_made_and_nothing_that_it_was_given() -> None:
    class Client:
        closed = 0

        def close(self) -> None:
            Client.closed += 1

    tray = Tray()
    with QueueGroup.build(
        client=Client(), queues={"a": {"queue": tray}, "b": {"name": "b", "backend": "memory"}}
    ):
        pass

    assert (tray.closed, Client.closed) == (0, 0)


@pytest.mark.parametrize("address", ["grave", "https://sqs.example/1/grave"])
def test_a_named_dead_letter_queue_is_opened_over_the_connection_of_its_queue(address: str) -> None:
    queues = QueueGroup(
        {
            "a": {"name": "jobs", "backend": "memory", "dead_letter": address},
            "b": {"name": "grave", "backend": "memory"},
        }
    )
    dead = queues.dead_letter_queue("a")
    assert dead is not None
    dead.publish(Message("buried"))

    assert queues.stats()["b"].waiting == 1


def test_without_a_name_the_dead_letter_queue_is_the_redrive_policys_or_none() -> None:
    dead = MemoryQueue("dead")
    policed = MemoryQueue("policed", dead_letter_queue=dead, max_receive_count=3)
    queues = QueueGroup({"a": {"queue": policed}, "b": {"queue": MemoryQueue("free")}})
    found = queues.dead_letter_queue("a")
    assert isinstance(found, MemoryQueue)

    assert found.name == "dead"
    assert queues.dead_letter_queue("b") is None
    with pytest.raises(UnknownQueueError, match="'c'"):
        queues.dead_letter_queue("c")


def test_a_dead_letter_queue_by_name_is_refused_beside_a_queue_made_by_hand() -> None:
    queues = QueueGroup({"a": {"queue": MemoryQueue("jobs"), "dead_letter": "grave"}})
    with pytest.raises(ConfigurationError, match="'a' was made by hand, so dead_letter='grave'"):
        queues.dead_letter_queue("a")


@pytest.mark.parametrize(
    ("queues", "what"),
    [
        ({}, "at least one name"),
        (["jobs"], "at least one name"),
        ({"a": "jobs"}, r"queue 'a' must be a mapping such as .* not 'jobs'"),
        ({"": {"name": "jobs"}}, "must be text, not ''"),
        (
            {"a": {"name": "jobs", "wieght": 1}},
            "queue 'a': unknown key 'wieght'; known are backend",
        ),
        ({"a": {}}, "queue 'a': .* exactly one of 'queue', 'name' and 'url', not none"),
        ({"a": {"queue": object()}}, "queue 'a': .* is no Queue"),
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
        QueueGroup(queues)


def test_an_async_queue_is_refused() -> None:
    class AsyncTray:
        async def publish(self, message: Message) -> str:
            return "id"

    with pytest.raises(ConfigurationError, match="AsyncTray is an async queue"):
        QueueGroup({"a": {"queue": AsyncTray()}})


def test_a_backend_that_is_not_installed_is_refused_with_those_that_are() -> None:
    with pytest.raises(BackendNotInstalledError, match=r"'rabbit' is installed; .* memory"):
        QueueGroup({"a": {"name": "jobs", "backend": "rabbit"}})


def test_middleware_that_is_a_class_is_refused_when_the_group_is_built() -> None:
    with pytest.raises(ConfigurationError, match="instances of JobMiddleware"):
        group(Tray(), cast("Any", PlainTrace))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_group_built_before_a_fork_works_in_the_child() -> None:
    queues = QueueGroup({"a": {"name": "jobs", "backend": "memory"}}, [AsyncTrace(), PlainTrace()])
    pid = os.fork()
    if pid == 0:
        try:
            queues.enqueue_batch("a", [JobRequest("t", {"n": n}) for n in range(3)])
            os._exit(0 if queues.stats()["a"].waiting == 3 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
