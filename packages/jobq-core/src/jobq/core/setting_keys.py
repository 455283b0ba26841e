"""The keys that jobq reads from the environment: what each may be, and what it means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from jobq.core.backends import known_backends
from jobq.core.limits import LONGEST_VISIBILITY_SECONDS, LONGEST_WAIT_SECONDS
from jobq.core.origins import read_origin

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

PREFIX = "JOBQ_"
CONNECTION_NAME = "JOBQ_CONNECTION_NAME"
DEFAULT_CONNECTION = "default"
SQS = "sqs"
SQS_BACKENDS = (SQS, "sqs-fifo", "sqs-standard")

_LONGEST_TIMEOUT = 3600
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?\Z")
# botocore's rule for a region, which becomes a part of a host's name.
_REGION = re.compile(r"(?![0-9]+\Z)(?!-)[A-Za-z0-9-]{1,63}(?<!-)\Z")
# A prefix leaves room for one character of the 80 that a queue's name may have.
_QUEUE_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,79}\Z")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key(Generic[T]):
    """One setting. `name` is the variable's, without `JOBQ_` and without a connection's name.

    `read` makes a value of the text or raises `ValueError`, whose text says what is allowed;
    `allowed` and `meaning` are for readers. `default` None: not set. `shared`: a named connection
    that has none of its own reads the plain one.
    """

    name: str
    read: Callable[[str], T]
    default: T | None = None
    shared: bool = False
    allowed: str
    meaning: str

    def variable(self, connection: str) -> str:
        """The environment variable that a connection reads first."""
        return f"{prefix_of(connection)}{self.name}"


def read_connection_name(text: str) -> str:
    """A connection's name in lower case and with dashes, since that is how far names differ."""
    if not _NAME.match(text):
        raise ValueError(
            "it must be 'default', or a name of letters, digits, '-' and '_' that begins with a "
            "letter, such as reports"
        )
    return text.lower().replace("_", "-")


def prefix_of(connection: str) -> str:
    """What the variables of a connection begin with."""
    if connection == DEFAULT_CONNECTION:
        return PREFIX
    return f"{PREFIX}{connection.upper().replace('-', '_')}_"


def _read_backend(text: str) -> str:
    # One of ours that isn't installed passes: whoever makes its queues names the pip command.
    known = [SQS, *known_backends()]
    if text not in known:
        raise ValueError(f"it must be one of {', '.join(known)}")
    return text


def _read_region(text: str) -> str:
    if not _REGION.match(text):
        raise ValueError("it must be a region's name, such as eu-west-1")
    return text


def _read_queue_prefix(text: str) -> str:
    if not _QUEUE_PREFIX.match(text):
        raise ValueError(
            "it goes before the names of queues, so it must be 1 to 79 of A-Z, a-z, 0-9, '-' and "
            "'_'"
        )
    return text


def _read_bool(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("it must be true or false")
    return text.lower() == "true"


def _number(text: str) -> float | None:
    if not _NUMBER.match(text):
        return None
    return float(text) if "." in text else int(text)


def _read_timeout(text: str) -> float:
    seconds = _number(text)
    if seconds is None or not LONGEST_WAIT_SECONDS < seconds <= _LONGEST_TIMEOUT:
        raise ValueError(
            f"it must be a number of seconds above {LONGEST_WAIT_SECONDS}, which the longest poll "
            f"takes, and at most {_LONGEST_TIMEOUT}"
        )
    return seconds


def _read_visibility(text: str) -> float:
    seconds = _number(text)
    if seconds is None or not 1 <= seconds <= LONGEST_VISIBILITY_SECONDS:
        raise ValueError(
            f"it must be a number of seconds, 1 to {LONGEST_VISIBILITY_SECONDS} (12 hours)"
        )
    return seconds


def _read_attempts(text: str) -> int:
    attempts = _number(text)
    if not isinstance(attempts, int) or attempts < 1:
        raise ValueError("it must be a whole number, at least 1")
    return attempts


def _read_delay(text: str) -> float:
    seconds = _number(text)
    if seconds is None or not 0 <= seconds <= LONGEST_VISIBILITY_SECONDS:
        raise ValueError(
            f"it must be a number of seconds, 0 to {LONGEST_VISIBILITY_SECONDS} (12 hours), for "
            "longer a message can't be hidden"
        )
    return seconds


CONNECTION = Key(
    name="CONNECTION",
    read=_read_backend,
    default=SQS,
    allowed="`sqs`, `sqs-fifo`, `sqs-standard`, `memory`, or another installed backend",
    meaning="what the queues are; with `sqs`, the suffix of each tells FIFO from standard",
)
SQS_REGION = Key(
    name="SQS_REGION",
    read=_read_region,
    allowed="a region, such as `eu-west-1`",
    meaning="where the queues are; required for SQS",
)
SQS_QUEUE_PREFIX = Key(
    name="SQS_QUEUE_PREFIX",
    read=_read_queue_prefix,
    allowed="letters, digits, `-` and `_`",
    meaning="goes before the name of each queue",
)
SQS_ENDPOINT = Key(
    name="SQS_ENDPOINT",
    read=read_origin,
    allowed="one origin, such as `https://sqs.example.com:8443`",
    meaning="where SQS answers, in place of AWS's own address",
)
SQS_PLAINTEXT = Key(
    name="SQS_PLAINTEXT",
    read=_read_bool,
    default=False,
    allowed="`true` or `false`",
    meaning="whether the endpoint may be an `http://` one",
)
SQS_TIMEOUT: Key[float] = Key(
    name="SQS_TIMEOUT",
    read=_read_timeout,
    default=30,
    allowed=f"above {LONGEST_WAIT_SECONDS}, at most {_LONGEST_TIMEOUT}",
    meaning="seconds without an answer after which a request, or a look-up of credentials, fails",
)
VISIBILITY_TIMEOUT: Key[float] = Key(
    name="VISIBILITY_TIMEOUT_SECONDS",
    read=_read_visibility,
    default=300,
    shared=True,
    allowed=f"1 to {LONGEST_VISIBILITY_SECONDS}",
    meaning="seconds that a received message stays hidden, where a queue's definition says "
    "nothing: sent with every receive, in place of the queue's own",
)
MAX_ATTEMPTS = Key(
    name="MAX_ATTEMPTS",
    read=_read_attempts,
    shared=True,
    allowed="a whole number, at least 1",
    meaning="receives after which a job that raises is given up",
)
RETRY_BASE_DELAY = Key(
    name="RETRY_BASE_DELAY_SECONDS",
    read=_read_delay,
    shared=True,
    allowed=f"0 to {LONGEST_VISIBILITY_SECONDS}",
    meaning="seconds until a job that raised runs again, doubled each time up to 900, or to itself",
)

KEYS: tuple[Key[Any], ...] = (
    CONNECTION,
    SQS_REGION,
    SQS_QUEUE_PREFIX,
    SQS_ENDPOINT,
    SQS_PLAINTEXT,
    SQS_TIMEOUT,
    VISIBILITY_TIMEOUT,
    MAX_ATTEMPTS,
    RETRY_BASE_DELAY,
)
