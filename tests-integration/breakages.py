"""What breaks between a client and a server: connections, replies cut short, answers of others.

Each is an `Intercept` for a proxy; `both` of `faults` puts one behind another.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping

from sqs_proxy import Forward, Intercept, Reply, Request, Wire, page, refusal, written

JSON = "application/x-amz-json-1.0"
HTML = b"<html><head><title>Back soon</title></head><body><h1>Maintenance</h1></body></html>"


def _headers(content_type: str, length: int) -> dict[str, str]:
    return {"Content-Type": content_type, "Content-Length": str(length)}


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def late(seconds: float) -> Intercept:
    def intercept(request: Request, forward: Forward) -> Reply:
        time.sleep(seconds)
        return forward(request)

    return intercept


def unsent(request: Request, forward: Forward) -> Wire:
    """The connection is reset; the server never sees the request."""
    return Wire(end="reset")


def unanswered(request: Request, forward: Forward) -> Wire:
    """The server does what it was asked, and then the connection is reset."""
    forward(request)
    return Wire(end="reset")


def reset_midway(request: Request, forward: Forward) -> Wire:
    """Half of the server's reply, and a reset."""
    return Wire(data=_half(written(forward(request))), end="reset")


def cut_short(request: Request, forward: Forward) -> Wire:
    """The server's reply but for its last byte, and the end of the stream."""
    return Wire(data=written(forward(request))[:-1])


def cut_in_headers(request: Request, forward: Forward) -> Wire:
    """The end of the stream after the first headers of the server's reply."""
    head, _, _ = written(forward(request)).lower().partition(b"content-length")
    return Wire(data=head)


def halved(request: Request, forward: Forward) -> Wire:
    """Half of the JSON of the server's reply, as if that were all."""
    body = _half(json.dumps(forward(request).body).encode())
    return Wire(data=page(body, headers=_headers(JSON, len(body))), end="kept")


def silent(seconds: float) -> Intercept:
    """Taken, and not answered for so long; the server never sees it."""
    return lambda request, forward: Wire(silence=seconds)


def answered_with(
    body: bytes,
    *,
    status: int = 200,
    content_type: str = JSON,
    more: Mapping[str, str] | None = None,
) -> Intercept:
    """Whatever was asked; the server never sees it."""
    data = page(body, status=status, headers={**_headers(content_type, len(body)), **(more or {})})
    return lambda request, forward: Wire(data=data, end="kept")


maintenance = answered_with(HTML, content_type="text/html; charset=utf-8")
nothing = answered_with(b"")
garbage = answered_with(b"\xff\xfe\x00garbage", content_type="application/octet-stream")
moved = answered_with(b"", status=301, more={"Location": "http://127.0.0.1:1/"})
error_with_200 = answered_with(
    b'{"__type":"com.amazonaws.sqs#ServiceUnavailable","message":"try again"}'
)
bad_gateway = answered_with(HTML, status=502, content_type="text/html")


def throttled(request: Request, forward: Forward) -> Reply:
    return refusal("RequestThrottled")


def unavailable(request: Request, forward: Forward) -> Reply:
    return refusal("ServiceUnavailable", status=503, fault="Receiver")


class Mischief:
    """Breaks a share of the requests by the draws of a seed, `most` at most, and counts them.

    `faults` are named. The draws follow from the seed, which request meets which from the moment.
    """

    def __init__(
        self, seed: int, *, share: float, most: int, faults: Mapping[str, Intercept]
    ) -> None:
        self._chance = random.Random(seed)
        self._share = share
        self._left = most
        self._faults = dict(faults)
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    def __call__(self, request: Request, forward: Forward) -> Reply | Wire:
        name = self._drawn()
        return forward(request) if name is None else self._faults[name](request, forward)

    def _drawn(self) -> str | None:
        with self._lock:
            if not self._left or self._chance.random() >= self._share:
                return None
            self._left -= 1
            name = self._chance.choice(sorted(self._faults))
            self.counts[name] += 1
            return name
