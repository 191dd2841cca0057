"""A figure in what the program prints: the last match of a regular expression.

The library ``regex`` searches, since it can end a search that takes too long; ``re`` cannot.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import regex

from tuner.hosts.untrusted_files import open_untrusted
from tuner.launch.objectives.validation import MOST, EndedLaunch, remove_old
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec, Progress
from tuner.model.errors import UsageError, shown
from tuner.model.wording import one_line

#: Longer patterns are no patterns.
LONGEST = 1000

#: One search may take so long in all, s.
LIMIT_S = 20.0

#: A longer line is searched in pieces of this length.
LONGEST_LINE = 1 << 16

#: So much is read at a time, from the end on, bytes.
BLOCK = 1 << 20

#: Of what a group holds so many letters are kept.
LONGEST_TEXT = 200

_BREAK = re.compile(rb"[\r\n]")
_BREAKS = re.compile(r"[\r\n]+")

#: A number as C, Python and Fortran (``1.5D+02``) print it.
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[EeDd][+-]?\d+)?", re.ASCII)

_EXAMPLE = "For example: --objective 'pattern:Performance: ([0-9.]+)'"


def compiled(pattern: str) -> regex.Pattern[str]:
    """The pattern, if a figure can be read with it.

    Raises:
        UsageError: It is empty, no regular expression, or has no group.
    """
    if not pattern:
        raise UsageError("The objective pattern has no regular expression.", _EXAMPLE)
    if len(pattern) > LONGEST or "\0" in pattern:
        raise UsageError(f"The pattern {_quoted(pattern)} is too long or has a NUL.", _EXAMPLE)
    try:
        found = regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"The pattern {_quoted(pattern)} is no regular expression: {error}.",
            r"What is meant literally needs a backslash: \( \. \+",
        ) from error
    if not found.groups:
        raise UsageError(
            f"The pattern {_quoted(pattern)} has no group for the figure.",
            f"Put the figure in parentheses. {_EXAMPLE}",
        )
    return found


def _quoted(pattern: str) -> str:
    """A pattern as it was typed: Python would double its backslashes."""
    return f"'{one_line(pattern)}'"


class Pattern:
    """Reads a figure from the output of the launch, or from a file that it writes.

    Raises:
        UsageError: The pattern cannot be used.
    """

    def __init__(self, spec: ObjectiveSpec) -> None:
        self._spec = spec
        self._compiled = compiled(spec.pattern)
        self.needs_out = spec.filename is not None

    def prepare(self, out_dir: Path) -> None:
        """Remove an old file; the output of a launch is its own. See `Objective`."""
        if self._spec.filename is not None:
            remove_old(out_dir / self._spec.filename)

    def progress(self, out_dir: Path) -> tuple[Progress, ...]:  # noqa: ARG002
        """Nothing: a figure tells nothing of how far the program is."""
        return ()

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        """The figure of the last match; see `Objective`."""
        name = self._spec.filename
        path = ended.output if name is None else ended.out_dir / name
        named = f"the pattern {_quoted(self._spec.pattern)} on {path}"
        try:
            with open_untrusted(path) as file:
                found = last_match(file, self._compiled, LIMIT_S)
        except FileNotFoundError:
            what = "output" if name is None else "file"
            return Failed(FailureKind.NO_LOG, f"there is no {what} {path}")
        except TimeoutError:
            why = (
                f"took more than {LIMIT_S:g} s: the output is too long, or the pattern tries too"
                " many ways (nested repeats such as (a+)+)"
            )
            return Failed(FailureKind.BAD_LOG, f"{named}: {why}")
        except OSError as error:
            return Failed(FailureKind.BAD_LOG, f"{named}: cannot be read: {error.strerror}")
        return judged(self._spec, found, path)


@dataclass(frozen=True)
class Match:
    """The last match: what stands in its group; ``None``: the group took no part."""

    text: str | None


def group_of(pattern: regex.Pattern[str]) -> int:
    """The group that holds the figure: the first one with a name, else the first."""
    return min(pattern.groupindex.values(), default=1)


def last_match(file: BinaryIO, pattern: regex.Pattern[str], limit_s: float) -> Match | None:
    """The last match in a file, line by line; ``None`` if nothing matches.

    A line ends at a newline or at a carriage return (progress bars). What is not UTF-8 is
    replaced.

    Raises:
        TimeoutError: The search took longer than ``limit_s``.
    """
    until_s = time.monotonic() + limit_s
    for line in lines_from_the_end(file):
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        *_, last = (None, *pattern.finditer(line, timeout=left_s, concurrent=True))
        if last is not None:
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


def judged(spec: ObjectiveSpec, found: Match | None, place: Path) -> Finished | Failed:
    """What a match in the file at `place` comes to."""
    named = f"the pattern {_quoted(spec.pattern)}"
    if found is None:
        return Failed(FailureKind.NO_LOG, f"{named} matches nothing in {place}")
    wrong = _fault(found.text)
    if wrong or found.text is None:
        return Failed(FailureKind.BAD_LOG, f"the last match of {named} in {place} {wrong}")
    return Finished(spec.cost(number(found.text)), 0)


def number(text: str) -> float:
    """The number that a text is, Fortran's exponents too.

    Raises:
        ValueError: It is none.
    """
    bare = text.strip()
    if not _NUMBER.fullmatch(bare):
        raise ValueError(f"{bare!r} is no number")
    return float(bare.lower().replace("d", "e"))


def _fault(text: str | None) -> str:
    """What is wrong with a figure; empty if it can be used."""
    if text is None:
        return "has nothing in its group"
    try:
        value = number(text)
    except ValueError:
        return f"has {shown(text)} in its group, which is not a number"
    if value <= 0:
        return f"is {shown(value)}: a figure must be above 0"
    return "" if 1 / MOST <= value <= MOST else f"is {shown(value)}, beyond what is compared"
