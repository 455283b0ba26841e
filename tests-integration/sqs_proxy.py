"""A proxy before a local SQS server: writes down what passes, and may hold, refuse or break it."""

from __future__ import annotations

import http.client
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, TypeAlias
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """In place of a reply: bytes as they are, and how the connection ends after them.

    First comes `silence`, in seconds, or as long as the client stays.
    """

    data: bytes = b""
    end: Literal["kept", "closed", "reset"] = "closed"
    silence: float = 0


# What is noted of a client that was given no reply.
BROKEN = Reply(0, {})


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and the reply that the client was sent: `BROKEN` if it was none of SQS's."""

    request: Request
    reply: Reply
    answered_at: float


Forward: TypeAlias = Callable[[Request], Reply]
Intercept: TypeAlias = Callable[[Request, Forward], Reply | Wire]


def refusal(code: str, *, status: int = 400, fault: str = "Sender") -> Reply:
    """An error as SQS's JSON protocol gives it."""
    return Reply(
        status,
        {"__type": f"com.amazonaws.sqs#{code}", "message": f"{code}, says the proxy"},
        {"x-amzn-query-error": f"{code};{fault}", "content-type": "application/x-amz-json-1.0"},
    )


def written(reply: Reply) -> bytes:
    """A reply as it goes over the wire."""
    text = json.dumps(reply.body).encode()
    headers = {**reply.headers, "Content-Length": str(len(text))}
    return page(text, status=reply.status, headers=headers)


def page(body: bytes, *, status: int = 200, headers: dict[str, str]) -> bytes:
    """Any HTTP answer; a client that is told no length reads to the connection's end."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Proxy:
    """`intercept` stands between each request and the server, in that request's own thread.

    `exchanges` is what clients were told, `served` what the server was asked and answered, whoever
    heard of it. `broken` names the requests whose client was gone, or had reset the connection,
    before it read the reply. `welcome` is asked of each new connection: one that isn't is reset
    before it is read from.
    """

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self._host, self._port = parts.hostname or "", parts.port
        self._lock = threading.Lock()
        self.exchanges: list[Exchange] = []
        self.served: list[Exchange] = []
        self.waiting: list[Request] = []
        self.broken: list[str] = []
        self.intercept: Intercept = lambda request, forward: forward(request)
        self.welcome: Callable[[], bool] = lambda: True
        self.url = ""

    def answer(self, request: Request) -> Reply | Wire:
        with self._lock:
            self.waiting.append(request)
        try:
            return self.intercept(request, self.forward)
        finally:
            with self._lock:
                self.waiting.remove(request)

    def note(self, request: Request, answer: Reply | Wire) -> None:
        reply = BROKEN if isinstance(answer, Wire) else answer
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
        reply = Reply(answer.status, json.loads(text) if text.strip() else {}, headers)
        with self._lock:
            self.served.append(Exchange(request, reply, time.monotonic()))
        return reply


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
    to_reset = False

    def handle(self) -> None:
        if not self.proxy.welcome():
            self.to_reset = True
            return
        try:
            super().handle()
        except (ConnectionResetError, BrokenPipeError):
            self.proxy.note_broken(self.under_way)

    def finish(self) -> None:
        if self.to_reset:
            # Closed with nothing to linger for, a connection is reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.wfile.close()
            self.connection.close()
        super().finish()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length)
        if len(text) < length:
            # A client that was killed meanwhile has asked for nothing.
            self.close_connection = True
            return
        request = Request(
            operation=self.headers.get("X-Amz-Target", "").rpartition(".")[2],
            body=json.loads(text or b"{}"),
            headers={
                name: value
                for name, value in self.headers.items()
                if name.lower() not in ("connection", "content-length")
            },
            path=self.path,
            at=time.monotonic(),
        )
        self.under_way = f"{request.operation} {request.queue}"
        answer = self.proxy.answer(request)
        if isinstance(answer, Wire):
            _stay_silent(self.connection, answer.silence)
        elif _is_gone(self.connection):
            self.proxy.note_broken(self.under_way)
            self.close_connection = True
            return
        self.proxy.note(request, answer)
        self._write(answer)

    def _write(self, answer: Reply | Wire) -> None:
        if isinstance(answer, Wire):
            self.close_connection = answer.end != "kept"
            self.to_reset = answer.end == "reset"
            self.wfile.write(answer.data)
        else:
            self.wfile.write(written(answer))

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


def _stay_silent(connection: socket.socket, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not _is_gone(connection):
        time.sleep(0.02)
