"""`jobq worker`: serves queues until it is stopped."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import get_args

import click
import structlog

from jobq.core import ConfigurationError, JobqError
from jobq.core.setting_keys import CONNECTION_NAME
from jobq.worker.cli.connection import connection_option
from jobq.worker.cli.loading import load_worker
from jobq.worker.cli.logs import configure_logging
from jobq.worker.engine.config import Polling


@click.command("worker", short_help="Run jobs until stopped.")
@click.argument("target", metavar="MODULE:WORKER")
@connection_option
@click.option("--queues", metavar="NAME,NAME", help="Serve these of its queues, in this order.")
@click.option(
    "--polling",
    type=click.Choice(get_args(Polling)),
    help="Share starts by weight, or serve earlier queues first.",
)
@click.option("--concurrency", type=int, metavar="N", help="How many jobs run at once.")
@click.option("--burst", is_flag=True, help="End once the queues are empty.")
@click.option(
    "--health-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Touch this file every few seconds while the worker is well.",
)
def worker_command(
    target: str,
    *,
    connection: str | None,
    queues: str | None,
    polling: Polling | None,
    concurrency: int | None,
    burst: bool,
    health_file: Path | None,
) -> None:
    """Run the worker that MODULE holds under the name WORKER, until SIGTERM or Ctrl-C.

    MODULE is looked for in the current directory first. What the options leave out is as the worker
    was made.

    \b
    Exit codes:
      0  stopped, or with --burst out of work, and all went well
      1  the worker couldn't go on; the last log line says why
      2  nothing was started: the command line or the module is wrong
    """  # noqa: D301 - click reads the backslash
    if connection is not None:
        # Where the groups of the module look that are made from the environment.
        os.environ[CONNECTION_NAME] = connection
    worker = load_worker(target)
    try:
        worker.override(
            queues=None if queues is None else [name.strip() for name in queues.split(",")],
            concurrency=concurrency,
            polling=polling,
            health_file=health_file,
        )
    except JobqError as error:
        raise click.UsageError(str(error)) from error
    # A collector takes what is on stderr for errors.
    configure_logging(sys.stdout)
    try:
        worker.run(burst=burst)
    except ConfigurationError as error:
        structlog.get_logger("jobq.worker").error("worker_not_started", error=str(error))
        raise SystemExit(1) from error
