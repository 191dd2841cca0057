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

#: A longer line is looked at in pieces of this length.
LONGEST_LINE = 1 << 16

#: So much is read at a time, from the end on, bytes.
BLOCK = 1 << 20

#: What one search may take: CPU time, s, and memory, bytes.
CPU_S, MEMORY_BYTES = 20, 1 << 30

#: Of what a group holds so many letters are handed on.
LONGEST_TEXT = 200

_BREAK = re.compile(rb"[\r\n]")
_BREAKS = re.compile(r"[\r\n]+")


@dataclass(frozen=True)
class Match:
    """The last match: what stands in its group; ``None``: the group took no part."""

    text: str | None


def group_of(pattern: re.Pattern[str]) -> int:
    """The group that holds the figure: the first one with a name, else the first."""
    return min(pattern.groupindex.values(), default=1)


def last_match(file: BinaryIO, pattern: re.Pattern[str]) -> Match | None:
    """The last match in a file, line by line; ``None`` where nothing matches.

    A line ends at a newline or at a carriage return (progress bars), and what is not UTF-8 is
    replaced.
    """
    for line in lines_from_the_end(file):
        if pattern.search(line):
            *_, last = pattern.finditer(line)
            text = last[group_of(pattern)]
            return Match(text and text[:LONGEST_TEXT])
    return None


def lines_from_the_end(file: BinaryIO) -> Iterator[str]:
    """The lines that are not empty, the last one first; the file is never held as a whole."""
    place, rest = file.seek(0, os.SEEK_END), b""
    while place > 0:
        start = max(0, place - BLOCK)
        file.seek(start)
        block = file.read(place - start) + rest
        place = start
        # What stands before its first break may go on in the block before.
        found = _BREAK.search(block) if start else None
        end = found.start() if found else len(block) if start else 0
        rest = block[:end]
        yield from _lines(block[end:])
        if len(rest) > LONGEST_LINE:  # it is not waited for
            yield from _lines(rest)
            rest = b""


def _lines(block: bytes) -> Iterator[str]:
    """The lines of whole ones, the last one first; of a very long one its pieces."""
    for line in reversed(_BREAKS.split(block.decode("utf-8", "replace"))):
        if len(line) <= LONGEST_LINE:
            if line:
                yield line
            continue
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
