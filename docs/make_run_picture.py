"""Draws what a run of ``tune`` printed as a picture of a terminal.

tune --mpi-procs 8 --trials 50 2>&1 | python docs/make_run_picture.py      (or: make screencast)
"""

from __future__ import annotations

import html
import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

TARGET = Path(__file__).resolve().parent / "images" / "run.svg"
COMMAND = "tune --mpi-procs 8 --trials 50"

#: What stands out, by a pattern of the line's part.
STYLES = {
    r"^\$ .*": "bold",
    r"^\[[\d:]+\]": "grey62",  # a dim one has no contrast
    r"[\d.]+ times faster than your defaults": "bold green",
    r"best so far": "green",
    r"stopped (early|after)": "yellow",
}


def picture(output: str) -> str:
    """The SVG of a terminal with the command and its output, up to the first empty line."""
    shown = output.strip().partition("\n\n")[0]
    console = Console(record=True, width=112, file=io.StringIO())
    for line in [f"$ {COMMAND}", *shown.splitlines()]:
        text = Text(line)
        for pattern, style in STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text, soft_wrap=False)
    svg = console.export_svg(title="tune")
    told = f"<title>{html.escape(COMMAND)}</title><desc>{html.escape(shown)}</desc>"
    start, _, rest = svg.partition(">")
    svg = f'{start} role="img">{told}{rest}'
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # load nothing from a network


if __name__ == "__main__":
    TARGET.write_text(picture(sys.stdin.read()))
