"""Tracebacks in the log lines of a test run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def plain_tracebacks() -> Generator[None]:
    """Have structlog write plain ones, unless the application has configured it.

    By itself it has rich, where that is installed, draw every frame with all its variables: seconds
    for each job that fails, and payloads on the screen.
    """
    import structlog

    processors = structlog.get_config()["processors"]
    before = list(processors)
    if not structlog.is_configured() and isinstance(before[-1], structlog.dev.ConsoleRenderer):
        # In place, as `structlog.testing.capture_logs` does: loggers may hold the list already.
        processors[-1] = structlog.dev.ConsoleRenderer(
            exception_formatter=structlog.dev.plain_traceback
        )
    try:
        yield
    finally:
        if not structlog.is_configured():
            processors[:] = before
