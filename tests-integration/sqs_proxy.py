"""A proxy before a local SQS server: it writes down what passes, and may hold or refuse it."""

from __future__ import annotations

import http.client
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias
from urllib.parse import urlsplit

_HOP_BY_HOP = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`operation` is SQS's own name. `at` is when it came, on `time.monotonic()`."""

    operation: str
    body: dict[str, Any]
    headers: dict[str, str]
    path: str
    at: float

    @property
    def queue(self) -> str:
        """The queue's name, "" where the request has none."""
        return str(self.body.get("QueueUrl", "")).rpartition("/")[2]

    @property
    def entries(self) -> list[dict[str, Any]]:
        return self.body.get("Entries") or [self.body]


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body.get("Messages") or []

    @property
    def failed(self) -> list[dict[str, Any]]:
        return self.body.get("Failed") or []


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and the reply that the client was sent."""

    request: Request
    reply: Reply
    answered_at: float


Forward: TypeAlias = Callable[[Request], Reply]
Intercept: TypeAlias = Callable[[Request, Forward], Reply]


def refusal(code: str, *, status: int = 400, fault: str = "Sender") -> Reply:
    """An error as SQS's JSON protocol gives it."""
    return Reply(
        status,
        {"__type": f"com.amazonaws.sqs#{code}", "message": f"{code}, says the proxy"},
        {"x-amzn-query-error": f"{code};{fault}", "content-type": "application/x-amz-json-1.0"},
    )


class Proxy:
    """`intercept` stands between each request and the server, in that request's own thread.

    `broken` names the requests whose client was gone, or had reset the connection, before it read
    the reply.
    """

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._host, self._port = parts.hostname or "", parts.port
        self._lock = threading.Lock()
        self.exchanges: list[Exchange] = []
        self.waiting: list[Request] = []
        self.broken: list[str] = []
        self.intercept: Intercept = lambda request, forward: forward(request)
        self.url = ""

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.waiting.append(request)
        try:
            return self.intercept(request, self.forward)
        finally:
            with self._lock:
                self.waiting.remove(request)

    def note(self, request: Request, reply: Reply) -> None:
        with self._lock:
            self.exchanges.append(Exchange(request, reply, time.monotonic()))

    def note_broken(self, what: str) -> None:
        with self._lock:
            self.broken.append(what)

    def forward(self, request: Request) -> Reply:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=60)
        try:
            connection.request("POST", request.path, json.dumps(request.body), request.headers)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        headers = {
            name: value for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP
        }
        return Reply(answer.status, json.loads(text) if text.strip() else {}, headers)


@contextmanager
def proxy_before(upstream: str) -> Generator[Proxy]:
    """A proxy on a free port of the loopback interface."""
    proxy = Proxy(upstream)
    server = _Server(("127.0.0.1", 0), _handler_of(proxy))
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: Proxy
    under_way = "an idle connection"

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionResetError, BrokenPipeError):
            self.proxy.note_broken(self.under_way)

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        request = Request(
            operation=self.headers.get("X-Amz-Target", "").rpartition(".")[2],
            body=json.loads(self.rfile.read(length) or b"{}"),
            headers={
                name: value
                for name, value in self.headers.items()
                if name.lower() not in ("connection", "content-length")
            },
            path=self.path,
            at=time.monotonic(),
        )
        self.under_way = f"{request.operation} {request.queue}"
        reply = self.proxy.answer(request)
        if _is_gone(self.connection):
            self.proxy.note_broken(self.under_way)
            self.close_connection = True
            return
        self.proxy.note(request, reply)
        self._write(reply)

    def _write(self, reply: Reply) -> None:
        text = json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is inherited
        pass


def _handler_of(proxy: Proxy) -> type[_Handler]:
    return type("Handler", (_Handler,), {"proxy": proxy})


def _is_gone(connection: socket.socket) -> bool:
    """A client that waits for a reply sends nothing: what can be read is its end."""
    readable, _, _ = select.select([connection], [], [], 0)
    if not readable:
        return False
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True
