"""Whatever a queue call raises, as one of jobq's errors."""

from __future__ import annotations

from jobq.core import BackendError, JobqError


def as_jobq_error(raised: BaseException, where: str) -> JobqError:
    """Itself, or a `BackendError` that is worth another try, with `raised` as its cause."""
    if isinstance(raised, JobqError):
        return raised
    error = BackendError(f"{where} raised {type(raised).__name__}: {raised}", retryable=True)
    error.__cause__ = raised
    return error
