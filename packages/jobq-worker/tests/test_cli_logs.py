"""How log lines look where the application says nothing, and that it may say something."""

from __future__ import annotations

import io
import json
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from jobq.worker.cli.logs import configure_logging

if TYPE_CHECKING:
    from collections.abc import Generator


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


CREDENTIALS = ("botocore.credentials", "aiobotocore.credentials")


@contextmanager
def undecided() -> Generator[None]:
    """Neither structlog nor `logging` has been set up; pytest's own handlers step aside."""
    root, handlers = logging.root, list(logging.root.handlers)
    loggers = [root, *map(logging.getLogger, ("botocore", *CREDENTIALS))]
    levels = [logger.level for logger in loggers]
    for logger in loggers[1:]:
        logger.setLevel(logging.NOTSET)
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        structlog.reset_defaults()
        if before is not None:
            structlog.configure(**before)


def refuse(payload: dict[str, str]) -> None:
    raise ValueError("no such account")


def only_line(output: io.StringIO) -> dict[str, Any]:
    (line,) = output.getvalue().splitlines()
    return json.loads(line)


@undecided()
def test_a_line_is_json_where_nobody_reads_along() -> None:
    output = io.StringIO()
    configure_logging(output)
    structlog.get_logger("jobq.job").info("job_started", queue="default")
    line = only_line(output)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "job_started",
        "level": "info",
        "logger": "jobq.job",
        "queue": "default",
    }


@undecided()
def test_a_line_is_text_on_a_terminal() -> None:
    output = Terminal()
    configure_logging(output)
    structlog.get_logger("jobq.job").info("job_started", queue="default")
    (line,) = output.getvalue().splitlines()
    assert "job_started" in line
    assert not line.startswith("{")


@undecided()
def test_colours_are_left_out_on_a_terminal_that_wants_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    output = Terminal()
    configure_logging(output)
    structlog.get_logger("jobq.job").info("job_started")
    assert "\x1b" not in output.getvalue()


@pytest.mark.parametrize("output", [io.StringIO(), Terminal()], ids=["json", "terminal"])
@undecided()
def test_a_traceback_shows_no_local_variables(output: io.StringIO) -> None:
    configure_logging(output)
    payload = {"card": "4242 4242"}
    try:
        refuse(payload)
    except ValueError:
        structlog.get_logger("jobq.job").exception("job_failed")
    assert "4242 4242" not in output.getvalue()
    assert "no such account" in output.getvalue()


@undecided()
def test_lines_of_logging_look_alike_and_carry_the_fields_of_the_job() -> None:
    output = io.StringIO()
    configure_logging(output)
    with structlog.contextvars.bound_contextvars(message_id="m-1"):
        logging.getLogger("shop").info("charged order %d", 7)
    line = only_line(output)
    assert (line["event"], line["logger"], line["message_id"]) == ("charged order 7", "shop", "m-1")


@undecided()
def test_structlog_stays_as_the_application_configured_it() -> None:
    kept: list[str] = []

    def keep(logger: object, method: str, line: Any) -> Any:
        kept.append(line["event"])
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    output = io.StringIO()
    configure_logging(output)
    structlog.get_logger("jobq.job").info("job_started")
    assert kept == ["job_started"]
    assert output.getvalue() == ""


@undecided()
def test_logging_stays_as_the_application_configured_it() -> None:
    own = io.StringIO()
    logging.root.addHandler(logging.StreamHandler(own))
    logging.root.setLevel(logging.WARNING)
    output = io.StringIO()
    configure_logging(output)
    logging.getLogger("shop").warning("low on stock")
    assert own.getvalue() == "low on stock\n"
    assert output.getvalue() == ""
    assert logging.root.level == logging.WARNING


@pytest.mark.parametrize("name", CREDENTIALS)
@undecided()
def test_that_credentials_were_found_is_no_line_but_that_they_failed_is(name: str) -> None:
    output = io.StringIO()
    configure_logging(output)
    logging.getLogger(name).info("Found credentials in environment variables.")
    assert output.getvalue() == ""
    logging.getLogger(name).warning("Refreshing temporary credentials failed")
    assert only_line(output)["level"] == "warning"


@pytest.mark.parametrize("name", ["botocore", "botocore.credentials"])
@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
@undecided()
def test_whoever_asked_botocore_for_such_lines_has_them(name: str, level: int) -> None:
    logging.getLogger(name).setLevel(level)
    output = io.StringIO()
    configure_logging(output)
    logging.getLogger("botocore.credentials").log(level, "Looking for credentials via: env")
    assert only_line(output)["event"] == "Looking for credentials via: env"


@undecided()
def test_where_logging_is_the_application_s_it_says_what_is_found() -> None:
    logging.root.addHandler(logging.NullHandler())
    configure_logging(io.StringIO())
    assert logging.getLogger("botocore.credentials").level == logging.NOTSET
