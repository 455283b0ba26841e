"""Backends: found by what a definition says, or refused with the command that installs them."""

import importlib.metadata
from typing import Any

import pytest

from jobq.core import BackendNotInstalledError, QueueDefinition
from jobq.core.backends import backend_name, find_async_backend, find_backend
from jobq.core.memory import MemoryQueue


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes exactly these entry points the installed ones."""

    def installed(**backends: str) -> None:
        points = [
            importlib.metadata.EntryPoint(name.replace("_", "-"), value, group)
            for name, value in backends.items()
            for group in ("jobq.backends", "jobq.async_backends")
        ]

        def entry_points(**chosen: Any) -> Any:
            return importlib.metadata.EntryPoints(points).select(**chosen)

        monkeypatch.setattr("jobq.core.backends.entry_points", entry_points)

    return installed


@pytest.mark.parametrize(
    ("definition", "name"),
    [
        (QueueDefinition(name="jobs"), "sqs-standard"),
        (QueueDefinition(name="jobs.fifo"), "sqs-fifo"),
        (QueueDefinition(name="fifo"), "sqs-standard"),
        (QueueDefinition(url="https://sqs.eu-west-1.amazonaws.com/1/jobs.fifo"), "sqs-fifo"),
        (QueueDefinition(url="https://sqs.eu-west-1.amazonaws.com/1/jobs"), "sqs-standard"),
        (QueueDefinition(name="jobs.fifo", backend="memory"), "memory"),
        (QueueDefinition(name="jobs", backend="sqs-fifo"), "sqs-fifo"),
    ],
)
def test_the_suffix_picks_the_backend_and_a_definition_overrides_it(
    definition: QueueDefinition, name: str
) -> None:
    assert backend_name(definition) == name


def test_the_memory_backend_comes_with_the_core() -> None:
    queue = find_backend("memory")(QueueDefinition(name="jobs", backend="memory"))

    assert isinstance(queue, MemoryQueue)


@pytest.mark.parametrize(
    ("wanted", "command"),
    [
        (QueueDefinition(name="jobs"), "pip install jobq-sqs-standard"),
        (QueueDefinition(name="jobs.fifo"), "pip install jobq-sqs-fifo"),
        ("memory", "pip install jobq-core"),
    ],
)
def test_a_known_backend_that_is_missing_is_refused_with_its_pip_command(
    install: Any, wanted: Any, command: str
) -> None:
    install()
    with pytest.raises(BackendNotInstalledError, match=command):
        find_backend(wanted)


def test_an_unknown_backend_is_refused_with_those_that_are_installed(install: Any) -> None:
    install(sqs_fifo="x:y", memory="x:y")
    with pytest.raises(
        BackendNotInstalledError, match=r"'rabbit'.* installed are: memory, sqs-fifo"
    ):
        find_backend("rabbit")


def test_a_backend_that_cannot_be_imported_says_what_is_missing(install: Any) -> None:
    install(sqs_fifo="jobq_nothing.here:backend")
    with pytest.raises(
        BackendNotInstalledError, match=r"jobq_nothing.*: pip install jobq-sqs-fifo"
    ) as e:
        find_backend("sqs-fifo")
    assert isinstance(e.value.__cause__, ImportError)


@pytest.mark.parametrize(
    ("wanted", "command"),
    [
        (QueueDefinition(name="jobs"), r'pip install "jobq-sqs-standard\[aio\]"'),
        (QueueDefinition(name="jobs.fifo"), r'pip install "jobq-sqs-fifo\[aio\]"'),
        ("memory", "pip install jobq-core"),
    ],
)
def test_an_async_backend_that_is_missing_is_refused_with_the_command_for_its_extra(
    install: Any, wanted: Any, command: str
) -> None:
    install()
    with pytest.raises(BackendNotInstalledError, match=f"async backend .* isn't .*{command}"):
        find_async_backend(wanted)


def test_an_async_backend_without_its_sdk_is_refused_with_the_command_for_its_extra(
    install: Any,
) -> None:
    install(sqs_fifo="jobq_nothing.aio:backend")
    with pytest.raises(
        BackendNotInstalledError, match=r'jobq_nothing.*: pip install "jobq-sqs-fifo\[aio\]"'
    ):
        find_async_backend("sqs-fifo")


def test_sync_and_async_backends_are_looked_for_apart(install: Any) -> None:
    install(memory="jobq.core.memory:MemoryQueue")
    assert find_async_backend("memory") is find_backend("memory")
    with pytest.raises(BackendNotInstalledError, match="no async backend 'rabbit'"):
        find_async_backend("rabbit")
