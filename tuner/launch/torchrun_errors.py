"""What torchrun says of the end of its ranks, told apart from what they say themselves (pure).

torchrun itself always ends with exit code 1. Which rank failed first, and how, stands in the
table below its ``ChildFailedError`` (torch.distributed.elastic.multiprocessing.errors).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_PACKAGE = r"torch\.distributed\.elastic\.multiprocessing"
_FAILED = re.compile(rf"{_PACKAGE}\.errors\.ChildFailedError:\s*")
_SIGNALLED = re.compile(rf"{_PACKAGE}\.api\.SignalException: Process \d+ got signal: (\d+)")
#: It ended before it had a rank: a port that is taken, an option that it does not know.
_UNSTARTED = re.compile(
    r'  File ".*/torch/distributed/run\.py", line \d+, in |(torchrun|run\.py): error: '
)
_TRACEBACK = "Traceback (most recent call last):"
_ROOT = "Root Cause"
_RULE = re.compile(r"={40,}")
_FIELD = re.compile(r"  (rank|exitcode)\s+: (-?\d+)\b")
#: Its log, as torch 2.5, 2.2 and 1.13 begin a line, and the stars around its word on threads.
_LOG = re.compile(
    r"[DIWEC]\d{4} [\d:.]+ \d+ \S*torch/distributed/(elastic/|launcher/|run\.py)"
    r"|\[[-\d]+ [\d:,]+\] torch\.distributed\.(elastic|launcher|run)\b"
    r"|[A-Z]+:torch\.distributed\.(elastic|launcher|run)\b"
    r"|\*{41}|Setting OMP_NUM_THREADS environment variable for each process"
)
#: What torch puts before each line of an exception in a rank of a process group.
_TAG = re.compile(r"\[rank(\d+)\]: ?")


class Root(NamedTuple):
    """The rank that failed first, and its exit code, negative for a signal."""

    rank: int
    code: int


class Told(NamedTuple):
    """The ranks' own lines; the first that failed; the signal that torchrun itself was sent.

    ``unstarted``: it failed by itself, as the lines say.
    """

    own: list[str]
    root: Root | None = None
    signal: int | None = None
    unstarted: bool = False


def read(lines: Sequence[str]) -> Told:
    """The output of a launch, without torchrun's part in it.

    Of exceptions that torch marks with their rank those of the rank that failed first are kept:
    the others' are of its absence.
    """
    own, table, number = _without_traceback([line for line in lines if not _LOG.match(line)])
    root = _root(table)
    if root is not None and any(line.startswith(f"[rank{root.rank}]:") for line in own):
        own = [line for line in own if _rank(line) in (None, root.rank)]
    unstarted = any(map(_UNSTARTED.match, own))
    return Told([_TAG.sub("", line, count=1) for line in own], root, number, unstarted)


def _without_traceback(lines: list[str]) -> tuple[list[str], list[str], int | None]:
    """(the ranks' lines, the table of failures, the signal torchrun was sent)."""
    for end in range(len(lines) - 1, -1, -1):
        failed, signalled = _FAILED.fullmatch(lines[end]), _SIGNALLED.match(lines[end])
        if failed or signalled:
            start = max((n for n in range(end) if lines[n] == _TRACEBACK), default=end)
            rules = [n for n in range(end + 1, len(lines)) if _RULE.fullmatch(lines[n])]
            last = rules[1] + 1 if failed and len(rules) > 1 else end + 1
            number = int(signalled[1]) if signalled else None
            return lines[:start] + lines[last:], lines[end:last], number
    return lines, [], None


def _root(table: Sequence[str]) -> Root | None:
    starts = [number for number, line in enumerate(table) if line.startswith(_ROOT)]
    fields = [_FIELD.match(line) for line in table[starts[0] :]] if starts else []
    found = {field[1]: int(field[2]) for field in fields if field}
    return Root(found["rank"], found["exitcode"]) if len(found) == 2 else None


def _rank(line: str) -> int | None:
    found = _TAG.match(line)
    return int(found[1]) if found else None
