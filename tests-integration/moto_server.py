"""moto's SQS in a process of its own: here as the program, and as what starts and ends it."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def moto_process() -> Generator[str]:
    """The endpoint's URL."""
    process = subprocess.Popen(
        [sys.executable, "-u", __file__],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        with process.stdout as output:
            url = output.readline().strip()
            assert url, f"moto ended with {process.poll()}"
            yield url
    finally:
        process.kill()
        process.wait(10)


def main() -> None:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}")
    signal.pause()


if __name__ == "__main__":
    main()
