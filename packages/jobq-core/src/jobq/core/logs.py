"""Loggers, got late: importing structlog also imports rich where that is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def get_logger(name: str) -> FilteringBoundLogger:
    """The structlog logger of that name, as the application has configured it by now."""
    import structlog

    return structlog.get_logger(name)
