"""The flow that makes a queue, or finds the one that is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobq.core import BackendError, QueueNotFoundError
from jobq.core.limits import check_redrive, check_visibility
from jobq.sqs.common import addresses, inspecting, replies, requests
from jobq.sqs.common.addresses import Address
from jobq.sqs.common.calls import Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq.sqs.common.calls import Flow

_WAIT_SECONDS = 30
_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """How to make a queue where there is none of that name. Raises `ConfigurationError`.

    `dead_letter_queue` is a name, URL or ARN.
    """

    name: str
    fifo: bool
    visibility_timeout: float | None
    dead_letter_queue: str | None
    max_receive_count: int | None
    attributes: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.visibility_timeout is not None:
            check_visibility(self.visibility_timeout)
        check_redrive(
            self.name,
            dead_letter_queue=self.dead_letter_queue,
            max_receive_count=self.max_receive_count,
        )

    def queue_attributes(self, dead_letter_arn: str | None) -> dict[str, str]:
        """As CreateQueue spells them."""
        found = dict(self.attributes)
        if self.fifo:
            found["FifoQueue"] = "true"
        if self.visibility_timeout is not None:
            found["VisibilityTimeout"] = str(check_visibility(self.visibility_timeout))
        if dead_letter_arn is not None:
            found["RedrivePolicy"] = json.dumps(
                {"deadLetterTargetArn": dead_letter_arn, "maxReceiveCount": self.max_receive_count}
            )
        return found


def plan(
    name: str,
    *,
    fifo: bool,
    visibility_timeout: float | None,
    dead_letter_queue: str | None,
    max_receive_count: int | None,
    attributes: Mapping[str, str] | None,
) -> Wanted:
    """What `create` of a queue of that kind asks for: a FIFO queue's name gets its suffix.

    Raises `ConfigurationError`, also for a name of the other kind.
    """
    full_name = addresses.full_name(name, fifo=fifo)
    addresses.check_kind(full_name, fifo=fifo)
    return Wanted(
        name=full_name,
        fifo=fifo,
        visibility_timeout=visibility_timeout,
        dead_letter_queue=dead_letter_queue,
        max_receive_count=max_receive_count,
        attributes=attributes or {},
    )


def create(wanted: Wanted, *, clock: Callable[[], float]) -> Flow[str]:
    """The URL of the queue of the wanted name, made as wanted where there was none.

    An existing queue stays as it is. Waits up to 30 s for an endpoint that doesn't answer yet.
    """
    deadline = clock() + _WAIT_SECONDS
    while True:
        try:
            return (yield from _find_or_make(wanted))
        except BackendError as error:
            if not error.retryable:
                raise
            if clock() >= deadline:
                raise BackendError(
                    f"no success in {_WAIT_SECONDS} s: {error}",
                    retryable=True,
                    throttled=error.throttled,
                    code=error.code,
                ) from error
        yield Pause(_PAUSE_SECONDS)


def _find_or_make(wanted: Wanted) -> Flow[str]:
    # Asked first: some servers take CreateQueue on an existing queue as a change.
    try:
        return (yield from _find(wanted.name))
    except QueueNotFoundError:
        pass
    target = wanted.dead_letter_queue
    arn = (yield from inspecting.arn_of(Address(target))) if target else None
    call = requests.create(wanted.name, wanted.queue_attributes(arn))
    try:
        return replies.field_of((yield call), "QueueUrl", call)
    except BackendError as error:
        # Somebody else made it meanwhile, with attributes of their own.
        if error.code not in {"QueueNameExists", "QueueAlreadyExists"}:
            raise
        return (yield from _find(wanted.name))


def _find(name: str) -> Flow[str]:
    call = requests.url_of(name)
    return replies.field_of((yield call), "QueueUrl", call)
