"""Which queue is meant, and its URL once that is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.core import ConfigurationError
from jobq.core.limits import check_queue_name
from jobq.sqs.common import replies, requests

if TYPE_CHECKING:
    from jobq.sqs.common.calls import Call, Flow


def full_name(name: str, *, fifo: bool) -> str:
    """The name with the suffix that AWS asks of a FIFO queue's."""
    return f"{name.removesuffix('.fifo')}.fifo" if fifo else name


def check_kind(name_or_url: str, *, fifo: bool) -> None:
    """Raise `ConfigurationError` for no queue's name or URL, and for one of the other kind."""
    check_queue_name(name_or_url.rpartition("/")[2])
    if fifo and not name_or_url.endswith(".fifo"):
        raise ConfigurationError(
            f"{name_or_url!r} is no FIFO queue's: their names end in '.fifo'; "
            "correct it, or use the standard backend"
        )
    if not fifo and name_or_url.endswith(".fifo"):
        raise ConfigurationError(
            f"{name_or_url!r} is a FIFO queue's: use the FIFO backend, or another queue"
        )


class Address:
    """A queue's URL, or its name until the URL was looked up.

    Threads that find it unknown at the same moment each look it up; they find the same. So do
    tasks, unless the driver makes all but one wait.
    """

    def __init__(self, name_or_url: str) -> None:
        self.name = name_or_url.rpartition("/")[2]
        self._url = name_or_url if "://" in name_or_url else None

    @property
    def reply(self) -> dict[str, Any] | None:
        """What a call that `asks` would bring, once that is known."""
        return None if self._url is None else {"QueueUrl": self._url}

    def asks(self, call: Call) -> bool:
        """Whether this call looks up the URL."""
        return call.operation == requests.LOOKUP and call == requests.url_of(self.name)

    def url(self) -> Flow[str]:
        if self._url is None:
            call = requests.url_of(self.name)
            self._url = replies.field_of((yield call), "QueueUrl", call)
        return self._url
