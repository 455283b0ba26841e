"""Flows that send: one message, or any number of them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from jobq.core import BackendError, PublishResult
from jobq.sqs.common import batches, replies, requests
from jobq.sqs.common.calls import Pause
from jobq.sqs.common.client import ATTEMPTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobq.core import JobqError
    from jobq.sqs.common.addresses import Address
    from jobq.sqs.common.calls import Call, Flow

# As many whole calls may fail in a row before a round gives up on the rest of its batches: an
# endpoint that never answers costs a read timeout each.
_FAILED_CALLS = 3


def publish(
    address: Address,
    entry: Mapping[str, Any],
    *,
    attempts: Callable[[], int],
    jitter: Callable[[], float],
) -> Flow[str]:
    """Send one message, in up to `attempts()` tries where the error is retryable; its id."""
    for attempt in count():
        try:
            call = requests.send((yield from address.url()), entry)
            return replies.field_of((yield call), "MessageId", call)
        except BackendError as error:
            if not error.retryable or attempt + 1 >= attempts():
                raise
        yield pause(attempt, jitter)
    raise AssertionError  # pragma: no cover - the last attempt returns or raises


def pause(attempt: int, jitter: Callable[[], float]) -> Pause:
    """0.1 to 0.2 s after the first try, 0.2 to 0.4 s after the second; `jitter` is 0 to 1."""
    return Pause(0.1 * 2**attempt * (1 + jitter()))


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message of a batch: its entry and size in bytes, or why it can't be sent.

    `group` is set where order counts.
    """

    entry: Mapping[str, Any] = field(default_factory=dict[str, Any])
    size: int = 0
    group: str | None = None
    error: JobqError | None = None


def publish_batch(
    address: Address,
    outgoing: Sequence[Outgoing],
    *,
    attempts: Callable[[], int],
    jitter: Callable[[], float],
) -> Flow[list[PublishResult]]:
    """Send all that can be sent; one result each, by position.

    Entries that failed through no fault of ours are tried up to 3 times; a call that failed as a
    whole up to `attempts()` times. Within a group no message is sent after an earlier one that
    wasn't: later ones wait for its next try, and are reported with it when there is none.
    """
    state = Sending(outgoing, attempts=attempts)
    turn = 0
    while state.begin_round():
        if turn:
            yield pause(min(turn - 1, 1), jitter)
        turn += 1
        while batch := state.next_batch():
            try:
                call = requests.send_batch((yield from address.url()), batch, state.entries)
                reply = yield call
            except BackendError as error:
                state.call_failed(batch, error)
            else:
                state.answered(batch, reply, call)
    return state.results()


class Sending:
    """What became of each message of a batch so far, and what may be sent next."""

    def __init__(self, outgoing: Sequence[Outgoing], *, attempts: Callable[[], int]) -> None:
        self.entries = [out.entry for out in outgoing]
        self._sizes = [out.size for out in outgoing]
        self._groups = [out.group for out in outgoing]
        self._attempts = attempts
        self._results: list[PublishResult | None] = [None] * len(outgoing)
        self._tries = [0] * len(outgoing)
        self._waiting: deque[int] = deque()
        self._held: set[str] = set()
        self._failed_calls = 0
        self._members: dict[str, list[int]] = {}
        for position, out in enumerate(outgoing):
            if out.group is not None:
                self._members.setdefault(out.group, []).append(position)
        for position, out in enumerate(outgoing):
            if out.error is not None:
                self._fail(position, out.error)

    def begin_round(self) -> bool:
        """Queue up all that has no result yet; False when there is nothing."""
        self._waiting = deque(p for p, result in enumerate(self._results) if result is None)
        self._held.clear()
        self._failed_calls = 0
        return bool(self._waiting)

    def next_batch(self) -> list[int]:
        """The next positions to send in this round: none of a group that waits for a retry."""
        return batches.take(self._waiting, self._sizes, skip=self._is_held)

    def answered(self, batch: Sequence[int], reply: dict[str, Any], call: Call) -> None:
        self._failed_calls = 0
        ids = replies.message_ids(reply)
        errors = replies.errors(reply, call)
        for position in batch:
            if position in ids:
                self._results[position] = PublishResult(ids[position])
        accepted: dict[str | None, int] = {self._groups[p]: p for p in batch if p in ids}
        for position in batch:
            if self._results[position] is not None:
                continue
            error = errors[position] or replies.no_sqs(call, "MessageId")
            group = self._groups[position]
            if group is not None and _retryable(error) and accepted.get(group, -1) > position:
                self._fail(position, _overtaken(error, group))
            else:
                self._failed(position, error, attempts=ATTEMPTS)

    def call_failed(self, batch: Sequence[int], error: BackendError) -> None:
        # From the last to the first: each that was tried is given this very error.
        for position in reversed(batch):
            self._failed(position, error, attempts=self._attempts())
        self._failed_calls += 1
        if self._failed_calls >= _FAILED_CALLS:
            while self._waiting:
                position = self._waiting.pop()
                if not self._is_held(position):
                    self._failed(position, error, attempts=self._attempts())

    def results(self) -> list[PublishResult]:
        return [result for result in self._results if result is not None]

    def _is_held(self, position: int) -> bool:
        return self._results[position] is not None or self._groups[position] in self._held

    def _failed(self, position: int, error: JobqError, *, attempts: int) -> None:
        self._tries[position] += 1
        if not _retryable(error) or self._tries[position] >= attempts:
            self._fail(position, error)
        elif (group := self._groups[position]) is not None:
            self._held.add(group)

    def _fail(self, position: int, error: JobqError) -> None:
        """For good; what comes later in its group and wasn't sent is not sent either."""
        self._results[position] = PublishResult(error=error)
        group = self._groups[position]
        if group is None:
            return
        for later in self._members[group]:
            if later > position and self._results[later] is None:
                self._results[later] = PublishResult(error=_behind(error, group, position))


def _retryable(error: JobqError) -> bool:
    return isinstance(error, BackendError) and error.retryable


def _overtaken(error: JobqError, group: str) -> BackendError:
    return BackendError(
        f"{error}; not tried again, because a later message of group {group!r} was accepted: "
        "sent now it would come after that one",
        throttled=isinstance(error, BackendError) and error.throttled,
        code=getattr(error, "code", None),
    )


def _behind(error: JobqError, group: str, position: int) -> BackendError:
    return BackendError(
        f"not sent, because message {position} of this batch, earlier in group {group!r}, failed: "
        f"{error}; send them again in order",
        retryable=_retryable(error),
        throttled=isinstance(error, BackendError) and error.throttled,
        denied=isinstance(error, BackendError) and error.denied,
        code=getattr(error, "code", None),
    )
