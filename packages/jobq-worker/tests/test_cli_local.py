"""What `jobq local` refuses, and what it says without its extra."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from jobq_command import run_jobq

from jobq.core import ConfigurationError
from jobq.worker.cli.local import local_sqs

if TYPE_CHECKING:
    from pathlib import Path


def test_without_its_extra_it_names_the_one_to_install() -> None:
    code = "import sys; sys.modules['moto'] = None; import jobq.worker.cli as cli; cli.main()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "local"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ended.returncode == 2
    assert 'pip install "jobq-worker[local]"' in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com"])
def test_an_address_that_others_reach_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match="no loopback address"), local_sqs(host=host):
        pass


def test_a_port_that_is_taken_exits_2_and_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run_jobq("local", "--port", port, folder=tmp_path)
    assert ended.returncode == 2
    assert f"port {port} of 127.0.0.1" in ended.stderr
    assert "Traceback" not in ended.stderr
