"""What an installer gets: one namespace, typed leaves, ranges, entry points, light imports."""

import subprocess
import sys
from importlib import import_module, metadata, resources

import pytest

DISTRIBUTIONS = (
    "jobq-core",
    "jobq-sqs-common",
    "jobq-sqs-fifo",
    "jobq-sqs-standard",
    "jobq-worker",
)
# Looked for where all of them are installed: structlog, for one, imports rich if it can.
HEAVY = ("aioboto3", "boto3", "botocore", "click", "moto", "pydantic", "rich")

each_distribution = pytest.mark.parametrize("distribution", DISTRIBUTIONS)


@pytest.mark.parametrize("namespace", ["jobq", "jobq.sqs"])
def test_namespaces_belong_to_no_distribution(namespace: str) -> None:
    assert import_module(namespace).__file__ is None


@each_distribution
def test_leaf_is_typed(distribution: str) -> None:
    leaf = distribution.replace("-", ".")
    assert resources.files(leaf).joinpath("py.typed").is_file()


@each_distribution
def test_entry_points_resolve(distribution: str) -> None:
    for entry_point in metadata.distribution(distribution).entry_points:
        entry_point.load()


@each_distribution
def test_requirements_have_a_floor_and_siblings_a_range(distribution: str) -> None:
    for requirement in metadata.requires(distribution) or []:
        wanted, _, extra = requirement.partition(";")
        if wanted.startswith("jobq-worker["):
            assert "extra ==" in extra  # `all` gathers the worker's own extras
            continue
        assert ">=" in wanted, requirement
        if wanted.startswith("jobq-"):
            assert "<" in wanted, requirement


@pytest.mark.parametrize("leaf", ["jobq.core", "jobq.worker"])
def test_import_is_light(leaf: str) -> None:
    code = f"import sys, {leaf}; print(*sorted(sys.modules.keys() & set({HEAVY!r})))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.split() == []
