"""What handlers write down as they run, in one file for any number of processes."""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """`at` is seconds on `time.monotonic()`, which all processes of a machine share."""

    event: Literal["start", "end", "raise"]
    id: str
    queue: str
    group: str | None
    receive_count: int
    process: int
    at: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a handler; `end` is None where its process died first."""

    start: Note
    end: Note | None


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def write(
        self,
        event: Literal["start", "end", "raise"],
        job: str,
        *,
        queue: str,
        group: str | None,
        receive_count: int,
    ) -> None:
        note = Note(
            event=event,
            id=job,
            queue=queue,
            group=group,
            receive_count=receive_count,
            process=os.getpid(),
            at=time.monotonic(),
        )
        # One write that appends: whole, and in the order of the file, whoever else writes.
        # A kill may tear it at a page's end, so each begins on a line of its own.
        os.write(self._file, b"\n" + json.dumps(asdict(note)).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)

    def read(self) -> list[Note]:
        # A reader may see a part of the line that is being written.
        whole, _, _ = self.path.read_text().rpartition("\n")
        return [Note(**json.loads(line)) for line in whole.splitlines() if line.endswith("}")]

    def of(self, event: str) -> list[Note]:
        return [note for note in self.read() if note.event == event]

    def started(self) -> list[str]:
        """The ids in the order of their starts, as often as they started."""
        return [note.id for note in self.of("start")]

    def ended(self) -> list[str]:
        """Those whose handlers returned."""
        return [note.id for note in self.of("end")]

    def runs(self) -> list[Run]:
        """In the order of their starts."""
        notes = self.read()
        ends = {_run_of(note): note for note in notes if note.event != "start"}
        return [Run(note, ends.get(_run_of(note))) for note in notes if note.event == "start"]

    def by_group(self) -> dict[str, list[Run]]:
        groups: dict[str, list[Run]] = defaultdict(list)
        for run in self.runs():
            if run.start.group is not None:
                groups[run.start.group].append(run)
        return groups


def _run_of(note: Note) -> tuple[int, str, int]:
    return note.process, note.id, note.receive_count


def assert_in_order(journal: Journal, *, killed_at: Mapping[int, float] | None = None) -> None:
    """In each group no job ran before an earlier one was done, and no two ran at once.

    A group's ids end in numbers that tell their order. `killed_at` is when processes were killed,
    which ended what they ran.
    """
    for group, runs in journal.by_group().items():
        numbers = [int(run.start.id.rpartition("-")[2]) for run in runs]
        assert numbers == sorted(numbers), (group, numbers)
        for run, later in pairwise(runs):
            end = run.end.at if run.end else (killed_at or {})[run.start.process]
            assert end <= later.start.at, (group, run, later)
            done = run.end is not None and run.end.event == "end"
            assert done or later.start.id == run.start.id, (group, run, later)
