"""Every error that jobq raises, under one root.

`BackendError` carries what a caller may decide on as data (`retryable`, `throttled`, `denied`),
so that nobody matches on types or texts. What an SDK raised is always the `__cause__`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.core.message import PublishResult


class JobqError(Exception):
    """The root of all that jobq raises on its own account."""


class ConfigurationError(JobqError, ValueError):
    """The application is set up in a way that can't work."""


class BackendNotInstalledError(JobqError):
    """A queue names a backend whose distribution isn't installed; the text has the pip command."""


class UnknownQueueError(JobqError):
    """A group was asked for a queue name that it doesn't hold."""


class UnsupportedFeatureError(JobqError):
    """The queue's kind can't do what was asked (a priority, or a delay per message on FIFO)."""


class InvalidMessageError(JobqError):
    """A message, payload or attribute that can't be sent; nothing was."""


class MessageTooLargeError(InvalidMessageError):
    """Body and attributes exceed what the queue takes, in bytes; nothing was sent."""


class DelayTooLongError(JobqError):
    """A delay over 900 s on send, or over 43,200 s on retry (SQS quotas)."""


class BackendError(JobqError):
    """The queue's service refused a call or couldn't be asked.

    `retryable`: the same call may succeed later. `throttled`: later means slower.
    `denied`: credentials are missing or lack a permission. `code` is the service's own word for it.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        throttled: bool = False,
        denied: bool = False,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.throttled = throttled
        self.denied = denied
        self.code = code


class QueueNotFoundError(BackendError):
    """The queue doesn't exist, or not under this account and region."""


class LeaseLostError(BackendError):
    """The receipt is no longer good: the lease ran out or the message was received anew."""


class PublishBatchError(BackendError):
    """At least one message of a batch wasn't sent.

    `results` holds one `PublishResult` for each message, in the order they were given.
    """

    def __init__(self, message: str, *, results: Sequence[PublishResult]) -> None:
        errors = [result.error for result in results if result.error is not None]
        backend = [error for error in errors if isinstance(error, BackendError)]
        super().__init__(
            message,
            retryable=bool(errors) and all(e.retryable for e in backend) and backend == errors,
            throttled=any(error.throttled for error in backend),
            denied=any(error.denied for error in backend),
        )
        self.results = tuple(results)


class NonRetryableError(Exception):
    """Raised by a handler: this message can never succeed, delete it."""
