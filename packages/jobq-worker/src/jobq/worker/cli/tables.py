"""Rows under headings, for people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Drawn by rich on a terminal, where the extra `cli` is installed; else in plain columns."""
    if not (sys.stdout.isatty() and _draw(headings, rows)):
        for line in plain_lines(headings, rows):
            click.echo(line)


def plain_lines(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """One line a row, in columns two blanks apart."""
    table = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def _draw(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        # As text: a value that has brackets is no markup.
        table.add_row(*map(Text, row))
    Console().print(table)
    return True
