"""Which outcome of a job counts where hooks raise, too."""

from typing import Any, cast

import pytest

from jobq.core.middleware import HandlerRun


@pytest.mark.parametrize(
    ("run", "raised", "counts", "logged"),
    [
        (HandlerRun(), "hook", "hook", None),
        (HandlerRun(), None, None, None),
        (HandlerRun(started=True, returned=True), None, None, None),
        (HandlerRun(started=True, returned=True), "hook", None, "hook"),
        (HandlerRun(started=True, error=cast("Any", "own")), "own", "own", None),
        (HandlerRun(started=True, error=cast("Any", "own")), "hook", "own", "hook"),
        (HandlerRun(started=True, error=cast("Any", "own")), None, "own", None),
    ],
)
def test_the_handlers_own_outcome_counts_once_it_has_started(
    run: HandlerRun, raised: Any, counts: Any, logged: Any
) -> None:
    assert run.judge(raised) == (counts, logged)


@pytest.mark.parametrize(
    ("ends", "counts"),
    [
        ([ValueError("inner")], ValueError("inner")),
        ([ValueError("inner"), None], ValueError("inner")),
        ([ValueError("inner"), RuntimeError("outer")], ValueError("inner")),
        ([None, RuntimeError("outer")], None),
    ],
)
def test_before_the_handler_started_the_innermost_hook_that_ended_counts(
    ends: list[BaseException | None], counts: BaseException | None
) -> None:
    run = HandlerRun()
    for end in ends:
        run.note(end)
    late = LookupError("outermost")

    failure, aside = run.judge(late)
    assert repr(failure) == repr(counts)
    assert aside is late


def test_no_hook_answers_for_a_handler_that_has_started() -> None:
    run = HandlerRun(started=True)
    run.note(ValueError("the hook's"))
    run.returned = True

    assert run.judge(None) == (None, None)
