"""Play schedules until one breaks a statement of docs/guarantees.md, or play one again.

uv run python packages/jobq-worker/tests/explore.py --schedules 100000
uv run python packages/jobq-worker/tests/explore.py --seconds 3600
uv run python packages/jobq-worker/tests/explore.py --replay 4711
"""

from __future__ import annotations

import argparse
import os
import random
import sys

from simulation.exploring import explore, shortest_story


def main() -> int:
    options = _options()
    if options.replay is not None:
        print(shortest_story(options.replay))
        return 0
    first = random.SystemRandom().randrange(10**9) if options.first is None else options.first
    found = explore(
        first,
        schedules=options.schedules,
        seconds=options.seconds,
        processes=options.processes,
    )
    print(
        f"{found.schedules} schedules from seed {first} in {found.seconds:.0f} s "
        f"on {options.processes} processes: {len(found.failures)} broken"
    )
    for seed, breach in found.failures.items():
        print(f"seed {seed}, {breach}\n    again: {COMMAND} --replay {seed}")
    return 1 if found.failures else 0


COMMAND = "uv run python packages/jobq-worker/tests/explore.py"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--schedules", type=int, help="play so many")
    parser.add_argument("--seconds", type=float, help="play for so long")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, help="the first seed; a fresh one without it")
    parser.add_argument("--replay", type=int, help="tell what one seed plays, shrunk")
    options = parser.parse_args()
    if options.replay is None and options.schedules is None and options.seconds is None:
        options.schedules = 5000
    return options


if __name__ == "__main__":
    sys.exit(main())
