"""What is wrong with a queue's settings, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.core import BackendError, JobqError
from jobq.core.interfaces import Finding
from jobq.sqs.common import inspecting, replies
from jobq.sqs.common.addresses import Address

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobq.sqs.common.calls import Flow

# maxReceiveCount below this sends a message away for one crash or one deployment.
_FEW_RECEIVES = 3
_SHORT_VISIBILITY_SECONDS = 10


def diagnose(address: Address) -> Flow[list[Finding]]:
    """Ask for the queue's settings and those of its dead-letter queue; never raises for what it
    finds, a queue that can't be asked included.
    """
    try:
        settings = yield from inspecting.settings(address)
    except BackendError as error:
        return [_cannot_ask(address.name, error)]
    arn = replies.redrive_policy(settings).get("deadLetterTargetArn")
    dead_letter: Mapping[str, str] | BackendError | None = None
    if arn:
        try:
            url = yield from inspecting.url_of_arn(arn)
            dead_letter = yield from inspecting.settings(Address(url))
        except BackendError as error:
            dead_letter = error
    return findings(address.name, settings, dead_letter)


def findings(
    name: str, settings: Mapping[str, str], dead_letter: Mapping[str, str] | JobqError | None
) -> list[Finding]:
    """Judge a queue's attributes and its dead-letter queue's (or why they can't be read)."""
    found = [*_own(name, settings)]
    policy = replies.redrive_policy(settings)
    target = str(policy.get("deadLetterTargetArn", "")).rpartition(":")[2]
    if not policy:
        if "RedriveAllowPolicy" not in settings and not name.removesuffix(".fifo").endswith("dlq"):
            found.append(_no_policy(name))
    elif isinstance(dead_letter, JobqError):
        found.append(_cannot_ask(target, dead_letter))
    elif dead_letter is not None:
        found += _pair(name, settings, target, dead_letter)
    return found or [Finding(severity="ok", subject=name, problem="nothing to report")]


def _cannot_ask(name: str, error: JobqError) -> Finding:
    return Finding(
        severity="error",
        subject=name,
        problem=str(error),
        remedy="see that the queue exists and that this role may read its attributes",
    )


def _no_policy(name: str) -> Finding:
    return Finding(
        severity="warning",
        subject=name,
        problem="no redrive policy: a message that always fails comes back until it expires",
        remedy="give the queue a dead-letter queue and a maxReceiveCount",
    )


def _own(name: str, settings: Mapping[str, str]) -> list[Finding]:
    found: list[Finding] = []
    if int(settings["VisibilityTimeout"]) < _SHORT_VISIBILITY_SECONDS:
        found.append(
            Finding(
                severity="warning",
                subject=name,
                problem=f"visibility timeout {settings['VisibilityTimeout']} s leaves little time "
                "to extend a lease",
                remedy="set VisibilityTimeout to 30 s or more, or visibility_timeout here",
            )
        )
    count = replies.redrive_policy(settings).get("maxReceiveCount")
    if count is not None and int(count) < _FEW_RECEIVES:
        found.append(
            Finding(
                severity="warning",
                subject=name,
                problem=f"maxReceiveCount {count}: a crash or a stop can dead-letter a message "
                "that never ran",
                remedy=f"set maxReceiveCount to {_FEW_RECEIVES} or more",
            )
        )
    return found


def _pair(
    name: str, settings: Mapping[str, str], target: str, dead_letter: Mapping[str, str]
) -> list[Finding]:
    found: list[Finding] = []
    if name.endswith(".fifo") != target.endswith(".fifo"):
        found.append(
            Finding(
                severity="error",
                subject=name,
                problem=f"its dead-letter queue {target} is of the other kind",
                remedy="name a FIFO queue for a FIFO queue, a standard one for a standard one",
            )
        )
    # A message keeps the time of its first send when a standard queue's policy moves it.
    ours = int(settings.get("MessageRetentionPeriod", 345_600))
    theirs = int(dead_letter.get("MessageRetentionPeriod", 345_600))
    if theirs <= ours:
        found.append(
            Finding(
                severity="warning",
                subject=target,
                problem=f"retention {theirs} s isn't above the {ours} s of {name}: "
                "what is moved late expires soon",
                remedy="set the dead-letter queue's MessageRetentionPeriod to 1209600 (14 days)",
            )
        )
    held = int(dead_letter.get("ApproximateNumberOfMessages", 0))
    if held:
        found.append(
            Finding(
                severity="warning",
                subject=target,
                problem=f"holds about {held} messages",
                remedy="look at them, then move them back or purge them",
            )
        )
    return found
