"""The `jobq` command."""

from __future__ import annotations

import click

from jobq.worker.cli.local import local_command
from jobq.worker.cli.settings import settings_command
from jobq.worker.cli.worker import worker_command

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="jobq-worker", prog_name="jobq")
def main() -> None:
    """Background jobs on Amazon SQS."""


main.add_command(worker_command)
main.add_command(settings_command)
main.add_command(local_command)
