"""The async classes of the core are the sync ones, awaited."""

from __future__ import annotations

from typing import Any

import pytest

from jobq.core import (
    AsyncQueue,
    AsyncQueueGroup,
    AsyncQueueOperations,
    Queue,
    QueueGroup,
    QueueOperations,
)
from jobq.core.interfaces import AsyncConnected, Connected
from jobq.core.memory import AsyncMemoryQueue, MemoryQueue
from jobq.core.testing.parity import CLASS, differences


@pytest.mark.parametrize(
    ("plain", "twin", "excused"),
    [
        (Queue, AsyncQueue, {"documented": {CLASS}}),
        (QueueOperations, AsyncQueueOperations, {"documented": {CLASS}}),
        (Connected, AsyncConnected, {"documented": {CLASS}}),
        (MemoryQueue, AsyncMemoryQueue, {"documented": {CLASS}}),
        (
            QueueGroup,
            AsyncQueueGroup,
            {
                "unawaited": {"build", "from_env", "definition", "queue"},
                "added": {"publishes_only"},
                "parameters": {"__init__": {"session"}, "build": {"session"}},
                "documented": {
                    CLASS,
                    "__enter__",
                    "build",
                    "queue",
                    "close",
                    "enqueue",
                    "enqueue_batch",
                },
            },
        ),
    ],
)
def test_twins_differ_in_the_await_and_in_what_is_named_here(
    plain: type, twin: type, excused: dict[str, Any]
) -> None:
    assert differences(plain, twin, **excused) == []


class Plain:
    """A class."""

    def kept(self, number: int, *, text: str = "a") -> str:
        """Keep it."""
        return text

    @property
    def size(self) -> int:
        return 0


class Kept:
    async def kept(self, number: int, *, text: str = "a") -> str:
        """Keep it."""
        return text


class OtherDefault:
    async def kept(self, number: int, *, text: str = "b") -> str:
        """Keep it."""
        return text


class OtherAnnotation:
    async def kept(self, number: float, *, text: str = "a") -> str:
        """Keep it."""
        return text


class OtherResult:
    async def kept(self, number: int, *, text: str = "a") -> str | None:
        """Keep it."""
        return text


class OtherKind:
    async def kept(self, number: int, text: str = "a") -> str:
        """Keep it."""
        return text


class OtherText:
    async def kept(self, number: int, *, text: str = "a") -> str:
        """Lose it."""
        return text


class Unawaited:
    def kept(self, number: int, *, text: str = "a") -> str:
        """Keep it."""
        return text


class More(Kept):
    async def more(self) -> None: ...


class Renamed:
    async def keep(self, number: int, *, text: str = "a") -> str:
        """Keep it."""
        return text


class MoreParameters:
    async def kept(self, number: int, *, text: str = "a", more: int = 0) -> str:
        """Keep it."""
        return text


def twin_of(base: type) -> type:
    return type("AsyncPlain", (base,), {"__doc__": "A class.", "size": Plain.size})


@pytest.mark.parametrize(
    ("base", "excused", "found"),
    [
        (Kept, {}, []),
        (OtherDefault, {}, ["kept: [", "text: str = 'b'"]),
        (OtherAnnotation, {}, ["kept: [", "number: float"]),
        (OtherResult, {}, ["kept: [", "-> str | None"]),
        (OtherKind, {}, ["kept: [", "positional or keyword text"]),
        (OtherText, {}, ["kept: another docstring"]),
        (OtherText, {"documented": {"kept"}}, []),
        (Kept, {"documented": {"kept"}}, ["kept: excused (another docstring), and needn't be"]),
        (Unawaited, {}, ["kept: the twin's isn't awaited"]),
        (Unawaited, {"unawaited": {"kept"}}, []),
        (More, {}, ["more: only the twin has it"]),
        (More, {"added": {"more"}}, []),
        (Renamed, {}, ["kept: only Plain has it"]),
        (MoreParameters, {}, ["kept: [", "more: int = 0"]),
        (MoreParameters, {"parameters": {"kept": {"more"}}}, []),
        (Kept, {"parameters": {"kept": {"more"}}}, ["excused parameter 'more'"]),
    ],
)
def test_each_kind_of_difference_is_found_unless_it_is_excused(
    base: type, excused: dict[str, Any], found: list[str]
) -> None:
    text = "\n".join(differences(Plain, twin_of(base), **excused))

    assert bool(text) == bool(found)
    assert [part for part in found if part not in text] == []


def test_an_async_at_the_front_of_a_name_counts_for_nothing() -> None:
    class Thing:
        def next(self) -> Queue:
            """The next `Queue`."""
            raise NotImplementedError

    class AsyncThing:
        async def next(self) -> AsyncQueue:
            """The next `AsyncQueue`."""
            raise NotImplementedError

    assert differences(Thing, AsyncThing) == []
