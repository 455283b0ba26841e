"""Log lines for an application that hasn't decided how its own look."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from typing import TextIO

    from structlog.typing import Processor


# At INFO they say that credentials were found, and nothing else.
_TALKATIVE = ("botocore.credentials", "aiobotocore.credentials")


def configure_logging(stream: TextIO) -> None:
    """One line an event: to read where `stream` is a terminal, as JSON anywhere else.

    What the application has configured stays: structlog, and the root logger of `logging`, each on
    its own.
    """
    terminal = stream.isatty()
    fields: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if terminal else "iso", utc=not terminal),
    ]
    render = _console() if terminal else _json()
    if not structlog.is_configured():
        structlog.configure(
            processors=[*fields, *render],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            logger_factory=_Loggers(stream),
            cache_logger_on_first_use=True,
        )
    if not logging.root.handlers:
        handler = logging.StreamHandler(stream)
        handler.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=fields,
                processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
            )
        )
        logging.root.addHandler(handler)
        for name in _TALKATIVE:
            _quieten(logging.getLogger(name))
        logging.root.setLevel(logging.INFO)


def _quieten(logger: logging.Logger) -> None:
    """Unless the application gave it, or one above it, a level other than the root's."""
    if logger.getEffectiveLevel() == logging.root.level:
        logger.setLevel(logging.WARNING)


# Plain tracebacks in both: richer ones print local variables, and with them payloads.
def _console() -> list[Processor]:
    return [
        structlog.dev.ConsoleRenderer(
            colors="NO_COLOR" not in os.environ,
            exception_formatter=structlog.dev.plain_traceback,
        )
    ]


def _json() -> list[Processor]:
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


class _Logger(structlog.WriteLogger):
    """Keeps its name, which every line shows."""

    def __init__(self, stream: TextIO, name: str | None) -> None:
        super().__init__(stream)
        self.name = name


class _Loggers:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __call__(self, name: str | None = None) -> _Logger:
        return _Logger(self._stream, name)
