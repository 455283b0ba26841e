"""The `jobq` command as a process, over an application in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

JOBQ = str(Path(sys.executable).with_name("jobq"))

APPLICATION = """
import sys

from jobq.core import QueueGroup
from jobq.worker import Worker

queues = QueueGroup.build(
    queues={
        "high": {"name": "high", "backend": "memory"},
        "default": {"name": "default", "backend": "memory"},
    }
)


def greet(payload):
    # In one piece: print writes its end by itself, and a log line may come between.
    sys.stdout.write("greeted " + payload["name"] + "\\n")


worker = Worker(queues, {"greet": greet}, idle_wait_seconds=1, shutdown_timeout=10)
"""


def run_jobq(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs to its end, within 30 s."""
    return subprocess.run(
        [JOBQ, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
