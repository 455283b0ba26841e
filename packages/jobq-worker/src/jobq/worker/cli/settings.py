"""`jobq settings`: what the environment says, where each value came from, and what is wrong."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from jobq.core.setting_sources import explain
from jobq.worker.cli.connection import connection_option
from jobq.worker.cli.tables import print_table

if TYPE_CHECKING:
    from jobq.core.setting_sources import Setting


@click.command("settings", short_help="Show the settings in force, and where they came from.")
@connection_option
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def settings_command(*, connection: str | None, as_json: bool) -> None:
    """Show what the environment says of a connection: each key, its value, and its source.

    A source is the variable that a value was read from, "argument" for an option of this command,
    "default" or "not set". Passwords and credentials are masked. Nothing is connected to.

    \b
    Exit codes:
      0  all is well
      1  something is wrong; it is said with its key
      2  the command line is wrong
    """  # noqa: D301 - click reads the backslash
    settings = explain(os.environ, connection)
    problems = [one.problem for one in settings if one.problem is not None]
    if as_json:
        click.echo(json.dumps({"settings": [asdict(one) for one in settings]}, indent=2))
    else:
        print_table(("KEY", "VALUE", "SOURCE"), [_row(one) for one in settings])
        _print_problems(problems)
    if problems:
        raise SystemExit(1)


def _row(setting: Setting) -> tuple[str, str, str]:
    # A value is shown as it would be in a shell, whatever characters it has.
    value = "-" if setting.value is None else repr(setting.value)[1:-1]
    source = "environment" if setting.source == setting.key else setting.source
    mark = " (wrong, see below)" if setting.problem else ""
    note = f" ({setting.note})" if setting.note else ""
    return setting.key, value, f"{source}{mark}{note}"


def _print_problems(problems: list[str]) -> None:
    if problems:
        click.echo()
    for problem in problems:
        click.echo(click.style("wrong: ", fg="red") + problem)
