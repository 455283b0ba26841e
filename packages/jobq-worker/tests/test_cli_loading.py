"""What MODULE:WORKER may name, and what is said where it names nothing that runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jobq_command import APPLICATION

from jobq.worker import Worker
from jobq.worker.cli.loading import LoadError, load_worker

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current directory; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def refusal(target: str) -> str:
    with pytest.raises(LoadError) as refused:
        load_worker(target)
    assert refused.value.exit_code == 2
    return refused.value.message


def test_a_worker_is_found_in_a_module_of_the_current_directory(folder: Path) -> None:
    (folder / "shop.py").write_text(APPLICATION)
    assert isinstance(load_worker("shop:worker"), Worker)


def test_a_worker_is_found_in_a_package(folder: Path) -> None:
    (folder / "shop").mkdir()
    (folder / "shop" / "jobs.py").write_text(APPLICATION)
    assert isinstance(load_worker("shop.jobs:worker"), Worker)


@pytest.mark.parametrize("target", ["shop", "shop:", ":worker", ""])
def test_a_target_without_both_halves_is_told_the_form(folder: Path, target: str) -> None:
    assert refusal(target).startswith(f"{target!r} is no MODULE:WORKER")


def test_a_missing_module_is_named_with_the_folder_that_was_searched(folder: Path) -> None:
    said = refusal("shop:worker")
    assert "no module 'shop'" in said
    assert str(folder) in said
    assert "Traceback" not in said


def test_a_missing_module_of_a_package_is_named(folder: Path) -> None:
    (folder / "shop").mkdir()
    assert "no module 'shop.jobs'" in refusal("shop.jobs:worker")


@pytest.mark.parametrize("name", ["./shop", "shop/jobs.py", ".shop", r"shop\jobs"])
def test_a_path_is_told_the_form_of_a_module(folder: Path, name: str) -> None:
    said = refusal(f"{name}:worker")
    assert said.startswith(f"{name!r} is no module")
    assert "Traceback" not in said


def test_a_file_in_place_of_its_module_is_told_to_leave_out_the_ending(folder: Path) -> None:
    (folder / "shop.py").write_text(APPLICATION)
    assert refusal("shop.py:worker").endswith("without its .py")


def test_an_import_that_fails_inside_the_module_keeps_its_traceback(folder: Path) -> None:
    (folder / "shop.py").write_text("import nothing_of_that_name\n")
    said = refusal("shop:worker")
    assert said.startswith("module 'shop' can't be imported")
    assert 'shop.py", line 1' in said
    assert "No module named 'nothing_of_that_name'" in said


def test_only_the_frames_of_the_application_are_shown(folder: Path) -> None:
    (folder / "shop.py").write_text("1 / 0\n")
    said = refusal("shop:worker")
    assert "ZeroDivisionError" in said
    assert "importlib" not in said
    assert "loading.py" not in said


def test_a_syntax_error_is_shown_with_its_place(folder: Path) -> None:
    (folder / "shop.py").write_text("def\n")
    said = refusal("shop:worker")
    assert 'shop.py", line 1' in said
    assert "SyntaxError" in said


FROM_ENV = """from jobq.core import QueueGroup

queues = QueueGroup.from_env(["default"])
"""


def test_what_jobq_refuses_inside_the_module_is_one_line_with_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBQ_CONNECTION", "nowhere")
    (folder / "shop.py").write_text(FROM_ENV)
    said = refusal("shop:worker")
    assert said.startswith(f"{folder / 'shop.py'}:3: JOBQ_CONNECTION")
    assert "\n" not in said


def test_its_place_is_that_of_the_module_which_asked_for_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBQ_CONNECTION", "nowhere")
    (folder / "queues.py").write_text(FROM_ENV)
    (folder / "shop.py").write_text("import queues\n")
    assert refusal("shop:worker").startswith(f"{folder / 'queues.py'}:3: ")


def test_its_place_is_not_in_what_jobq_calls_meanwhile(folder: Path) -> None:
    (folder / "shop.py").write_text(
        "from jobq.core import JobqError, QueueGroup\n"
        "class Definitions(dict):\n"
        "    def items(self):\n"
        "        raise JobqError('no')\n"
        "QueueGroup(Definitions(a={'name': 'a'}))\n"
    )
    assert refusal("shop:worker") == f"{folder / 'shop.py'}:5: no"


def test_its_place_is_the_import_where_a_part_of_jobq_refuses_to_be_imported(folder: Path) -> None:
    (folder / "jobq").mkdir()
    (folder / "jobq" / "broken.py").write_text(
        "from jobq.core import JobqError\nraise JobqError('no')\n"
    )
    (folder / "shop.py").write_text("import importlib\nimportlib.import_module('jobq.broken')\n")
    assert refusal("shop:worker") == f"{folder / 'shop.py'}:2: no"
    assert refusal("jobq.broken:worker") == "module 'jobq.broken': no"


def test_what_an_application_refuses_in_the_words_of_jobq_is_told_alike(folder: Path) -> None:
    (folder / "shop.py").write_text(
        "from jobq.core import ConfigurationError\nraise ConfigurationError('no such shop')\n"
    )
    assert refusal("shop:worker") == f"{folder / 'shop.py'}:2: no such shop"


def test_a_missing_name_is_told_the_workers_that_are_there(folder: Path) -> None:
    (folder / "shop.py").write_text(APPLICATION)
    assert refusal("shop:wrker") == "module 'shop' has no 'wrker': the workers there are worker"


def test_what_is_no_worker_is_told_its_type(folder: Path) -> None:
    (folder / "shop.py").write_text(APPLICATION)
    said = refusal("shop:queues")
    assert said == "shop:queues is of type QueueGroup, no Worker: the workers there are worker"


def test_a_module_without_workers_is_told_to_make_one(folder: Path) -> None:
    (folder / "shop.py").write_text("")
    assert "worker = Worker(queues, handlers)" in refusal("shop:worker")
