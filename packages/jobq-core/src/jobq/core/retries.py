"""When a job that raised is tried again, and when it no longer is."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias, get_args

from jobq.core.errors import ConfigurationError
from jobq.core.limits import check_retry_delay

WhenExhausted: TypeAlias = Literal["redrive", "dead_letter", "discard"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how soon a failed job runs again; a field left None is another level's to say.

    `max_attempts` counts receives. `base_delay` and `max_delay` are seconds: the n-th receive that
    fails hides the message for `min(max_delay, base_delay * 2 ** (n - 1))`, with `jitter` times 0.5
    to 1. Without a `base_delay` the message waits for its visibility timeout.

    Raises `DelayTooLongError` for a delay over 43,200 s (SQS's longest visibility timeout) and
    `ConfigurationError` for any other value that makes no sense.
    """

    max_attempts: int | None = None
    base_delay: float | None = None
    max_delay: float | None = None
    jitter: bool | None = None
    when_exhausted: WhenExhausted | None = None

    def __post_init__(self) -> None:
        if self.max_attempts is not None and not (
            type(self.max_attempts) is int and self.max_attempts >= 1
        ):
            raise ConfigurationError(
                f"max_attempts must be a whole number, at least 1, not {self.max_attempts!r}"
            )
        if self.base_delay is not None:
            check_retry_delay(self.base_delay, name="base_delay")
        if self.max_delay is not None:
            check_retry_delay(self.max_delay, name="max_delay")
        if self.jitter not in (None, True, False):
            raise ConfigurationError(f"jitter must be True or False, not {self.jitter!r}")
        if self.when_exhausted is not None and self.when_exhausted not in get_args(WhenExhausted):
            raise ConfigurationError(
                f"when_exhausted must be one of {', '.join(get_args(WhenExhausted))}, "
                f"not {self.when_exhausted!r}"
            )

    def over(self, farther: RetryPolicy | None) -> RetryPolicy:
        """This policy with what it leaves open taken from one that is farther away."""
        if farther is None:
            return self
        gaps = {
            f.name: getattr(farther, f.name) for f in fields(self) if getattr(self, f.name) is None
        }
        return replace(self, **gaps)


class RetryAfter(Exception):  # noqa: N818 - an instruction to the worker, not a failure
    """Raised by a handler: leave this message and deliver it again after `seconds`.

    Raises `DelayTooLongError` over 43,200 s, the longest visibility timeout of SQS, and
    `ConfigurationError` for what is no such time.
    """

    def __init__(self, seconds: float, reason: str = "") -> None:
        check_retry_delay(seconds, name="RetryAfter's delay")
        super().__init__(reason or f"again in {seconds} s")
        self.seconds = seconds


USUAL_MAX_DELAY_SECONDS = 900
DEFAULT_RETRY = RetryPolicy(
    max_delay=USUAL_MAX_DELAY_SECONDS, jitter=True, when_exhausted="redrive"
)


def retry_delay(policy: RetryPolicy, *, receive_count: int, random: float) -> int | None:
    """Whole seconds, at least 1, to hide a message whose `receive_count`-th run raised.

    `random` is between 0 and 1. None: no `base_delay`, so leave it to its visibility timeout.
    """
    if policy.base_delay is None:
        return None
    longest = USUAL_MAX_DELAY_SECONDS if policy.max_delay is None else policy.max_delay
    # The bound keeps a wild receive count from a power that no float holds.
    delay = min(longest, policy.base_delay * 2 ** min(max(receive_count, 1) - 1, 60))
    if policy.jitter is not False:
        delay *= 0.5 + random / 2
    return max(1, math.ceil(delay))
