"""A group of in-memory queues whose time a test moves."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from jobq.core.definitions import QueueDefinition
from jobq.core.memory import ManualClock, MemoryServer
from jobq.core.queue_group import QueueGroup

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobq.core.middleware import JobMiddleware

DEFAULT_QUEUES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"default": {"name": "default"}, "ledger": {"name": "ledger.fifo"}}
)
"""A standard queue and a FIFO queue."""


class JobQueues(QueueGroup):
    """A `QueueGroup` in memory, whatever backend its definitions name; `clock.advance(60)` is a
    minute later for all of it.

    A definition may hold a `MemoryQueue` on the same clock, to give it a dead-letter queue, say.
    """

    def __init__(
        self,
        queues: Mapping[str, QueueDefinition | Mapping[str, Any]] = DEFAULT_QUEUES,
        middleware: Sequence[JobMiddleware] = (),
        *,
        clock: ManualClock | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.server = MemoryServer(clock=self.clock)
        super().__init__(
            {name: _in_memory(name, definition) for name, definition in queues.items()},
            middleware,
            client=self.server,
        )


def _in_memory(name: str, given: QueueDefinition | Mapping[str, Any]) -> QueueDefinition:
    definition = (
        given if isinstance(given, QueueDefinition) else QueueDefinition.from_mapping(name, given)
    )
    return definition if definition.queue else replace(definition, backend="memory")
