"""The option that chooses a connection of the environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jobq.core.setting_keys import read_connection_name

if TYPE_CHECKING:
    from click import Context, Parameter


def _check(context: Context, parameter: Parameter, value: str | None) -> str | None:
    try:
        return None if value is None else read_connection_name(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}", context, parameter) from error


connection_option = click.option(
    "--connection",
    metavar="NAME",
    callback=_check,
    help="Go by the environment's connection of this name, not by JOBQ_CONNECTION_NAME.",
)
