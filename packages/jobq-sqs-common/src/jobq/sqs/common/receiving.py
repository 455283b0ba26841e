"""The flow that receives, and what it remembers between receives."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from jobq.core import BackendError
from jobq.core.limits import LARGEST_BATCH
from jobq.core.logs import get_logger
from jobq.sqs.common import messages, requests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobq.core import Lease
    from jobq.sqs.common.addresses import Address
    from jobq.sqs.common.calls import Flow

# ReceiveMessage: a ReceiveRequestAttemptId can be used again for five minutes.
ATTEMPT_SECONDS = 300

# An id, and when it was first sent.
Attempt: TypeAlias = tuple[str, float]


class Attempts:
    """The `ReceiveRequestAttemptId`s of FIFO receives whose replies were lost.

    SQS answers a receive that carries one of them again with the same messages and receipts, for
    five minutes; without it they would stay in flight, and their groups locked. Times are seconds
    on the clock of the leases. Safe to use from several threads.
    """

    def __init__(self, *, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._unanswered: deque[Attempt] = deque()

    def take(self, now: float) -> Attempt:
        """An unanswered id, or a new one; and when it was first sent."""
        while True:
            try:
                attempt, since = self._unanswered.popleft()
            except IndexError:
                return self._new_id(), now
            if now - since < ATTEMPT_SECONDS:
                return attempt, since

    def unanswered(self, attempt: str, since: float) -> None:
        self._unanswered.append((attempt, since))

    def dropped(self, answered: Sequence[Attempt]) -> None:
        """What these brought reached nobody: they are the first to be asked again."""
        self._unanswered.extendleft(reversed(answered))


def claim(
    address: Address,
    *,
    max_messages: int,
    visibility: int,
    wait: int,
    attempts: Attempts | None,
    clock: Callable[[], float],
) -> Flow[list[Lease]]:
    """Receive up to `max_messages`, hidden for `visibility` seconds, ten at most to a request.

    Only the first request waits; a later one that fails leaves what the others brought, and one
    that is interrupted has them all asked again. A message that can't be read is logged and left,
    unless a request brings no other: that one has failed.
    """
    leases: list[Lease] = []
    answered: list[Attempt] = []
    while (room := min(max_messages - len(leases), LARGEST_BATCH)) > 0:
        try:
            got, attempt = yield from _receive(
                address,
                max_messages=room,
                visibility=visibility,
                wait=0 if leases else wait,
                attempts=attempts,
                clock=clock,
            )
        except BackendError:
            if not leases:
                raise
            break
        except BaseException:
            if attempts:
                attempts.dropped(answered)
            raise
        leases += got
        if attempt:
            answered.append(attempt)
        if len(got) < room:
            break
    return leases


def _receive(
    address: Address,
    *,
    max_messages: int,
    visibility: int,
    wait: int,
    attempts: Attempts | None,
    clock: Callable[[], float],
) -> Flow[tuple[list[Lease], Attempt | None]]:
    """What one request brought, and the id that it went with.

    SQS hides a message at some moment between the request and its reply, at the latest when the
    poll's wait is over: leases are dated then, or when the reply arrived if that was earlier.
    """
    url = yield from address.url()
    sent = clock()
    attempt = attempts.take(sent) if attempts else None
    call = requests.receive(
        url,
        max_messages=max_messages,
        visibility=visibility,
        wait=wait,
        attempt_id=attempt[0] if attempt else None,
    )
    try:
        reply = yield call
        dated = min(clock(), sent + wait)
        leases, unreadable = messages.read(reply, call, expires_at=dated + visibility)
    except BaseException as error:
        if attempts and attempt and _reply_was_lost(error):
            attempts.unanswered(*attempt)
        raise
    for one in unreadable:
        get_logger("jobq.sqs").warning(
            "message_unreadable", queue=address.name, message_id=one.message_id, reason=one.reason
        )
    return leases, attempt


def _reply_was_lost(error: BaseException) -> bool:
    """A refusal is an answer; a broken connection, a 5xx and an interrupt may have lost one."""
    return not isinstance(error, BackendError) or (error.retryable and not error.throttled)
