"""The code in the READMEs runs as it stands there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from programs import ROOT, run

from jobq.sqs.fifo import SqsFifoQueue
from jobq.sqs.standard import SqsStandardQueue
from jobq.worker.cli.local import local_environment, local_sqs

READMES = [ROOT / "README.md", *sorted(ROOT.glob("packages/*/README.md"))]
TESTS = ("python", "-m", "pytest", "-q", "-W", "error")
WORKER = ("jobq", "worker", "worker:worker", "--burst")
ENDPOINT = "http://localhost:4566"


def blocks(readme: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", readme.read_text(), re.DOTALL | re.MULTILINE)


def file_name(block: str) -> str | None:
    """What a block calls itself in its first line, as in `# worker.py`."""
    found = re.match(r"# (\w+\.py)", block)
    return found and found[1]


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """Leads to a server that has the queues of the examples."""
    with local_sqs() as endpoint:
        for name in ("my-app-critical", "my-app-jobs"):
            SqsStandardQueue.create(name, endpoint_url=endpoint).close()
        SqsFifoQueue.create("my-app-ledger", endpoint_url=endpoint).close()
        yield local_environment(endpoint)


def output_of(*command: str, folder: Path, environment: dict[str, str]) -> str:
    ended = run(*command, folder=folder, more=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_every_readme_but_the_support_library_s_shows_code() -> None:
    shown = {readme.parent.name for readme in READMES if blocks(readme)}
    assert shown == {readme.parent.name for readme in READMES} - {"jobq-sqs-common"}


@pytest.mark.parametrize("readme", READMES, ids=lambda readme: readme.parent.name)
def test_the_code_of_a_readme_runs(
    readme: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    for number, block in enumerate(blocks(readme)):
        script = tmp_path / (file_name(block) or f"block_{number}.py")
        script.write_text(block.replace(ENDPOINT, environment["JOBQ_SQS_ENDPOINT"]))
        if script.name.startswith("test_"):  # for pytest, in the tests of the package itself
            output_of(*TESTS, script.name, folder=tmp_path, environment=environment)
            continue
        if script.name != "worker.py":
            output_of("python", script.name, folder=tmp_path, environment=environment)
            continue
        output = output_of(*WORKER, folder=tmp_path, environment=environment)
        assert '"worker_stopped"' in output


def test_the_worker_of_the_first_page_runs_what_its_producer_sent(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    named = {file_name(block): block for block in blocks(ROOT / "README.md")}
    for name in ("jobs.py", "signup.py", "worker.py"):
        (tmp_path / name).write_text(named[name])
    output_of("python", "signup.py", folder=tmp_path, environment=environment)
    output = output_of(*WORKER, folder=tmp_path, environment=environment)
    lines = [json.loads(line) for line in output.splitlines()]
    ended = {
        (line["job_type"], line["outcome"]) for line in lines if line["event"] == "job_finished"
    }
    assert ended == {("send_welcome_email", "success"), ("recalculate", "success")}


def test_the_commands_that_set_everything_up_are_named() -> None:
    commands = [line.strip() for line in (ROOT / "README.md").read_text().splitlines()]
    assert "pip install uv && uv run examples/quickstart.py" in commands
    assert "pip install uv && uv run pytest" in commands


def test_links_lead_to_files_that_are_there() -> None:
    for readme in READMES:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", readme.read_text()):
            assert (readme.parent / target).exists(), f"{readme}: {target}"
