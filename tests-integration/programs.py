"""Programs as somebody starts them from a shell, and what they wrote when they ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

JOBQ = str(Path(sys.executable).with_name("jobq"))
ROOT = Path(__file__).parents[1]
# What the tests' own runner sets says nothing to a program under test.
_NOT_PASSED_ON = ("COVERAGE_", "PYTEST_", "PYTHON", "UV_", "VIRTUAL_ENV")


def environment(**more: str) -> dict[str, str]:
    """This process's own, which leads to no AWS account (see conftest), and `more`."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}
    return {**kept, **more}


def run(
    *command: str, folder: Path, more: Mapping[str, str] | None = None, seconds: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run to the end, with `more` in the environment; `python` is this one, `jobq` beside it."""
    program = {"python": sys.executable, "jobq": JOBQ}.get(command[0], command[0])
    return subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env=environment(**(more or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
