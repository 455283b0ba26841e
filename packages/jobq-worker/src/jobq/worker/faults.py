"""What was raised: as one of jobq's errors, and as text for a log line."""

from __future__ import annotations

import traceback

from jobq.core import BackendError, JobqError


def as_jobq_error(raised: BaseException, where: str) -> JobqError:
    """Itself, or a `BackendError` that is worth another try, with `raised` as its cause."""
    if isinstance(raised, JobqError):
        return raised
    error = BackendError(f"{where} raised {type(raised).__name__}: {raised}", retryable=True)
    error.__cause__ = raised
    return error


def traceback_of(raised: BaseException) -> str:
    """Plain text for the field `exception`, where structlog's own rendering puts it too.

    Never `exc_info`: structlog by itself has rich, where that is installed, draw every frame with
    its variables, and payloads are among them.
    """
    try:
        return "".join(traceback.format_exception(raised)).rstrip()
    except Exception as error:  # noqa: BLE001 - a failure is said, whatever it is made of
        return f"{type(raised).__name__} (its traceback can't be written: {type(error).__name__})"
