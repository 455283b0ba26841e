"""Importing the core is light: nothing that a queue, a command or a log may need later."""

import subprocess
import sys

HEAVY = (
    "aioboto3",
    "aiobotocore",
    "aiohttp",
    "boto3",
    "botocore",
    "click",
    "hypothesis",
    "pydantic",
    "pytest",
    "rich",
    "structlog",
)


def loaded_after(statement: str, *names: str) -> str:
    code = f"import sys; {statement}; print([n for n in {names!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_the_core_loads_no_sdk_no_command_line_and_no_rich() -> None:
    assert loaded_after("import jobq.core", *HEAVY) == "[]"


def test_building_a_group_in_memory_loads_them_neither() -> None:
    build = (
        "from jobq.core import QueueGroup;QueueGroup({'a': {'name': 'jobs', 'backend': 'memory'}})"
    )
    assert loaded_after(build, *HEAVY) == "[]"
    assert loaded_after(build.replace("QueueGroup", "AsyncQueueGroup"), *HEAVY) == "[]"
