"""What queues still hold, for a last line that must not wait long."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from jobq.core.clock import now
from jobq.worker.pools import spawn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextvars import Context

    from jobq.core import AsyncQueue, Queue, QueueStats
    from jobq.worker.loops import WorkerLoop

LAST_STATS_SECONDS = 5.0


def count_remaining(
    queues: Mapping[str, Queue],
    async_queues: Mapping[str, AsyncQueue],
    *,
    loop: WorkerLoop,
    context: Context,
) -> dict[str, dict[str, int]]:
    """The counts of each queue that says so within five seconds; async ones are asked on `loop`."""
    counts: SimpleQueue[tuple[str, QueueStats]] = SimpleQueue()

    def ask() -> None:
        for name, queue in queues.items():
            with suppress(Exception):
                counts.put((name, queue.stats()))

    async def ask_async(name: str, queue: AsyncQueue) -> None:
        with suppress(Exception):
            counts.put((name, await queue.stats()))

    spawn(ask, name="jobq-stats", context=context)
    for name, queue in async_queues.items():
        loop.start(partial(ask_async, name, queue))
    until = now() + LAST_STATS_SECONDS
    found: dict[str, dict[str, int]] = {}
    with suppress(Empty):
        while len(found) < len(queues) + len(async_queues):
            name, stats = counts.get(timeout=max(0.0, until - now()))
            found[name] = asdict(stats)
    return found
