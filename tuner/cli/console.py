"""Where text goes: stdout for results, stderr for what happens meanwhile.

Every line for people passes :func:`harmless`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console

#: The widest text table; wider terminals do not make it easier to read. In a pipe nothing wraps.
MAX_WIDTH = 140


def is_live(stream: TextIO) -> bool:
    """True if lines can be redrawn: a terminal that is not a dumb one."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def in_colour(stream: TextIO) -> bool:
    """True if colours are wanted (https://no-color.org)."""
    return is_live(stream) and not os.environ.get("NO_COLOR")


def harmless(text: str) -> str:
    """One line of text that cannot steer the terminal, whatever foreign text is in it.

    Control characters, ends of lines and what turns the direction of text around come as Python
    writes them.
    """
    if text.isprintable():
        return text
    import unicodedata

    def shown(letter: str) -> str:
        if letter.isprintable() or unicodedata.category(letter) == "Zs":
            return letter
        return letter.encode("unicode_escape", "surrogatepass").decode("ascii")

    return "".join(map(shown, text))


def out(
    text: str = "",
    *,
    indent: str | None = None,
    bold: bool = False,
    lead: str = "",
    colour: str = "",
) -> None:
    """Write a line of the result to stdout.

    Args:
        text: The line; made :func:`harmless`.
        indent: Put this before it, and on a terminal before each line that it is wrapped into.
        bold: It is a heading.
        lead: It takes the place of the indent's begin in the first line.
        colour: That of the lead's first word.
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
    sys.stdout.write(_encodable(line, sys.stdout) + "\n")


def err(text: str) -> None:
    """Write a line about what happens to stderr."""
    sys.stderr.write(_encodable(harmless(text), sys.stderr) + "\n")
    sys.stderr.flush()


def _wrapped(text: str, indent: str) -> str:
    """Text after an indent, wrapped between words."""
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


def print_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
    *,
    most: int | None = None,
) -> None:
    """Print a table: with rich on a terminal, else aligned text without lines.

    The columns ``right`` are aligned to the right. ``most`` is how many characters wide it is at
    most; by default a terminal decides, and elsewhere it is as wide as it needs.
    """
    from io import StringIO

    from rich import box
    from rich.table import Table
    from rich.text import Text

    live = is_live(sys.stdout)
    cells = [[harmless(cell) for cell in row] for row in (titles, *rows)]
    if not live and most is None:  # there may be thousands of rows, and rich takes 1 ms for each
        _print_aligned(cells, right)
        return
    table = Table(
        box=box.SIMPLE_HEAD if live else None,
        pad_edge=False,
        header_style="bold",
        padding=(0, 2, 0, 0),
    )
    for column, title in enumerate(cells[0]):
        table.add_column(title, justify="right" if column in right else "left", overflow="fold")
    for row in cells[1:]:
        table.add_row(*(Text(cell) for cell in row))  # Text: a name with [brackets] is not markup
    console = rich_console(sys.stdout if live else StringIO())
    console.width = most or min(console.width, MAX_WIDTH)
    console.print(table)
    if isinstance(console.file, StringIO):
        for line in console.file.getvalue().splitlines():
            out(line.rstrip())


def _print_aligned(cells: Sequence[Sequence[str]], right: Collection[int]) -> None:
    """Print rows of text as wide as they are; ``right``: the columns aligned to the right."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        padded = [
            gap + cell if column in right else cell + gap
            for column, (cell, gap) in enumerate(zip(row, gaps, strict=True))
        ]
        out("  ".join(padded).rstrip())


def _encodable(text: str, stream: TextIO) -> str:
    """Text that the stream's encoding can hold: a log in latin-1 must not end the study."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
