"""Worker processes of a test: started, watched line by line, and ended by their ids."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SERVING = Path(__file__).with_name("serving.py")
# What the tests' own runner sets says nothing to a program under test.
_NOT_PASSED_ON = ("COVERAGE_", "PYTEST_", "PYTHON", "UV_", "VIRTUAL_ENV")


def until(
    true: Callable[[], object], what: str, *, seconds: float = 20, pause: float = 0.005
) -> None:
    """Wait until `true()`, and fail after so many seconds."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(pause)


class Process:
    """A Python program in a session of its own. `lines` are what it has logged so far, as JSON.

    `environment` comes on top of this process's own.
    """

    def __init__(self, *arguments: str, environment: Mapping[str, str]) -> None:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)
        }
        self._process = subprocess.Popen(
            [sys.executable, "-u", *arguments],
            env={**kept, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.lines: list[dict[str, Any]] = []
        self.other_output: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for text in output:
                try:
                    self.lines.append(json.loads(text))
                except ValueError:
                    self.other_output.append(text)

    @property
    def id(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in list(self.lines) if line["event"] == event]

    def until_logged(self, event: str, *, seconds: float = 30) -> dict[str, Any]:
        until(
            lambda: self.of(event) or not self.running,
            f"the line {event!r} of a worker; {self.lines[-3:]}",
            seconds=seconds,
        )
        found = self.of(event)
        assert found, f"ended without {event!r}: {self.lines[-3:]} {''.join(self.other_output)}"
        return found[0]

    def signal(self, number: signal.Signals) -> float:
        """Returns when it was sent, on `time.monotonic()`."""
        at = time.monotonic()
        self._process.send_signal(number)
        return at

    def cpu_seconds(self) -> float:
        """What it has used so far of the processor, all its threads, in the kernel's ticks."""
        fields = Path(f"/proc/{self.id}/stat").read_text().rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])
        return (user + system) / os.sysconf("SC_CLK_TCK")

    def wait(self, seconds: float = 30) -> int:
        """The exit code, once all that it wrote was read."""
        code = self._process.wait(seconds)
        self._reader.join(5)
        return code

    def last_line(self) -> dict[str, Any]:
        """Of a worker that ended: the line that accounts for every receive."""
        (last,) = self.of("worker_stopped")
        return last

    def end(self) -> None:
        """Leave nothing of it running, children included: they are in the session that it led."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        self._reader.join(5)


def serving(endpoint: str, settings: dict[str, Any]) -> Process:
    """A running `serving.py`."""
    environment = {"AWS_ENDPOINT_URL_SQS": endpoint}
    return Process(str(SERVING), json.dumps(settings), environment=environment)


@contextmanager
def worker_process(endpoint: str, **settings: Any) -> Generator[Process]:
    """A worker that has begun to serve."""
    process = serving(endpoint, settings)
    try:
        process.until_logged("worker_started")
        yield process
    finally:
        process.end()


def assert_adds_up(line: dict[str, Any], *, received: int) -> None:
    """S6: every receive is in exactly one class, and none was forgotten."""
    classes = ("started", "refused", "taken_over", "given_back", "left")
    assert line["received"] == sum(line[name] for name in classes), line
    assert line["received"] == received, line
