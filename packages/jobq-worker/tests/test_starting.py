"""What is asked and checked of the queues before a worker receives."""

from collections.abc import Callable
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import replace
from typing import Any

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
from jobq.core.memory import AsyncMemoryQueue, MemoryQueue
from jobq.worker import Handler
from jobq.worker.loops import WorkerLoop
from jobq.worker.options import Options
from jobq.worker.starting import Prepared, Starting
from jobq.worker.subscriptions import AnySubscription, AsyncSubscription, Subscription

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


class AsyncConnected(AsyncMemoryQueue):
    def __init__(self, **limits: Any) -> None:
        dead = AsyncMemoryQueue("dead")
        super().__init__("jobs", dead_letter_queue=dead, max_receive_count=3)
        self.limits = {"client": 1, **limits}

    async def connection(self) -> ConnectionInfo:
        return ConnectionInfo(**self.limits)


class Bench:
    def __init__(self, **options: Any) -> None:
        self.warnings: list[tuple[str, dict[str, Any]]] = []
        self.pauses: list[float] = []
        self.handlers: dict[str, Handler] = {}
        self.open_dead_letter: Callable[[], Queue] | None = None
        self.options = Options(**options)

    def prepare(self, *queues: Queue | AsyncMemoryQueue, **definition: Any) -> Prepared:
        loop = WorkerLoop(name="jobq-queues-loop", context=copy_context())
        starting = Starting(
            self.options,
            warn=lambda event, **fields: self.warnings.append((event, fields)),
            pause=self.pauses.append,
            random=lambda: 1.0,
            loop=loop,
        )
        subscriptions = [
            self._subscription(queue, f"q{number}", definition)
            for number, queue in enumerate(queues)
        ]
        try:
            return starting.prepare(subscriptions, self.handlers)
        finally:
            loop.close()
            loop.join(seconds=5)

    def _subscription(
        self, queue: Queue | AsyncMemoryQueue, name: str, definition: dict[str, Any]
    ) -> AnySubscription:
        if not isinstance(queue, AsyncMemoryQueue):
            return Subscription(
                name=name,
                queue=queue,
                definition=QueueDefinition(queue=queue, **definition),
                open_dead_letter=self.open_dead_letter or queue.dead_letter_queue,
            )

        async def open_queue() -> AsyncMemoryQueue:
            return queue

        return AsyncSubscription(
            name=name,
            group=nullcontext(),
            open_queue=open_queue,
            definition=QueueDefinition(name="jobs", **definition),
            open_dead_letter=queue.dead_letter_queue,
        )

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


def test_l11_a_visibility_timeout_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'q0'.*0 seconds.*'visibility_timeout'"):
        Bench().prepare(Described(info={"visibility_timeout": 0}))


def test_a_bug_in_a_queue_is_not_retried() -> None:
    bench = Bench()
    with pytest.raises(BackendError, match="TypeError"):
        bench.prepare(Described(TypeError("bug")))
    assert bench.pauses == []


each_kind = pytest.mark.parametrize("kind", [Connected, AsyncConnected], ids=["sync", "async"])


@each_kind
@pytest.mark.parametrize("seconds", [5, 20])
def test_l11_a_read_timeout_not_above_the_long_poll_is_refused_with_both(
    kind: type[Connected | AsyncConnected], seconds: float
) -> None:
    with pytest.raises(ConfigurationError, match=f"{seconds} s.*20 s"):
        Bench().prepare(kind(read_timeout=seconds))
    prepared = Bench().prepare(kind(read_timeout=21))
    (source,) = (*prepared.sources.values(), *prepared.async_sources.values())
    assert source.timeout == 21


@each_kind
def test_a_shared_pool_that_is_too_small_is_warned_of_once(
    kind: type[Connected | AsyncConnected],
) -> None:
    bench = Bench(concurrency=8)
    bench.prepare(*(kind(max_connections=5) for _ in range(3)))
    ((event, fields),) = bench.warnings
    assert event == "connection_pool_too_small"
    assert (fields["max_connections"], fields["needed"]) == (5, 12)
    bench.warnings.clear()
    bench.prepare(*(kind(max_connections=12) for _ in range(3)))
    assert bench.warnings == []


GIVES_UP = RetryPolicy(max_attempts=3, when_exhausted="dead_letter")


def a_bench(policy: RetryPolicy, **options: Any) -> Bench:
    bench = Bench(**options)
    bench.handlers = {"a": Handler(print, retry=policy)}
    return bench


def test_only_a_queue_that_gives_up_jobs_has_its_dead_letter_queue_opened() -> None:
    dead = MemoryQueue("dead")
    bench = a_bench(RetryPolicy(max_attempts=3, when_exhausted="discard"))
    bench.open_dead_letter = lambda: dead
    assert bench.prepare(Described()).dead_letters == {}
    bench = a_bench(GIVES_UP)
    bench.open_dead_letter = lambda: dead
    assert bench.prepare(Described()).dead_letters == {"q0": dead}


def test_the_nearest_level_says_whether_a_dead_letter_queue_is_needed() -> None:
    bench = a_bench(RetryPolicy(when_exhausted="redrive"), retry=GIVES_UP)
    assert bench.prepare(Described(), retry=GIVES_UP).dead_letters == {}


def test_without_a_dead_letter_queue_the_error_names_the_queue_the_reason_and_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r"'q0'.*job type 'a'.*'dead_letter' in its def"):
        a_bench(GIVES_UP).prepare(Described())
    with pytest.raises(ConfigurationError, match=r"'q0'.*on_malformed.*'dead_letter' in its def"):
        Bench(on_malformed="dead_letter").prepare(Described())


@pytest.mark.parametrize(
    "error", [DENIED, QueueNotFoundError("no such queue"), BackendError("no such endpoint")]
)
def test_a_dead_letter_queue_that_can_not_be_found_is_named_with_what_kept_us(
    error: BackendError,
) -> None:
    def open_it() -> Queue:
        raise error

    bench = a_bench(GIVES_UP)
    bench.open_dead_letter = open_it
    with pytest.raises(ConfigurationError, match=f"'q0': its dead-letter queue.*{error}"):
        bench.prepare(Described())


def test_a_dead_letter_queue_must_be_there_but_need_not_be_readable() -> None:
    bench = a_bench(GIVES_UP)
    bench.open_dead_letter = lambda: Described(QueueNotFoundError("no such queue"))
    with pytest.raises(ConfigurationError, match="no such queue"):
        bench.prepare(Described())
    bench.open_dead_letter = lambda: Described(DENIED)
    assert list(bench.prepare(Described()).dead_letters) == ["q0"]


def test_an_ordered_dead_letter_queue_of_one_that_is_not_is_refused() -> None:
    bench = a_bench(GIVES_UP)
    bench.open_dead_letter = lambda: MemoryQueue("dead.fifo")
    with pytest.raises(ConfigurationError, match=r"'q0' is a standard queue .* job type 'a'"):
        bench.prepare(Described())


def test_opening_a_dead_letter_queue_is_tried_again_where_that_may_help() -> None:
    bench, dead = a_bench(GIVES_UP), Described(BUSY, BUSY)
    bench.open_dead_letter = lambda: dead
    bench.prepare(Described())
    assert bench.pauses == [1, 2]


def test_the_copies_of_a_queue_need_a_connection_too() -> None:
    bench = a_bench(GIVES_UP)
    bench.open_dead_letter = lambda: Connected(max_connections=4)
    bench.prepare(Connected(max_connections=4))
    assert [fields["needed"] for _, fields in bench.warnings] == [5]


@pytest.mark.parametrize(
    ("when", "attempts", "dead_letter", "warned"),
    [
        ("redrive", 2, None, []),
        ("redrive", 9, None, []),
        ("discard", 3, None, ["redrive_policy_never_reached"]),
        ("discard", 4, None, ["max_attempts_never_reached"]),
        ("discard", None, None, []),
        ("dead_letter", 3, None, []),
        ("dead_letter", 3, "redriven", []),
        ("dead_letter", 3, "elsewhere", ["redrive_policy_never_reached"]),
        ("dead_letter", 4, "elsewhere", ["max_attempts_never_reached"]),
    ],
)
def test_a_redrive_policy_that_comes_too_early_or_never_is_warned_of(
    when: Any, attempts: int | None, dead_letter: str | None, warned: list[str]
) -> None:
    bench = a_bench(RetryPolicy(max_attempts=attempts, when_exhausted=when))
    bench.open_dead_letter = lambda: MemoryQueue("dead")
    arn = "arn:aws:sqs:eu-west-1:1:redriven"
    queue = Described(info={"max_receive_count": 3, "dead_letter_queue": arn})
    bench.prepare(queue, dead_letter=dead_letter)
    assert bench.warned == warned
    assert all(fields["job_types"] == ["a"] for _, fields in bench.warnings)


@pytest.mark.parametrize(
    ("policy", "endless"),
    [
        (RetryPolicy(max_attempts=3), "always fails"),
        (RetryPolicy(when_exhausted="discard"), "always fails"),
        (RetryPolicy(max_attempts=3, when_exhausted="discard"), "ends its worker each time"),
    ],
)
def test_the_warning_of_a_missing_redrive_policy_says_what_would_come_back_forever(
    policy: RetryPolicy, endless: str
) -> None:
    bench = a_bench(policy)
    bench.prepare(Described(info={"max_receive_count": None}))
    ((event, fields),) = bench.warnings
    assert event == "no_redrive_policy"
    assert f"a job that {endless} comes back" in fields["remedy"]


def test_what_never_comes_is_judged_by_all_levels_together() -> None:
    bench = a_bench(RetryPolicy(max_attempts=2), retry=RetryPolicy(when_exhausted="discard"))
    bench.handlers["b"] = Handler(print)
    bench.prepare(Described(info={"max_receive_count": 3}), retry=RetryPolicy(max_attempts=5))
    assert [(event, fields["job_types"]) for event, fields in bench.warnings] == [
        ("redrive_policy_never_reached", ["a"]),
        ("max_attempts_never_reached", ["b"]),
    ]
