"""The queues of a `JobQueues` for what awaits them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobq.core.aio import AsyncQueueGroup
from jobq.core.errors import ConfigurationError
from jobq.core.memory import AsyncMemoryQueue, MemoryQueue

if TYPE_CHECKING:
    from jobq.core.definitions import QueueDefinition
    from jobq.core.testing.job_queues import JobQueues


def async_twin(queues: JobQueues) -> AsyncQueueGroup:
    """The same queues under the same names, with the same hooks: what one sends the other holds.

    Raises `ConfigurationError` for a queue made by hand that is no `MemoryQueue`.
    """
    definitions = {name: _awaited(name, one) for name, one in queues.definitions.items()}
    return AsyncQueueGroup(definitions, queues.middleware, client=queues.server)


def _awaited(name: str, definition: QueueDefinition) -> QueueDefinition:
    queue = definition.queue
    if queue is None:
        return definition
    if not isinstance(queue, MemoryQueue):
        raise ConfigurationError(
            f"queue {name!r} is {queue!r}: only a MemoryQueue has an async twin in memory; make it "
            "with clock=job_clock"
        )
    return replace(definition, queue=AsyncMemoryQueue(queue.name, server=queue.server))
