"""A worker's arguments, checked when it is made."""

from typing import Any

import pytest
from working import group_of

from jobq.core import ConfigurationError, QueueGroup, UnknownQueueError
from jobq.core.memory import MemoryQueue
from jobq.worker import Worker

GROUP = group_of(MemoryQueue("jobs"))


def handler(payload: Any) -> None: ...


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency.*at least 1.*0"),
        ({"concurrency": 1.5}, "concurrency.*1.5"),
        ({"concurrency": True}, "concurrency.*True"),
        ({"polling": "random"}, "polling.*'weighted', 'strict'.*'random'"),
        ({"idle_wait_seconds": 0}, "idle_wait_seconds.*1 to 20.*0"),
        ({"idle_wait_seconds": 21, "shutdown_timeout": 60}, "idle_wait_seconds.*1 to 20.*21"),
        ({"idle_wait_seconds": float("nan")}, "idle_wait_seconds.*nan"),
        ({"shutdown_timeout": 20}, r"shutdown_timeout.*idle_wait_seconds \(20\).*20"),
        ({"shutdown_timeout": float("inf")}, "shutdown_timeout.*inf"),
        ({"hold_limit": -1}, "hold_limit.*-1"),
        ({"claim_ahead": "1"}, "claim_ahead.*'1'"),
        ({"on_malformed": "drop"}, "on_malformed.*'leave'.*'drop'"),
        ({"on_broken_queue": "panic"}, "on_broken_queue.*'exit'.*'panic'"),
        ({"retry": 3}, "retry.*RetryPolicy.*3"),
        ({"health_file": 3}, "health_file.*path.*3"),
        ({"health_file": ""}, "health_file.*path.*''"),
    ],
)
def test_an_argument_that_cannot_work_is_named_with_its_value(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Worker(GROUP, {"a": handler}, **options)


@pytest.mark.parametrize("queues", [None, [], {"a": 1}, ["jobs"], [GROUP, None]])
def test_queues_are_a_group_or_some(queues: Any) -> None:
    with pytest.raises(ConfigurationError, match="QueueGroup"):
        Worker(queues, {"a": handler})


def test_groups_with_distinct_names_mix_and_others_do_not() -> None:
    Worker([GROUP, group_of(MemoryQueue("others"))], {"a": handler})
    with pytest.raises(ConfigurationError, match=r"'jobs'.*distinct"):
        Worker([GROUP, group_of(MemoryQueue("jobs"))], {"a": handler})


def test_overriding_chooses_and_orders_queues_and_checks_the_rest() -> None:
    names = {name: {"queue": MemoryQueue(name)} for name in ("low", "mid", "high")}
    worker = Worker(QueueGroup(names), {"a": handler})
    worker.override(queues=["high", "low"], concurrency=3, polling="strict")
    with pytest.raises(UnknownQueueError, match=r"'typo'.*'high'"):
        worker.override(queues=["typo"])
    with pytest.raises(ConfigurationError, match="concurrency"):
        worker.override(concurrency=0)
