"""`jobq settings`, and the connection that commands are given."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from jobq_command import run_jobq

from jobq.worker.cli.tables import plain_lines

if TYPE_CHECKING:
    from pathlib import Path

RIGHT = {"JOBQ_SQS_REGION": "eu-west-1", "JOBQ_SQS_QUEUE_PREFIX": "staging-"}
REPORTS = {"JOBQ_REPORTS_CONNECTION": "memory", "JOBQ_REPORTS_SQS_QUEUE_PREFIX": "reports-"}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in os.environ:
        if variable.startswith(("JOBQ_", "AWS_")):
            monkeypatch.delenv(variable)


def test_it_shows_each_key_with_its_value_and_its_source(tmp_path: Path) -> None:
    ended = run_jobq("settings", folder=tmp_path, **RIGHT)
    assert ended.returncode == 0, ended.stderr
    rows = [line.split(maxsplit=2) for line in ended.stdout.splitlines()]
    assert rows[0] == ["KEY", "VALUE", "SOURCE"]
    assert ["JOBQ_SQS_QUEUE_PREFIX", "staging-", "environment"] in rows
    assert ["JOBQ_SQS_TIMEOUT", "30", "default"] in rows
    assert ["JOBQ_MAX_ATTEMPTS", "-", "not set"] in rows


def test_what_is_wrong_is_said_below_and_it_exits_1(tmp_path: Path) -> None:
    wrong = {"JOBQ_SQS_ENDPOINT": "https://me:secret@a.example", "JOBQ_SQS_TIMEOUT": "5"}
    ended = run_jobq("settings", folder=tmp_path, **RIGHT, **wrong)
    assert (ended.returncode, ended.stderr) == (1, "")
    said = [line for line in ended.stdout.splitlines() if line.startswith("wrong: ")]
    assert [line.split()[1] for line in said] == ["JOBQ_SQS_ENDPOINT", "JOBQ_SQS_TIMEOUT"]
    assert "secret" not in ended.stdout


def test_json_holds_the_same_for_programs(tmp_path: Path) -> None:
    ended = run_jobq("settings", "--json", folder=tmp_path, **RIGHT, JOBQ_SQS_TIMEOUT="5")
    assert ended.returncode == 1
    found = {one["key"]: one for one in json.loads(ended.stdout)["settings"]}
    assert found["JOBQ_SQS_REGION"] == {
        "key": "JOBQ_SQS_REGION",
        "value": "eu-west-1",
        "source": "JOBQ_SQS_REGION",
        "problem": None,
        "note": None,
    }
    assert found["JOBQ_SQS_TIMEOUT"]["problem"].startswith("JOBQ_SQS_TIMEOUT is '5'")


def test_a_connection_that_is_named_is_the_one_that_is_shown(tmp_path: Path) -> None:
    ended = run_jobq("settings", "--connection", "Reports", folder=tmp_path, **RIGHT, **REPORTS)
    assert ended.returncode == 0, ended.stdout
    rows = [line.split(maxsplit=2) for line in ended.stdout.splitlines()]
    assert ["JOBQ_CONNECTION_NAME", "reports", "argument"] in rows
    assert ["JOBQ_REPORTS_CONNECTION", "memory", "environment"] in rows


@pytest.mark.parametrize("command", [("settings",), ("worker", "shop:worker")])
def test_what_is_no_connection_s_name_exits_2(command: tuple[str, ...], tmp_path: Path) -> None:
    ended = run_jobq(*command, "--connection", "my reports", folder=tmp_path)
    assert ended.returncode == 2
    assert "'my reports': it must be 'default', or a name" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_worker_s_connection_is_chosen_before_its_module_is_imported(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import os, sys\nsys.exit('by ' + os.environ['JOBQ_CONNECTION_NAME'])\n"
    )
    command = ("worker", "shop:worker", "--connection", "reports")
    ended = run_jobq(*command, folder=tmp_path, JOBQ_CONNECTION_NAME="other")
    assert ended.stderr.strip() == "by reports"


def test_plain_tables_have_columns() -> None:
    assert plain_lines(("A", "LONG"), [("one", "x"), ("2", "")]) == ["A    LONG", "one  x", "2"]
