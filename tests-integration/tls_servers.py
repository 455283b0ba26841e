"""An HTTPS endpoint on the loopback interface, and a proxy by whose tunnel it is reached."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate_of(host: str, folder: Path) -> Path:
    """A certificate that signs itself, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@contextmanager
def https_endpoint(
    certificate: Path, answer: Callable[[BaseHTTPRequestHandler], None]
) -> Generator[int]:
    """Its port. `answer` is called with each POST, whose body was read."""

    class Handler(_Handler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer(self)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with _serving(Handler, context) as port:
        yield port


@contextmanager
def tunnel_to(port: int) -> Generator[str]:
    """The URL of a proxy whose tunnels all end there, whatever host is asked for."""

    class Handler(_Handler):
        def do_CONNECT(self) -> None:
            with socket.create_connection(("127.0.0.1", port)) as there:
                self.send_response(200)
                self.end_headers()
                back = threading.Thread(target=_pass_on, args=(there, self.connection), daemon=True)
                back.start()
                _pass_on(self.connection, there)
                back.join(5)
            self.close_connection = True

    with _serving(Handler, None) as own:
        yield f"http://127.0.0.1:{own}"


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        # One of the two hung up.
        return


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - inherited
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up amid a handshake is no news."""


@contextmanager
def _serving(handler: type[_Handler], context: ssl.SSLContext | None) -> Generator[int]:
    server = _Server(("127.0.0.1", 0), handler)
    if context is not None:
        # The handshake is the request's thread's, with its first read.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
