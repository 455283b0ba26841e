"""The environment's retry level, the outermost of all, counts for each queue of its group."""

from __future__ import annotations

from typing import Any

import pytest

from jobq.core import QueueDefinition, QueueInfo, RetryPolicy
from jobq.core.memory import MemoryQueue
from jobq.worker.ends import Ends
from jobq.worker.handlers import Handler
from jobq.worker.options import Options
from jobq.worker.subscriptions import Subscription

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
