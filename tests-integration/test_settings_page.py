"""The page on settings says what the code reads, and what it says to what it refuses."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from programs import ROOT, run

from jobq.core import ConfigurationError, QueueGroup
from jobq.core.setting_keys import CONNECTION_NAME, KEYS
from jobq.core.settings import read_settings

PAGE = ROOT / "docs" / "settings.md"
REGION = {"JOBQ_SQS_REGION": "eu-west-1"}
NAME_ROW = [
    f"`{CONNECTION_NAME}`",
    "`default`",
    "a name of letters, digits, `-` and `_`",
    "which [connection](#several-connections) counts, where the code doesn't say",
]


def rows(heading: str) -> list[list[str]]:
    """The cells of the table that stands under a heading."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_the_keys_are_those_that_are_read() -> None:
    expected = [NAME_ROW]
    for key in KEYS:
        default = "" if key.default is None else f"`{str(key.default).lower()}`"
        expected.append([f"`JOBQ_{key.name}`", default, key.allowed, key.meaning])
    assert rows("The keys") == expected


@pytest.mark.parametrize(("environment", "message"), rows("What is refused"))
def test_what_is_refused_is_told_so(environment: str, message: str) -> None:
    given = dict(one.split("=", 1) for one in shlex.split(environment.strip("`")))
    if "JOBQ_SQS_REGION" not in message:
        given = {**REGION, **given}
    with pytest.raises(ConfigurationError) as refused:
        read_settings(given)
    assert f"`{refused.value}`" == message


@pytest.mark.parametrize("number", [1, 2])
def test_names_become_what_the_page_says(number: int) -> None:
    headings = ("my-app-jobs", "my-app-ledger.fifo")
    name = headings[number - 1]
    table = rows("What becomes of a queue's name")
    assert [row[0].strip("`") for row in table] == ["sqs", "sqs-standard", "sqs-fifo", "memory"]
    for row in table:
        backend, cell = row[0].strip("`"), row[number]
        settings = read_settings({**REGION, "JOBQ_CONNECTION": backend})
        if cell == "refused":
            with pytest.raises(ConfigurationError, match="is a FIFO queue's name"):
                settings.define([name])
            continue
        with QueueGroup(settings.define([name])) as group:
            kind = "FIFO" if group.queue(name).capabilities.ordered else "standard"
            assert cell == f"`{group.definition(name).name}`, {kind}"


def test_the_code_of_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(
        r"^```python\n# (\S+)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    for name, block in blocks:
        (tmp_path / name).write_text(block)
    assert [name for name, _ in blocks] == ["jobs.py", "send.py"]
    program = ("python", "-c", "import send; print(send.queues.stats()['my-app-ledger'].waiting)")
    ended = run(*program, folder=tmp_path, more={"JOBQ_CONNECTION": "memory"})
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "1"
