"""Groups from the environment: by its connection, and where it is one, on the same queues."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest
from async_trays import WiredBackend, WiredTray, wire
from trays import AsyncTrace

from jobq.core import AsyncQueueGroup, ConfigurationError, QueueGroup, RetryPolicy
from jobq.core.memory import AsyncMemoryQueue, MemoryQueue

__all__ = ["wire"]

both_kinds = pytest.mark.parametrize("kind", [QueueGroup, AsyncQueueGroup])


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Each test has a connection of its own, in memory, whose servers live as long as we do."""
    name = f"t{abs(hash(request.node.nodeid))}"
    monkeypatch.setenv("JOBQ_CONNECTION_NAME", name)
    monkeypatch.setenv(f"JOBQ_{name.upper()}_CONNECTION", "memory")
    monkeypatch.setenv("JOBQ_OTHER_CONNECTION", "memory")


@both_kinds
def test_names_become_queues_of_the_connection(
    kind: type[QueueGroup | AsyncQueueGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBQ_OTHER_SQS_QUEUE_PREFIX", "test-")
    monkeypatch.setenv("JOBQ_VISIBILITY_TIMEOUT_SECONDS", "60")
    hook = AsyncTrace()
    queues = kind.from_env(["jobs", "ledger.fifo"], connection="other", middleware=[hook])

    assert queues.middleware == (hook,)
    assert queues.names == ("jobs", "ledger.fifo")
    assert [one.name for one in queues.definitions.values()] == ["test-jobs", "test-ledger.fifo"]
    assert queues.definition("jobs").visibility_timeout == 60


@both_kinds
def test_the_environment_s_retry_policy_is_the_group_s(
    kind: type[QueueGroup | AsyncQueueGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kind.from_env(["jobs"]).retry is None
    monkeypatch.setenv("JOBQ_MAX_ATTEMPTS", "4")
    assert kind.from_env(["jobs"]).retry == RetryPolicy(max_attempts=4)


@both_kinds
def test_a_wrong_environment_is_refused_when_the_group_is_built(
    kind: type[QueueGroup | AsyncQueueGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBQ_VISIBILITY_TIMEOUT_SECONDS", "0")
    with pytest.raises(ConfigurationError, match="JOBQ_VISIBILITY_TIMEOUT_SECONDS"):
        kind.from_env(["jobs"])


def test_groups_of_one_connection_in_memory_meet_whatever_their_kind() -> None:
    producer, worker = QueueGroup.from_env(["jobs"]), QueueGroup.from_env({"mine": "jobs"})
    other = QueueGroup.from_env(["jobs"], connection="other")
    producer.enqueue("jobs", "t")

    async def main() -> None:
        async with AsyncQueueGroup.from_env({"ours": {"name": "jobs"}}) as queues:
            await queues.enqueue("ours", "t")
            assert (await queues.stats())["ours"].waiting == 2

    asyncio.run(main())
    assert worker.stats()["mine"].waiting == 2
    assert other.stats()["jobs"].waiting == 0


def test_closing_one_group_of_a_connection_in_memory_leaves_the_queues_to_the_others() -> None:
    with QueueGroup.from_env(["jobs"]) as producer:
        producer.enqueue("jobs", "t")

    assert QueueGroup.from_env(["jobs"]).stats()["jobs"].waiting == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_run_the_jobs_of_its_parent_again() -> None:
    queues = QueueGroup.from_env(["jobs"])
    queues.enqueue("jobs", "t")
    pid = os.fork()
    if pid == 0:
        try:
            groups = (queues, QueueGroup.from_env(["jobs"]))
            waiting = [group.stats()["jobs"].waiting for group in groups]
            os._exit(0 if waiting == [0, 0] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert queues.stats()["jobs"].waiting == 1


def test_a_dead_letter_queue_stands_on_the_connection_of_its_queue() -> None:
    queues = QueueGroup.from_env({"jobs": {"name": "jobs", "dead_letter": "grave"}})
    dead = queues.dead_letter_queue("jobs")
    found = QueueGroup.from_env(["grave"]).queue("grave")
    assert isinstance(dead, MemoryQueue)
    assert isinstance(found, MemoryQueue)
    assert dead.server is found.server

    async def main() -> None:
        group = AsyncQueueGroup.from_env({"jobs": {"name": "jobs", "dead_letter": "grave"}})
        async with group:
            twin = await group.dead_letter_queue("jobs")
            assert isinstance(twin, AsyncMemoryQueue)
            assert twin.server is dead.server

    asyncio.run(main())


def test_a_backend_gets_the_connection_s_settings_for_its_queues_and_their_client(
    wire: WiredBackend,
) -> None:
    async def main() -> None:
        async with AsyncQueueGroup.from_env({"a": {"name": "a", "backend": "wire"}}) as queues:
            queue: Any = queues.queue("a")
            assert isinstance(queue, WiredTray)
            (client,) = wire.clients
            assert queue.settings is client.settings
            assert queue.settings.timeout == 30

    asyncio.run(main())


def test_a_group_by_hand_has_no_settings(wire: WiredBackend) -> None:
    async def main() -> None:
        async with AsyncQueueGroup({"a": {"name": "a", "backend": "wire"}}) as queues:
            queue: Any = queues.queue("a")
            assert queue.settings is wire.clients[0].settings is None

    asyncio.run(main())
