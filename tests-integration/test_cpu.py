"""What a worker spends while it has nothing to do: under 1 % of a core beyond its handlers.

A minute with `--full`, else a fifth of one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bench import Bench, job
from processes import until

from jobq.core import JobRequest

pytestmark = pytest.mark.timeout(300)

SHARE = 0.01
# Imports and first requests are over by then.
SETTLED_AFTER_SECONDS = 3


def long_jobs(queue: str) -> list[JobRequest]:
    """Of both colours, in a FIFO queue each in a group of its own."""
    return [
        job(
            "sync" if n % 2 else "async",
            f"{queue}-{n}",
            seconds=120,
            group=str(n) if queue.endswith(".fifo") else None,
        )
        for n in range(40)
    ]


def test_p1_p2_a_worker_that_is_idle_or_saturated_or_paused_uses_no_cpu(
    bench: Bench,
    figure: Callable[[int, int], int],
    tmp_path: Path,
) -> None:
    """P1 and P2, each in a process of its own, all at the same time."""
    seconds = figure(12, 60)
    idle = {f"q{n}": {"name": bench.queue(f"idle{n}").name} for n in range(5)}
    paused = {f"q{n}": {"name": bench.queue(f"paused{n}").name} for n in range(5)}
    busy, ledger = bench.queue("busy"), bench.queue("busy.fifo")
    for queue in (busy, ledger):
        bench.send(queue, long_jobs(queue.name))
    full_slots = {
        "standard": {"name": busy.name, "visibility_timeout": 30, "claim_size": 10},
        "fifo": {"name": ledger.name, "visibility_timeout": 30},
    }
    health: dict[str, Any] = {"health_file": str(tmp_path / "health")}
    with ExitStack() as stack:
        workers = {
            "idle": stack.enter_context(bench.worker(idle, concurrency=8, **health)),
            "saturated": stack.enter_context(bench.worker(full_slots, concurrency=4)),
            "paused": stack.enter_context(
                bench.worker(paused, setup={"poll": [["pause"]]}, concurrency=8)
            ),
        }
        until(lambda: len(bench.journal.started()) == 4, "full slots")
        time.sleep(SETTLED_AFTER_SECONDS)
        before = {name: worker.cpu_seconds() for name, worker in workers.items()}
        began = time.monotonic()
        time.sleep(seconds)
        spent = {name: worker.cpu_seconds() - before[name] for name, worker in workers.items()}
        took = time.monotonic() - began
        assert all(worker.running for worker in workers.values())
    print({name: f"{100 * used / took:.2f} % of a core" for name, used in spent.items()})
    assert len(bench.journal.started()) == 4
    assert {name: used for name, used in spent.items() if used > SHARE * took} == {}
