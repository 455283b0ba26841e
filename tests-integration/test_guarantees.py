"""The page on guarantees names tests, files, rules and numbers that there are."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from programs import ROOT

from jobq.core import QueueDefinition
from jobq.worker.engine.polling import RESERVATION_SECONDS
from jobq.worker.options import Options
from jobq.worker.signals import SAME_SIGNAL_SECONDS

PAGE = ROOT / "docs" / "guarantees.md"
RULES = ROOT / "packages" / "jobq-worker" / "tests" / "simulation"
STATEMENTS = range(1, 27)

DEFINITION = re.compile(r"^\[([\w/-]+)\]: (\S+)$", re.MULTILINE)
# A statement begins a paragraph, in bold, and ends where the next or a heading begins.
HEADING = re.compile(r"^(?:#+ .*|\*\*(\d+)\. )", re.MULTILINE)
EVIDENCE = re.compile(r"\[([\w-]+/\w+)\]|`(test_\w+)`|Simulation:\s`(\w+)`")
FILE = re.compile(r"`([\w./-]+\.(?:py|md|toml))`")
# Anything that looks like a test's name, written in whatever way.
LOOSE = re.compile(r"\btest_\w+\b(?!\.py|…)")


@dataclass(frozen=True, slots=True)
class Named:
    """A test or a rule that the page names; `statement` is the one it stands under, if any."""

    statement: int | None
    label: str
    test: str = ""
    rule: str = ""


def page() -> str:
    return PAGE.read_text()


def body() -> str:
    return DEFINITION.sub("", page())


def linked() -> dict[str, Path]:
    """The file that each label leads to."""
    return {label: (PAGE.parent / target).resolve() for label, target in DEFINITION.findall(page())}


def evidence() -> list[Named]:
    headings = list(HEADING.finditer(body()))
    ends = [*(one.start() for one in headings[1:]), len(body())]
    found: list[Named] = []
    for heading, end in zip(headings, ends, strict=True):
        statement, label = int(heading[1]) if heading[1] else None, ""
        for one in EVIDENCE.finditer(body(), heading.end(), end):
            label = one[1] or label
            if one[2] or one[3]:
                found.append(Named(statement, label, one[2] or "", one[3] or ""))
    return found


@cache
def functions_of(file: Path) -> set[str]:
    tree = ast.walk(ast.parse(file.read_text()))
    return {node.name for node in tree if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def rules() -> dict[str, int]:
    """The statement of each rule class of the simulation."""
    found: dict[str, int] = {}
    for file in RULES.glob("*_rules.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                for number in filter(None, map(statement_of, node.body)):
                    found[node.name] = number
    return found


def statement_of(node: ast.stmt) -> int | None:
    match node:
        case ast.Assign(targets=[ast.Name(id="statement")], value=ast.Constant(value=int(number))):
            return number
        case _:
            return None


@pytest.mark.parametrize("label", linked())
def test_each_label_leads_to_a_file_of_that_name(label: str) -> None:
    file = linked()[label]
    assert file.is_file()
    assert file.stem.removeprefix("test_") == label.rpartition("/")[2]
    assert f"[{label}]" in body(), "nothing uses it"


@pytest.mark.parametrize("one", [one for one in evidence() if one.test], ids=lambda one: one.test)
def test_each_test_that_is_named_is_in_the_file_that_stands_before_it(one: Named) -> None:
    assert one.label in linked(), f"{one.label or 'no file'} stands before {one.test}"
    assert one.test in functions_of(linked()[one.label])


def test_no_test_is_named_in_a_way_that_is_not_looked_up() -> None:
    assert sorted(LOOSE.findall(FILE.sub("", body()))) == sorted(
        one.test for one in evidence() if one.test
    )


@pytest.mark.parametrize("statement", STATEMENTS)
def test_each_statement_is_there_with_a_test_that_exists(statement: int) -> None:
    tests = [one for one in evidence() if one.statement == statement and one.test]
    assert any(one.test in functions_of(linked()[one.label]) for one in tests)


def test_the_statements_are_numbered_in_order() -> None:
    numbers = [int(one[1]) for one in HEADING.finditer(body()) if one[1]]
    assert numbers == list(STATEMENTS)


def test_each_rule_of_the_simulation_stands_under_its_statement() -> None:
    assert {one.rule: one.statement for one in evidence() if one.rule} == rules()


def test_files_that_are_named_are_there() -> None:
    missing = [name for name in FILE.findall(body()) if not (ROOT / name).exists()]
    assert missing == []


def test_links_within_the_page_lead_to_headings() -> None:
    headings = [one[0].lstrip("# ") for one in HEADING.finditer(body()) if not one[1]]
    anchors = {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}
    assert set(re.findall(r"\]\(#([\w-]+)\)", body())) <= anchors


def test_the_defaults_are_those_that_the_page_goes_by() -> None:
    options, definition = Options(), QueueDefinition(name="q")
    assert (options.shutdown_timeout, options.idle_wait_seconds) == (25, 20)
    assert (options.claim_ahead, options.hold_limit) == (1, 20)
    assert (options.on_malformed, options.on_broken_queue) == ("delete", "back_off")
    assert (definition.max_runtime_seconds, definition.claim_size) == (3600, None)
    assert (RESERVATION_SECONDS, SAME_SIGNAL_SECONDS) == (1, 0.02)
