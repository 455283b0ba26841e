"""Backends, found among the installed entry points of `jobq.backends` and `jobq.async_backends`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from jobq.core.definitions import QueueDefinition
from jobq.core.errors import BackendNotInstalledError

if TYPE_CHECKING:
    from jobq.core.interfaces.backend import AsyncBackend, Backend

ENTRY_POINTS = "jobq.backends"
ASYNC_ENTRY_POINTS = "jobq.async_backends"
_COMMANDS = {
    ENTRY_POINTS: {
        "memory": "pip install jobq-core",
        "sqs-fifo": "pip install jobq-sqs-fifo",
        "sqs-standard": "pip install jobq-sqs-standard",
    },
    ASYNC_ENTRY_POINTS: {
        "memory": "pip install jobq-core",
        "sqs-fifo": 'pip install "jobq-sqs-fifo[aio]"',
        "sqs-standard": 'pip install "jobq-sqs-standard[aio]"',
    },
}


def backend_name(definition: QueueDefinition) -> str:
    """The backend that a definition asks for; a name or URL that ends in `.fifo` asks for FIFO."""
    if definition.backend is not None:
        return definition.backend
    address = definition.name or definition.url or ""
    return "sqs-fifo" if address.endswith(".fifo") else "sqs-standard"


def find_backend(wanted: QueueDefinition | str) -> Backend:
    """Import a backend, by its name or for a definition. Raises `BackendNotInstalledError`."""
    return _find(ENTRY_POINTS, wanted, "backend")


def find_async_backend(wanted: QueueDefinition | str) -> AsyncBackend:
    """Import an async backend, by its name or for a definition.

    Raises `BackendNotInstalledError`, also where only the extra `aio` is missing.
    """
    return _find(ASYNC_ENTRY_POINTS, wanted, "async backend")


def known_backends() -> list[str]:
    """The backends that are installed, sync or async, and jobq's own, sorted."""
    groups = (ENTRY_POINTS, ASYNC_ENTRY_POINTS)
    installed = {found.name for group in groups for found in entry_points(group=group)}
    return sorted(installed | set(_COMMANDS[ENTRY_POINTS]))


def _find(group: str, wanted: QueueDefinition | str, kind: str) -> Any:
    name = wanted if isinstance(wanted, str) else backend_name(wanted)
    command = _COMMANDS[group].get(name)
    remedy = f": {command}" if command else ""
    for entry_point in entry_points(group=group, name=name):
        try:
            return entry_point.load()
        except ImportError as error:
            raise BackendNotInstalledError(
                f"{kind} {name!r} is installed but can't be imported ({error}){remedy}"
            ) from error
    if command:
        raise BackendNotInstalledError(f"{kind} {name!r} isn't installed{remedy}")
    installed = sorted({entry_point.name for entry_point in entry_points(group=group)})
    raise BackendNotInstalledError(
        f"no {kind} {name!r} is installed; installed are: {', '.join(installed) or 'none'}"
    )
