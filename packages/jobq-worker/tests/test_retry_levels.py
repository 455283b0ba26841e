"""The environment's retry level, the outermost of all, counts for each queue of its group."""

from __future__ import annotations

from typing import Any

import pytest
from working import Lines

from jobq.core import AsyncQueueGroup, QueueDefinition, QueueGroup, QueueInfo, RetryPolicy
from jobq.core.memory import MemoryQueue
from jobq.worker import Worker
from jobq.worker.ends import Ends
from jobq.worker.handlers import Handler
from jobq.worker.options import Options
from jobq.worker.subscriptions import Subscription, subscribe

FOUR = RetryPolicy(max_attempts=4)


def ends(environment_retry: RetryPolicy | None, **options: Any) -> Ends:
    queue = MemoryQueue("jobs")
    subscription = Subscription(
        name="jobs",
        queue=queue,
        definition=QueueDefinition(queue=queue),
        open_dead_letter=queue.dead_letter_queue,
        environment_retry=environment_retry,
    )
    return Ends(subscription, {"a": Handler(print)}, Options(**options))


@pytest.mark.parametrize(
    ("environment_retry", "worker_retry", "warned"),
    [
        (None, None, []),
        (FOUR, None, []),
        (FOUR, RetryPolicy(when_exhausted="discard"), ["redrive_policy_never_reached"]),
        (
            FOUR,
            RetryPolicy(max_attempts=9, when_exhausted="discard"),
            ["max_attempts_never_reached"],
        ),
    ],
)
def test_what_never_comes_is_judged_with_the_environment_s_level_as_the_last(
    environment_retry: RetryPolicy | None, worker_retry: RetryPolicy | None, warned: list[str]
) -> None:
    said: list[str] = []
    info = QueueInfo(
        visibility_timeout=30,
        max_receive_count=5,
        dead_letter_queue="arn:aws:sqs:eu-west-1:1:dead",
        fifo=False,
        max_message_bytes=1_048_576,
    )
    ends(environment_retry, retry=worker_retry).warn_of_what_never_comes(
        info, lambda event, **fields: said.append(event)
    )
    assert said == warned


@pytest.mark.usefixtures("short_bursts")
def test_a_queue_of_a_group_from_the_environment_goes_by_it_and_no_other_queue_does(
    monkeypatch: pytest.MonkeyPatch, lines: Lines
) -> None:
    monkeypatch.setenv("JOBQ_CONNECTION", "memory")
    monkeypatch.setenv("JOBQ_MAX_ATTEMPTS", "2")
    monkeypatch.setenv("JOBQ_RETRY_BASE_DELAY_SECONDS", "1")
    own = {"name": "own", "retry": RetryPolicy(max_attempts=1)}
    from_env = QueueGroup.from_env({"plain": "plain", "own": own})
    by_hand = QueueGroup({"by hand": {"name": "x", "backend": "memory", "visibility_timeout": 1}})
    ran: list[str] = []

    def fails(payload: Any) -> None:
        ran.append(payload["queue"])
        if ran.count("by hand") < 3 or payload["queue"] != "by hand":
            raise ValueError

    for group in (from_env, by_hand):
        for name in group.names:
            group.enqueue(name, "fails", {"queue": name})
    retry = RetryPolicy(when_exhausted="discard")
    Worker([from_env, by_hand], {"fails": fails}, concurrency=3, retry=retry).run(burst=True)
    assert sorted(ran) == ["by hand", "by hand", "by hand", "own", "plain", "plain"]
    ends = sorted((line["queue"], line["outcome"]) for line in lines.of("job_finished"))
    assert ends == [
        ("by hand", "retry"),
        ("by hand", "retry"),
        ("by hand", "success"),
        ("own", "exhausted"),
        ("plain", "exhausted"),
        ("plain", "retry"),
    ]


@pytest.mark.parametrize("kind", [QueueGroup, AsyncQueueGroup])
def test_groups_of_both_kinds_bring_the_environment_s_level(
    kind: type[QueueGroup | AsyncQueueGroup], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBQ_CONNECTION", "memory")
    monkeypatch.setenv("JOBQ_MAX_ATTEMPTS", "4")
    assert [one.route.environment_retry for one in subscribe(kind.from_env(["jobs"]))] == [FOUR]
