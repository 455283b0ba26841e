"""`jobq worker` as whoever types it meets it."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from jobq_command import APPLICATION, JOBQ, run_jobq

if TYPE_CHECKING:
    from pathlib import Path

ENQUEUE = 'queues.enqueue("{queue}", "greet", {{"name": "{queue}"}})\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Holds `shop.py`, with one job in each of its queues."""
    text = APPLICATION + ENQUEUE.format(queue="default") + ENQUEUE.format(queue="high")
    (tmp_path / "shop.py").write_text(text)
    return tmp_path


def lines_of(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def started(output: str) -> dict[str, Any]:
    (line,) = [line for line in lines_of(output) if line["event"] == "worker_started"]
    return line


def greeted(output: str) -> list[str]:
    return [line.split()[1] for line in output.splitlines() if line.startswith("greeted")]


def test_a_burst_runs_what_is_there_and_exits_0(folder: Path) -> None:
    ended = run_jobq("worker", "shop:worker", "--burst", folder=folder)
    assert ended.returncode == 0, ended.stderr
    assert sorted(greeted(ended.stdout)) == ["default", "high"]
    assert started(ended.stdout)["queues"] == ["high", "default"]
    assert lines_of(ended.stdout)[-1]["event"] == "worker_stopped"


def test_queues_chooses_and_orders(folder: Path) -> None:
    ended = run_jobq("worker", "shop:worker", "--burst", "--queues", "default", folder=folder)
    assert greeted(ended.stdout) == ["default"]

    both = ("--queues", "default, high", "--polling", "strict")
    ended = run_jobq("worker", "shop:worker", "--burst", *both, folder=folder)
    assert started(ended.stdout)["queues"] == ["default", "high"]


def test_options_that_are_given_override_the_worker_s_own(folder: Path) -> None:
    ended = run_jobq("worker", "shop:worker", "--burst", "--concurrency", "3", folder=folder)
    assert started(ended.stdout)["concurrency"] == 3
    ended = run_jobq("worker", "shop:worker", "--burst", folder=folder)
    assert started(ended.stdout)["concurrency"] == 1


def test_the_health_file_is_touched(folder: Path) -> None:
    run_jobq("worker", "shop:worker", "--burst", "--health-file", "alive", folder=folder)
    assert (folder / "alive").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--queues", "low"], "no queue 'low': the worker has 'high', 'default'"),
        (["--queues", ""], "no queue ''"),
        (["--concurrency", "0"], "concurrency must be a whole number of at least 1, not 0"),
        (["--concurrency", "many"], "'many' is not a valid integer"),
        (["--polling", "random"], "'random' is not one of 'weighted', 'strict'"),
    ],
)
def test_an_option_that_can_not_work_exits_2_and_says_why(
    folder: Path, options: list[str], said: str
) -> None:
    ended = run_jobq("worker", "shop:worker", *options, folder=folder)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_module_that_is_missing_exits_2_without_a_traceback(folder: Path) -> None:
    ended = run_jobq("worker", "store:worker", folder=folder)
    assert ended.returncode == 2
    assert ended.stderr.startswith("jobq worker: no module 'store'")
    assert "Traceback" not in ended.stderr


def test_a_wrong_environment_is_one_line_and_exit_2(folder: Path) -> None:
    text = "from jobq.core import QueueGroup\nqueues = QueueGroup.from_env(['default'])\n"
    (folder / "shop.py").write_text(text)
    ended = run_jobq("worker", "shop:worker", folder=folder, JOBQ_CONNECTION="nowhere")
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"jobq worker: {folder / 'shop.py'}:2: JOBQ_CONNECTION")
    assert ended.stdout == ""


def test_a_setting_that_can_not_work_is_one_line_and_exit_1(folder: Path) -> None:
    application = APPLICATION.replace("shutdown_timeout=10", "on_malformed='dead_letter'")
    (folder / "shop.py").write_text(application.replace("idle_wait_seconds=1, ", ""))
    ended = run_jobq("worker", "shop:worker", folder=folder)
    assert ended.returncode == 1
    warning, line = lines_of(ended.stdout)
    assert warning["event"] == "no_redrive_policy"
    assert (line["event"], line["level"]) == ("worker_not_started", "error")
    assert "on_malformed='dead_letter'" in line["error"]
    assert ended.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_with_exit_0(folder: Path, number: signal.Signals) -> None:
    with subprocess.Popen(
        [JOBQ, "worker", "shop:worker"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if "worker_started" in line:
                    break
            process.send_signal(number)
            rest, _ = process.communicate(timeout=20)
        finally:
            process.kill()
    assert process.returncode == 0
    assert lines_of(rest)[-1]["event"] == "worker_stopped"


def test_the_application_s_own_logging_stays(folder: Path) -> None:
    own = "import structlog\nstructlog.configure(processors=[lambda *_: 'our own line'])\n"
    (folder / "shop.py").write_text(own + APPLICATION)
    ended = run_jobq("worker", "shop:worker", "--burst", folder=folder)
    assert set(ended.stdout.splitlines()) == {"our own line"}
