"""Backends, found among the installed entry points of the group `jobq.backends`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from jobq.core.definitions import QueueDefinition
from jobq.core.errors import BackendNotInstalledError

if TYPE_CHECKING:
    from jobq.core.interfaces.backend import Backend

ENTRY_POINTS = "jobq.backends"
_DISTRIBUTIONS = {
    "memory": "jobq-core",
    "sqs-fifo": "jobq-sqs-fifo",
    "sqs-standard": "jobq-sqs-standard",
}


def backend_name(definition: QueueDefinition) -> str:
    """The backend that a definition asks for; a name or URL that ends in `.fifo` asks for FIFO."""
    if definition.backend is not None:
        return definition.backend
    address = definition.name or definition.url or ""
    return "sqs-fifo" if address.endswith(".fifo") else "sqs-standard"


def find_backend(wanted: QueueDefinition | str) -> Backend:
    """Import a backend, by its name or for a definition. Raises `BackendNotInstalledError`."""
    name = wanted if isinstance(wanted, str) else backend_name(wanted)
    for entry_point in entry_points(group=ENTRY_POINTS, name=name):
        try:
            return entry_point.load()
        except ImportError as error:
            raise BackendNotInstalledError(
                f"backend {name!r} is installed but can't be imported ({error}){_remedy(name)}"
            ) from error
    if name in _DISTRIBUTIONS:
        raise BackendNotInstalledError(f"backend {name!r} isn't installed{_remedy(name)}")
    installed = sorted({entry_point.name for entry_point in entry_points(group=ENTRY_POINTS)})
    raise BackendNotInstalledError(
        f"no backend {name!r} is installed; installed are: {', '.join(installed) or 'none'}"
    )


def _remedy(name: str) -> str:
    distribution = _DISTRIBUTIONS.get(name)
    return f": pip install {distribution}" if distribution else ""
