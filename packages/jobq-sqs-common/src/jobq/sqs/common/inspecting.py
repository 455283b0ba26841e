"""Flows that read a queue's settings and find the queues it is tied to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.core import BackendError
from jobq.sqs.common import replies, requests

if TYPE_CHECKING:
    from jobq.sqs.common.addresses import Address
    from jobq.sqs.common.calls import Flow


def settings(address: Address) -> Flow[dict[str, str]]:
    """All attributes of a queue, as GetQueueAttributes names and spells them."""
    call = requests.attributes((yield from address.url()))
    return replies.settings((yield call), call)


def visibility(address: Address) -> Flow[int]:
    """The queue's own visibility timeout, for leases that were given none."""
    try:
        found = yield from settings(address)
    except BackendError as error:
        if error.denied:
            raise BackendError(
                f"{error}; or give an explicit visibility: without one, queue {address.name!r} "
                "has to be asked for its own, or its leases can't be dated",
                denied=True,
                code=error.code,
            ) from error
        raise
    return int(found["VisibilityTimeout"])


def url_of_arn(arn: str) -> Flow[str]:
    """The URL of `arn:aws:sqs:region:account:name`, in the region of the client."""
    account, name = replies.arn_parts(arn)
    call = requests.url_of(name, account)
    return replies.field_of((yield call), "QueueUrl", call)


def arn_of(address: Address) -> Flow[str]:
    """The queue's ARN; an address may have been made of one."""
    if address.name.startswith("arn:"):
        return address.name
    return (yield from settings(address))["QueueArn"]


def dead_letter_url(address: Address) -> Flow[str | None]:
    """The URL of the queue that the redrive policy names, None without one."""
    policy = replies.redrive_policy((yield from settings(address)))
    arn = policy.get("deadLetterTargetArn")
    return (yield from url_of_arn(arn)) if arn else None
