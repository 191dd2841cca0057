"""What a pattern finds in a program's output; also a program of its own.

It runs as a child process with little CPU time and memory, for a pattern may need longer than
the world is old, and Python's matching cannot be broken off. So nothing of the tool is imported.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

#: A longer line is looked at in pieces of this length, bytes.
LONGEST_LINE = 1 << 16

#: So much is read at a time, from the end on, bytes.
BLOCK = 1 << 20

#: What one search may take: CPU time, s, and memory, bytes.
CPU_S, MEMORY_BYTES = 10, 1 << 30

#: Of the line that is quoted so many letters are kept.
LONGEST_QUOTE = 200

_BREAKS = re.compile(rb"[\r\n]+")


@dataclass(frozen=True)
class Match:
    """The last match: what stands in its group (``None``: it took no part), and its line."""

    text: str | None
    line: str


def group_of(pattern: re.Pattern[str]) -> int:
    """The group that holds the figure: the first one with a name, else the first."""
    return min(pattern.groupindex.values(), default=1)


def last_match(file: BinaryIO, pattern: re.Pattern[str]) -> Match | None:
    """The last match in a file, line by line; ``None`` where nothing matches.

    A line ends at a newline or at a carriage return (progress bars), and what is not UTF-8 is
    replaced.
    """
    for raw in lines_from_the_end(file):
        line = raw.decode("utf-8", "replace")
        found = [match[group_of(pattern)] for match in pattern.finditer(line)]
        if found:
            text = found[-1]
            return Match(text and text[:LONGEST_QUOTE], line[:LONGEST_QUOTE])
    return None


def lines_from_the_end(file: BinaryIO) -> Iterator[bytes]:
    """The lines that are not empty, the last one first; the file is never held as a whole."""
    place, rest = file.seek(0, os.SEEK_END), b""
    while place > 0:
        start = max(0, place - BLOCK)
        file.seek(start)
        lines = _BREAKS.split(file.read(place - start) + rest)
        place = start
        # The first line may go on in the block before; a very long one is not waited for.
        rest = lines.pop(0) if start and len(lines[0]) < LONGEST_LINE else b""
        for line in reversed(lines):
            yield from _pieces(line)
    if rest:
        yield from _pieces(rest)


def _pieces(line: bytes) -> Iterator[bytes]:
    for start in reversed(range(0, len(line), LONGEST_LINE)):
        yield line[start : start + LONGEST_LINE]


def main() -> None:
    """Search the file named first for the pattern named second; the match goes out as JSON."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    _, filename, pattern = sys.argv
    with Path(filename).open("rb") as file:
        found = last_match(file, re.compile(pattern))
    sys.stdout.write(json.dumps(None if found is None else asdict(found)))


if __name__ == "__main__":
    main()
