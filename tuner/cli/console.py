"""Where text goes: stdout for results, stderr for what happens meanwhile."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console

#: The widest text table; wider terminals do not make it easier to read.
MAX_WIDTH = 140


def is_live(stream: TextIO) -> bool:
    """True where lines can be redrawn: a terminal that is not a dumb one."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def in_colour(stream: TextIO) -> bool:
    """True where colours are wanted (https://no-color.org)."""
    return is_live(stream) and not os.environ.get("NO_COLOR")


def out(text: str = "") -> None:
    """Write a line of the result to stdout."""
    sys.stdout.write(_encodable(text, sys.stdout) + "\n")


def err(text: str) -> None:
    """Write a line about what happens to stderr."""
    sys.stderr.write(_encodable(text, sys.stderr) + "\n")
    sys.stderr.flush()


def heading(text: str) -> str:
    """A heading for stdout, bold where colours are wanted."""
    return click.style(text, bold=True) if in_colour(sys.stdout) else text


def wrapped(text: str, indent: str) -> str:
    """Text behind an indent, wrapped between words where stdout is a terminal."""
    if not is_live(sys.stdout):
        return indent + text
    import shutil
    import textwrap

    width = min(MAX_WIDTH, shutil.get_terminal_size().columns)
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def warn(text: str) -> None:
    """Write a warning to stderr."""
    err(f"tune: warning: {text}")


def rich_console(stream: TextIO) -> Console:
    """A rich console on a stream; rich reads ``NO_COLOR`` and ``COLUMNS`` itself."""
    from rich.console import Console

    return Console(file=stream, highlight=False, soft_wrap=False)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> None:
    """Print a table: with rich on a terminal, else aligned text without lines.

    Args:
        titles: The heading of each column.
        rows: The cells, as many in each row as there are titles.
        right: The columns that are aligned to the right.
    """
    if is_live(sys.stdout):
        _print_rich(titles, rows, right)
        return
    cells = [list(titles), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(titles))]
    for row in cells:
        line = "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        out(line.rstrip())


def _print_rich(titles: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column, title in enumerate(titles):
        table.add_column(title, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text: a name with [brackets] is no markup
    console = rich_console(sys.stdout)
    console.width = min(console.width, MAX_WIDTH)
    console.print(table)


def _encodable(text: str, stream: TextIO) -> str:
    """Text that the stream's encoding can hold: a log in latin-1 must not end the study."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
