"""Importing the worker is cheap."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["click", "rich", "boto3", "botocore", "structlog"])
def test_importing_the_worker_does_not_import(module: str) -> None:
    code = f"import sys, jobq.worker; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_is_public_is_there_and_sorted() -> None:
    import jobq.worker

    names = jobq.worker.__all__
    assert names == sorted(names)
    assert all(hasattr(jobq.worker, name) for name in names)
