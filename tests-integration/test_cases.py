"""Every case that broke other workers on SQS has a test here that bears its name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# S: stopping. L: leases and duplicates. O: order. P: polling. C: clients. M: messages.
# What waits for typed payloads, processes or tracing comes with them.
CASES = [
    *(f"s{n}" for n in range(1, 9)),
    *(f"l{n}" for n in range(1, 15)),
    *(f"o{n}" for n in range(1, 9)),
    *(f"p{n}" for n in range(1, 13)),
    *(f"c{n}" for n in range(1, 7)),
    *(f"m{n}" for n in range(1, 8)),
]
NAME = re.compile(r"test_((?:[slopcm]\d+_)+)")


def named_cases() -> set[str]:
    """Those that some test's name begins with; a name may begin with several."""
    files = [*ROOT.glob("packages/*/tests/**/test_*.py"), *ROOT.glob("tests-integration/test_*.py")]
    found: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                match = NAME.match(node.name)
                found.update(match[1].split("_") if match else ())
    return found


@pytest.fixture(scope="module")
def named() -> set[str]:
    return named_cases()


@pytest.mark.parametrize("case", CASES)
def test_each_case_has_a_test(named: set[str], case: str) -> None:
    assert case in named


def test_no_test_bears_the_name_of_a_case_that_is_none(named: set[str]) -> None:
    assert named - {""} <= {*CASES, "c7", "m8", "m9", "t1", "t2", "t3"}
