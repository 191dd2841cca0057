"""Writes text for people: results to stdout, progress and errors to stderr.

Every line for people passes :func:`harmless`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console

#: The widest text table; wider terminals do not make it easier to read. In a pipe nothing wraps.
MAX_WIDTH = 140


def is_live(stream: TextIO) -> bool:
    """Return whether lines can be redrawn: on a terminal that is not a dumb one."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def in_colour(stream: TextIO) -> bool:
    """Return whether colours are wanted (https://no-color.org)."""
    return is_live(stream) and not os.environ.get("NO_COLOR")


def harmless(text: str) -> str:
    """Return one line of text that cannot steer the terminal, whatever foreign text is in it.

    Control characters, ends of lines and what turns the direction of text around come as Python
    writes them.
    """
    if text.isprintable():
        return text
    import unicodedata

    def escaped(letter: str) -> str:
        if letter.isprintable() or unicodedata.category(letter) == "Zs":
            return letter
        return letter.encode("unicode_escape", "surrogatepass").decode("ascii")

    return "".join(map(escaped, text))


def out(
    text: str = "",
    *,
    indent: str | None = None,
    bold: bool = False,
    lead: str = "",
    colour: str = "",
) -> None:
    """Write a line of the result, made :func:`harmless`, to stdout.

    ``indent`` stands before it, and on a terminal before each line that it is wrapped into.
    ``lead`` takes the place of the first letters of the indent in the first line, and its first
    word has a ``colour``.
    """
    line = harmless(text)
    if indent is not None:
        line = _wrapped(line, indent) if is_live(sys.stdout) else indent + line
        line = line.replace("\xa0", " ")  # nothing is wrapped between a number and its unit
    if bold and in_colour(sys.stdout):
        line = click.style(line, bold=True)
    if lead:
        line = lead + line[len(lead) :]
    if colour and in_colour(sys.stdout):
        first, blank, rest = line.partition(" ")
        line = f"{click.style(first, fg=colour, bold=True)}{blank}{rest}"
    sys.stdout.write(line + "\n")


def err(text: str) -> None:
    """Write a line about the progress, made :func:`harmless`, to stderr."""
    write_error(harmless(text) + "\n")


def write_error(text: str, stream: TextIO | None = None) -> None:
    """Write to stderr; if that fails (a full disk), discard the stream: the study goes on."""
    stream = stream or sys.stderr
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:  # the reader wants no more
        raise
    except OSError:
        discard(stream)


def discard(stream: TextIO) -> None:
    """Put /dev/null in the place of a stream: what is still to be written to it is lost."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def warn(text: str) -> None:
    """Write a warning to stderr."""
    err(f"tune: warning: {text}")


def _wrapped(text: str, indent: str) -> str:
    """Return text after an indent, wrapped between words."""
    import shutil
    import textwrap

    return textwrap.fill(
        text,
        min(MAX_WIDTH, shutil.get_terminal_size().columns),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


class Stderr(io.TextIOBase):
    """Stderr for rich: what cannot be written there, as on a terminal that was closed, is lost."""

    def __init__(self) -> None:
        self.stream = sys.stderr  # rich puts another one in its place

    def write(self, text: str) -> int:
        write_error(text, self.stream)
        return len(text)

    def isatty(self) -> bool:
        return self.stream.isatty()


def rich_console(stream: TextIO | Stderr) -> Console:
    """Return a rich console on a stream; rich reads ``NO_COLOR`` and ``COLUMNS`` itself."""
    from rich.console import Console

    return Console(file=stream, highlight=False, soft_wrap=False)  # type: ignore[arg-type]


def print_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
) -> None:
    """Print a table with a title for each column; the columns in ``right`` are aligned there.

    It is as wide as the terminal, and elsewhere as it must be.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    cells = [[harmless(cell) for cell in row] for row in (titles, *rows)]
    if not is_live(sys.stdout):  # there may be thousands of rows, and rich takes long for each
        widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            line = ""
            for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
                gap = " " * (width - cell_len(cell))
                line += (gap + cell if column in right else cell + gap) + "  "
            out(line.rstrip())
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column, title in enumerate(cells[0]):  # Text: a name with [brackets] is not markup
        justify: Literal["left", "right"] = "right" if column in right else "left"
        table.add_column(Text(title), justify=justify, overflow="fold")
    for row in cells[1:]:
        table.add_row(*map(Text, row))
    console = rich_console(sys.stdout)
    console.width = min(console.width, MAX_WIDTH)
    console.print(table)
