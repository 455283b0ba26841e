"""What is asked and checked of the queues before a worker receives."""

from dataclasses import replace
from typing import Any, cast

import pytest

from jobq.core import (
    BackendError,
    ConfigurationError,
    Queue,
    QueueDefinition,
    QueueInfo,
    QueueNotFoundError,
    RetryPolicy,
)
from jobq.core.interfaces import ConnectionInfo
from jobq.core.memory import MemoryQueue
from jobq.worker import Handler
from jobq.worker.options import Options
from jobq.worker.starting import Prepared, Starting
from jobq.worker.subscriptions import Subscription

DENIED = BackendError("AccessDenied", denied=True)
BUSY = BackendError("ServiceUnavailable", retryable=True)


class Described(MemoryQueue):
    """Raises each of `errors` in turn when it is described, then answers."""

    def __init__(self, *errors: Exception, info: dict[str, Any] | None = None) -> None:
        super().__init__("jobs")
        self.errors = list(errors)
        self.info = {"max_receive_count": 3, **(info or {})}

    def describe(self) -> QueueInfo:
        if self.errors:
            raise self.errors.pop(0)
        return replace(super().describe(), **self.info)


class Connected(Described):
    def __init__(self, **limits: Any) -> None:
        super().__init__()
        self.limits = {"client": 1, **limits}

    def connection(self) -> ConnectionInfo:
        return ConnectionInfo(**self.limits)


class Bench:
    def __init__(self, **options: Any) -> None:
        self.warnings: list[tuple[str, dict[str, Any]]] = []
        self.pauses: list[float] = []
        self.handlers: dict[str, Handler] = {}
        self.options = Options(**options)

    def prepare(self, *queues: Queue, **definition: Any) -> Prepared:
        starting = Starting(
            self.options,
            warn=lambda event, **fields: self.warnings.append((event, fields)),
            pause=self.pauses.append,
            random=lambda: 1.0,
        )
        subscriptions = [
            Subscription(
                name=f"q{number}",
                queue=queue,
                definition=QueueDefinition(queue=queue, **definition),
            )
            for number, queue in enumerate(queues)
        ]
        return starting.prepare(subscriptions, self.handlers)

    @property
    def warned(self) -> list[str]:
        return [event for event, _ in self.warnings]


def test_the_queues_own_settings_are_read_unless_they_are_given() -> None:
    bench = Bench()
    (own,) = bench.prepare(Described(info={"visibility_timeout": 77})).configs
    assert (own.visibility, own.max_receive_count) == (77, 3)
    (given,) = bench.prepare(Described(), visibility_timeout=5, weight=3, concurrency=2).configs
    assert (given.visibility, given.weight, given.cap) == (5, 3, 2)
    assert bench.warned == []


def test_a_queue_without_a_redrive_policy_is_warned_of() -> None:
    bench = Bench()
    bench.prepare(Described(info={"max_receive_count": None}))
    assert bench.warned == ["no_redrive_policy"]


def test_what_is_worth_another_try_gets_it_later_each_time() -> None:
    bench = Bench()
    bench.prepare(Described(*[BUSY] * 7))
    assert bench.pauses == [1, 2, 4, 8, 16, 30, 30]
    assert bench.warned == ["queue_not_reached"] * 7


def test_a_queue_that_never_answers_is_given_up() -> None:
    bench = Bench()
    with pytest.raises(BackendError, match=r"'q0'.*ServiceUnavailable"):
        bench.prepare(Described(*[BUSY] * 99))
    assert len(bench.pauses) == 9


def test_a_missing_queue_ends_it_at_once_with_the_remedy_told_once() -> None:
    bench = Bench()
    error = QueueNotFoundError("no such queue: create it", retryable=True)
    with pytest.raises(QueueNotFoundError, match=r"'q0'.*no such queue: create it$") as raised:
        bench.prepare(Described(error))
    assert bench.pauses == []
    assert raised.value.__cause__ is error


def test_where_reading_is_denied_an_explicit_timeout_is_asked_for_and_enough() -> None:
    bench = Bench()
    with pytest.raises(ConfigurationError, match=r"'q0'.*AccessDenied.*'visibility_timeout'"):
        bench.prepare(Described(DENIED))
    (config,) = bench.prepare(Described(DENIED), visibility_timeout=60).configs
    assert (config.visibility, config.max_receive_count) == (60, None)
    assert bench.pauses == []


def test_a_visibility_timeout_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'q0'.*0 seconds.*'visibility_timeout'"):
        Bench().prepare(Described(info={"visibility_timeout": 0}))


def test_a_bug_in_a_queue_is_not_retried() -> None:
    bench = Bench()
    with pytest.raises(BackendError, match="TypeError"):
        bench.prepare(Described(TypeError("bug")))
    assert bench.pauses == []


@pytest.mark.parametrize("seconds", [5, 20])
def test_a_read_timeout_not_above_the_long_poll_is_refused_with_both(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match=f"{seconds} s.*20 s"):
        Bench().prepare(Connected(read_timeout=seconds))
    prepared = Bench().prepare(Connected(read_timeout=21))
    assert prepared.sources["q0"].timeout == 21


def test_a_shared_pool_that_is_too_small_is_warned_of_once() -> None:
    bench = Bench(concurrency=8)
    bench.prepare(*(Connected(max_connections=5) for _ in range(3)))
    ((event, fields),) = bench.warnings
    assert event == "connection_pool_too_small"
    assert (fields["max_connections"], fields["needed"]) == (5, 12)
    bench.warnings.clear()
    bench.prepare(*(Connected(max_connections=12) for _ in range(3)))
    assert bench.warnings == []


@pytest.mark.parametrize("owner", ["queue 'q0'", "job type 'a'"])
def test_a_policy_that_is_not_available_is_named_by_its_owner(owner: str) -> None:
    bench, policy = Bench(), RetryPolicy(when_exhausted="discard")
    bench.handlers = {"a": Handler(print, retry=policy if "job type" in owner else None)}
    with pytest.raises(ConfigurationError, match=f"{owner}.*'discard'"):
        bench.prepare(cast("Queue", Described()), retry=policy if "queue" in owner else None)


def test_malformed_messages_cannot_be_dead_lettered_yet() -> None:
    with pytest.raises(ConfigurationError, match="on_malformed='dead_letter'"):
        Bench(on_malformed="dead_letter").prepare(Described())
