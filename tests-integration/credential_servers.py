"""What gives a process its AWS credentials, on the loopback interface: endpoints of STS, of a
container and of an instance.

Each answer holds keys of its own, so that requests show by their signature which were used.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

from sqs_proxy import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Good from `given` until `expires`, on `time.monotonic()`."""

    access_key: str
    given: float
    expires: float


@dataclass(slots=True, kw_only=True)
class Issuer:
    """Gives keys that are good for `seconds`. Before each it calls `hold`, in the request's thread;
    while `failing`, it answers that status instead, and while there is `another` answer, that one:
    status, headers and body.
    """

    seconds: float = 3600
    failing: int | None = None
    another: tuple[int, dict[str, str], bytes] | None = None
    hold: Callable[[], object] = lambda: None
    given: list[Keys] = field(default_factory=list[Keys])
    asked: int = 0
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def issue(self) -> Keys | None:
        with self._lock:
            self.asked += 1
        self.hold()
        with self._lock:
            if self.failing is not None:
                return None
            now = time.monotonic()
            name = f"KEY{len(self.given)}"
            self.given.append(Keys(access_key=name, given=now, expires=now + self.seconds))
            return self.given[-1]

    def of(self, request: Request) -> Keys:
        """Those that a request was signed with."""
        return next(keys for keys in self.given if keys.access_key == signer_of(request))


def signer_of(request: Request) -> str:
    """The access key of a signature."""
    found = re.search(r"Credential=([^/]+)/", request.headers["Authorization"])
    assert found is not None
    return found[1]


@contextmanager
def container_endpoint() -> Generator[Issuer]:
    """What `AWS_CONTAINER_CREDENTIALS_FULL_URI` names: ECS and EKS pod identity answer so."""

    def answer(handler: BaseHTTPRequestHandler, issuer: Issuer) -> None:
        keys = issuer.issue()
        if keys is None:
            return _write(handler, issuer.failing or 500, b"{}")
        return _write(handler, 200, _fields(keys))

    with _serving(answer) as issuer:
        issuer.url += "/credentials"
        yield issuer


@contextmanager
def metadata_endpoint() -> Generator[Issuer]:
    """What `AWS_EC2_METADATA_SERVICE_ENDPOINT` names: an instance's."""

    def answer(handler: BaseHTTPRequestHandler, issuer: Issuer) -> None:
        if handler.path.endswith("/api/token"):
            return _write(handler, 200, b"session")
        if handler.path.endswith("/security-credentials/"):
            return _write(handler, 200, b"jobs")
        keys = issuer.issue()
        if keys is None:
            return _write(handler, issuer.failing or 500, b"{}")
        return _write(handler, 200, _fields(keys))

    with _serving(answer) as issuer:
        yield issuer


@contextmanager
def sts_endpoint() -> Generator[Issuer]:
    """What `AWS_ENDPOINT_URL_STS` names; it gives any token a role."""

    def answer(handler: BaseHTTPRequestHandler, issuer: Issuer) -> None:
        keys = issuer.issue()
        if keys is None:
            text = (
                "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error>"
                "</ErrorResponse>"
            )
            return _write(handler, issuer.failing or 500, text.encode())
        text = (
            "<AssumeRoleWithWebIdentityResponse "
            'xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>'
            f"<Credentials><AccessKeyId>{keys.access_key}</AccessKeyId>"
            "<SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken>"
            f"<Expiration>{_written(keys)}</Expiration></Credentials>"
            "<AssumedRoleUser><AssumedRoleId>id:s</AssumedRoleId>"
            "<Arn>arn:aws:sts::123456789012:assumed-role/jobs/s</Arn></AssumedRoleUser>"
            "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        )
        return _write(handler, 200, text.encode())

    with _serving(answer) as issuer:
        yield issuer


def _fields(keys: Keys) -> bytes:
    fields = {
        "AccessKeyId": keys.access_key,
        "SecretAccessKey": "secret",
        "Token": "token",
        "Expiration": _written(keys),
    }
    return json.dumps(fields).encode()


def _written(keys: Keys) -> str:
    left = timedelta(seconds=keys.expires - time.monotonic())
    return (datetime.now(UTC) + left).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _write(
    handler: BaseHTTPRequestHandler,
    status: int,
    body: bytes,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def _serving(answer: Callable[[BaseHTTPRequestHandler, Issuer], None]) -> Generator[Issuer]:
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer()

        def do_PUT(self) -> None:
            self.do_POST()

        def _answer(self) -> None:
            # A client may have waited long enough.
            with suppress(BrokenPipeError, ConnectionResetError):
                if issuer.another is None:
                    return answer(self, issuer)
                issuer.asked += 1
                status, headers, body = issuer.another
                return _write(self, status, body, headers)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - inherited
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    issuer.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
