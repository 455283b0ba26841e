"""Splitting any number of items into batch calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.core.limits import LARGEST_BATCH, LARGEST_BATCH_BYTES

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterator, Sequence


def by_count(total: int, most: int = LARGEST_BATCH) -> Iterator[range]:
    """The positions 0 to `total` in batches, in order."""
    for start in range(0, total, most):
        yield range(start, min(start + most, total))


def take(
    waiting: deque[int],
    sizes: Sequence[int],
    *,
    skip: Callable[[int], bool] = lambda _: False,
    most: int = LARGEST_BATCH,
    most_bytes: int = LARGEST_BATCH_BYTES,
) -> list[int]:
    """Remove the next batch of positions from `waiting`: as many as both limits allow.

    `sizes[position]` is in bytes. One that alone is over `most_bytes` gets a batch of its own. What
    is to be skipped is removed too.
    """
    batch: list[int] = []
    total = 0
    while waiting and len(batch) < most:
        if skip(waiting[0]):
            waiting.popleft()
            continue
        total += sizes[waiting[0]]
        if batch and total > most_bytes:
            break
        batch.append(waiting.popleft())
    return batch
