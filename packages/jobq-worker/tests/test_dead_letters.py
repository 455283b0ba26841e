"""A worker that gives up jobs: to a dead-letter queue or for good, and not before its start."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from working import QUICK, Lines, group_of, lease, serving, until

from jobq.core import (
    Attribute,
    BackendError,
    ConfigurationError,
    Message,
    QueueGroup,
    RetryPolicy,
)
from jobq.core.clock import now
from jobq.core.memory import ManualClock, MemoryQueue
from jobq.core.testing.job_queues import JobQueues
from jobq.worker import Handler, Worker
from jobq.worker.engine.commands import DeadLetter
from jobq.worker.settling import Settling
from jobq.worker.testing.run_jobs import RunJobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.core import PublishResult

DEAD_LETTER = RetryPolicy(max_attempts=1, when_exhausted="dead_letter")
DISCARD = RetryPolicy(max_attempts=1, when_exhausted="discard")


def fail(payload: Any) -> None:
    raise ValueError("it never works")


def with_dead_letters(name: str = "jobs", **fields: Any) -> tuple[MemoryQueue, MemoryQueue]:
    suffix = ".fifo" if name.endswith(".fifo") else ""
    dead = MemoryQueue(f"dead{suffix}", clock=ManualClock())
    return MemoryQueue(name, dead_letter_queue=dead, max_receive_count=5, **fields), dead


def work_off(
    queue: MemoryQueue, handlers: Any = None, *, definition: Any = None, **options: Any
) -> None:
    """Run what there is, on the clock of a queue that was made with its dead-letter queue."""
    clock = queue.server.clock
    assert isinstance(clock, ManualClock)
    queues = JobQueues({queue.name: {"queue": queue, **(definition or {})}}, clock=clock)
    RunJobs(queues)(handlers or {"a": fail}, **options)


BODY = '{"payload": {"n": 1}, "job_type": "a", "more": "spaces   and keys of others"}'


@pytest.mark.parametrize("suffix", ["", ".fifo"])
def test_an_exhausted_job_goes_to_the_dead_letter_queue_as_it_came(suffix: str) -> None:
    queue, dead = with_dead_letters(f"jobs{suffix}")
    attributes: Any = {"s": "x", "n": 7, "b": b"\x00", "f": Attribute("Number.float", "1.50")}
    queue.publish(Message(BODY, attributes=attributes, group_id="g"))
    work_off(queue, retry=DEAD_LETTER)
    copy = dead.claim()
    assert copy is not None
    assert (copy.body, copy.group_id, copy.attributes) == (BODY, "g", attributes)
    assert queue.stats().in_flight == queue.stats().waiting == 0


def test_sent_twice_the_copy_is_there_once_where_the_dead_letter_queue_is_ordered() -> None:
    _, dead = with_dead_letters("jobs.fifo")
    settling = Settling({}, dead_letters={"jobs": dead}, clock=now)
    one = lease("x", message_id="m-1", group_id="g")
    for call in (1, 2):
        assert settling.dead_letter(DeadLetter(call, "jobs", (one,))).errors == (None,)
    assert dead.stats().waiting == 1


def test_a_copy_that_can_not_be_sent_is_one_entrys_error_and_the_others_are_sent() -> None:
    dead = MemoryQueue("dead", max_message_bytes=1024)
    settling = Settling({}, dead_letters={"jobs": dead}, clock=now)
    leases = (lease("x" * 2000), lease("good"))
    first, second = settling.dead_letter(DeadLetter(1, "jobs", leases)).errors
    assert "1024" in str(first)
    assert "xxx" not in str(first)
    assert second is None


class Closed(MemoryQueue):
    """A dead-letter queue that takes nothing."""

    def publish_batch(self, messages: Sequence[Message]) -> list[PublishResult]:
        raise BackendError("AccessDenied: grant sqs:SendMessage", denied=True)


class Sourced(MemoryQueue):
    """A queue whose dead-letter queue is the object that it was given."""

    def __init__(self, dead: MemoryQueue) -> None:
        super().__init__("jobs", dead_letter_queue=dead, max_receive_count=9)
        self.dead = dead

    def dead_letter_queue(self) -> MemoryQueue:
        return self.dead


def test_a_job_whose_copy_is_refused_is_left_and_the_log_names_it(lines: Lines) -> None:
    queue = Sourced(Closed("dead"))
    message_id = queue.publish(Message('{"job_type": "a", "payload": {"secret": "hush"}}'))
    with serving(Worker(group_of(queue), {"a": fail}, retry=DEAD_LETTER, **QUICK)):
        until(lambda: lines.of("job_finished"))
    (failed,) = lines.of("dead_letter_failed")
    assert (failed["level"], failed["message_id"], failed["queue"]) == ("error", message_id, "jobs")
    assert "sqs:SendMessage" in failed["error"]
    assert [line["outcome"] for line in lines.of("job_finished")] == ["exhausted"]
    assert queue.stats().in_flight == 1
    assert "hush" not in repr(lines)


def test_the_dead_letter_queue_that_the_worker_opened_is_closed_at_its_end(lines: Lines) -> None:
    class Watched(MemoryQueue):
        closed = 0

        def close(self) -> None:
            Watched.closed += 1

    worker = Worker(group_of(Sourced(Watched("dead"))), {"a": fail}, retry=DEAD_LETTER, **QUICK)
    with serving(worker):
        until(lambda: lines.of("worker_started"))
    assert Watched.closed == 1


def test_a_definition_may_name_its_dead_letter_queue_on_the_groups_connection() -> None:
    queues = JobQueues({"jobs": {"name": "jobs", "dead_letter": "grave", "retry": DEAD_LETTER}})
    queues.enqueue("jobs", "a")
    RunJobs(queues)({"a": fail})
    grave = queues.dead_letter_queue("jobs")
    assert grave is not None
    assert (grave.stats().waiting, queues.stats()["jobs"].in_flight) == (1, 0)


def test_malformed_messages_go_to_the_dead_letter_queue_and_the_next_one_runs() -> None:
    queue, dead = with_dead_letters()
    for body in ("hi", "[]", '{"job_type": 7}'):
        queue.publish(Message(body))
    queue.publish(Message('{"job_type": "a", "payload": {}}'))
    ran: list[Any] = []
    work_off(queue, {"a": ran.append}, on_malformed="dead_letter")
    assert ran == [{}]
    assert sorted(one.body for one in dead.claim_batch(10)) == ["[]", "hi", '{"job_type": 7}']


@pytest.mark.parametrize("level", ["handler", "queue", "worker", "malformed"])
def test_without_a_dead_letter_queue_a_worker_that_needs_one_does_not_start(level: str) -> None:
    queue = MemoryQueue("jobs")
    definition: Any = {"queue": queue, "retry": DEAD_LETTER if level == "queue" else None}
    options: dict[str, Any] = {"retry": DEAD_LETTER if level == "worker" else None}
    if level == "malformed":
        options["on_malformed"] = "dead_letter"
    handler = Handler(fail, retry=DEAD_LETTER if level == "handler" else None)
    worker = Worker(QueueGroup({"mine": definition}), {"a": handler}, **options, **QUICK)
    with pytest.raises(ConfigurationError, match=r"'mine' has no dead-letter.*'dead_letter' in it"):
        worker.run(burst=True)


def test_discard_deletes_with_a_line_that_says_what_but_not_the_payload(lines: Lines) -> None:
    queue, dead = with_dead_letters("jobs.fifo")
    body = '{"job_type": "a", "payload": {"secret": "hush"}}'
    message_id = queue.publish(Message(body, group_id="g"))
    work_off(queue, retry=DISCARD)
    assert (queue.stats().in_flight, dead.stats().waiting) == (0, 0)
    (line,) = lines.of("job_discarded")
    assert line == {
        "event": "job_discarded",
        "level": "warning",
        "queue": "jobs.fifo",
        "message_id": message_id,
        "group_id": "g",
        "job_type": "a",
        "receive_count": 1,
        "size_bytes": len(body),
    }
    assert "hush" not in repr(lines)


def test_discard_logs_the_payload_masked_where_the_definition_says_so(lines: Lines) -> None:
    queue, _ = with_dead_letters()
    queue.publish(Message('{"job_type": "a", "payload": {"secret": "hush", "in": [{"n": 1}]}}'))

    def change(payload: dict[str, Any]) -> None:
        payload.clear()
        raise ValueError

    definition = {"log_payload": True, "sensitive": ["secret"]}
    work_off(queue, {"a": change}, definition=definition, retry=DISCARD)
    (line,) = lines.of("job_discarded")
    assert json.loads(line["payload"]) == {"secret": "***", "in": [{"n": 1}]}


def test_without_sensitive_fields_it_is_logged_as_it_is(lines: Lines) -> None:
    queue, _ = with_dead_letters()
    queue.publish(Message('{"job_type": "a", "payload": {"n": 1}}'))
    work_off(queue, definition={"log_payload": True}, retry=DISCARD)
    assert lines.of("job_discarded")[0]["payload"] == '{"n": 1}'


def test_a_message_brings_its_own_number_of_attempts() -> None:
    queue, dead = with_dead_letters()
    group, policy = group_of(queue), RetryPolicy(max_attempts=4, when_exhausted="dead_letter")
    group.enqueue("jobs", "a", {"n": 1}, max_attempts=1)
    group.enqueue("jobs", "b", {"n": 2}, max_attempts=9)
    tries: list[str] = []

    def fail_as(job_type: str) -> Any:
        def handler(payload: Any) -> None:
            tries.append(job_type)
            raise ValueError

        return handler

    work_off(queue, {name: fail_as(name) for name in "ab"}, retry=policy)
    assert (tries.count("a"), tries.count("b")) == (1, 5), "the redrive policy ends the other"
    assert dead.stats().waiting == 2


def test_what_no_handler_ran_is_never_exhausted() -> None:
    queue, dead = with_dead_letters()
    queue.publish(Message('{"job_type": "unknown", "payload": {}}'))
    work_off(queue, retry=DISCARD, seconds=1000)
    assert (queue.stats().in_flight, dead.stats().waiting) == (1, 0)
