"""Many seeds, on as many processes as one likes."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count, islice, takewhile
from multiprocessing import get_context

from simulation.checks import RULES, breaches_in, breaches_of
from simulation.plans import plan_of
from simulation.shrinking import shrunk
from simulation.stories import story_of

CHUNK = 100
MOST_FAILURES = 5


@dataclass(slots=True)
class Found:
    """How many schedules were played, and the first breach of each seed that had one."""

    schedules: int = 0
    seconds: float = 0
    failures: dict[int, str] = field(default_factory=dict[int, str])


def explore(
    first: int, *, schedules: int | None = None, seconds: float | None = None, processes: int = 2
) -> Found:
    """Play seeds from `first` on until there were so many, or so long, or a few failed."""
    found = Found()
    began = time.monotonic()
    starts = count(first, CHUNK)
    chunks: Iterable[tuple[int, int]] = ((start, CHUNK) for start in starts)
    if schedules is not None:
        end = first + schedules
        chunks = ((start, min(CHUNK, end - start)) for start in range(first, end, CHUNK))
    if seconds is not None:
        chunks = takewhile(lambda _: time.monotonic() < began + seconds, chunks)
    for played, failures in _played(chunks, processes):
        found.schedules += played
        found.failures |= failures
        if len(found.failures) >= MOST_FAILURES:
            break
    found.seconds = time.monotonic() - began
    return found


def _played(
    chunks: Iterable[tuple[int, int]], processes: int
) -> Iterator[tuple[int, dict[int, str]]]:
    # Never far ahead of what was played: a breach or the time may end it at any chunk.
    with ProcessPoolExecutor(processes, get_context("spawn"), _no_cycles_on_the_way) as pool:
        feed = iter(chunks)
        under_way = {pool.submit(_play, chunk) for chunk in islice(feed, 2 * processes)}
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            under_way |= {pool.submit(_play, chunk) for chunk in islice(feed, len(done))}
            for chunk in done:
                yield chunk.result()


def _no_cycles_on_the_way() -> None:
    """A play is a web of references that is dropped as a whole: looking for cycles before it ends,
    and in what was there before it, only costs time.
    """
    gc.disable()
    gc.freeze()


def _play(chunk: tuple[int, int]) -> tuple[int, dict[int, str]]:
    first, size = chunk
    failures: dict[int, str] = {}
    for seed in range(first, first + size):
        try:
            breaches = breaches_of(seed)
        except Exception as error:  # noqa: BLE001 - an engine that raises broke its promise too
            failures[seed] = f"{type(error).__name__}: {error}"
        else:
            if breaches:
                failures[seed] = str(breaches[0])
    gc.collect()
    return size, failures


def shortest_story(seed: int) -> str:
    """What one seed plays, without all that its breach doesn't need."""
    plan = plan_of(seed)
    breaches = breaches_in(plan)
    if breaches:
        statement = breaches[0].statement
        plan = shrunk(plan, lambda one: any(b.statement == statement for b in breaches_in(one)))
    return story_of(plan, RULES)
