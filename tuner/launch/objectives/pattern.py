"""A figure in what the program prints: the last match of a regular expression.

The library ``regex`` searches, since it can end a search that takes too long; ``re`` cannot.
"""

from __future__ import annotations

import re
import time

import regex

from tuner.hosts.untrusted_files import read_end
from tuner.launch.objectives import MOST, EndedLaunch, Objective
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec
from tuner.model.errors import UsageError, shown
from tuner.model.wording import one_line

#: One search may take this long in all, s.
LIMIT_S = 20.0
#: This much of the end of the output is searched, bytes.
SEARCHED_BYTES = 16 << 20
#: This many letters of what a group holds are kept.
LONGEST_TEXT = 200
#: A number as C, Python and Fortran (``1.5D+02``) print it.
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[EeDd][+-]?\d+)?", re.ASCII)

_EXAMPLE = "for example: --objective 'pattern:Performance: ([0-9.]+)'"


class Pattern(Objective):
    """Reads a figure from the output of the launch, or from a file that it writes.

    Raises:
        UsageError: The pattern is empty, no regular expression, or has no group.
    """

    def __init__(self, spec: ObjectiveSpec) -> None:
        super().__init__(spec)
        self._quoted = f"'{one_line(spec.pattern)}'"  # Python would double its backslashes
        self.needs_out = spec.filename is not None
        if not spec.pattern:
            raise UsageError("the objective pattern has no regular expression", _EXAMPLE)
        try:
            self._compiled = regex.compile(spec.pattern)
        except (regex.error, OverflowError, RecursionError) as error:
            raise UsageError(
                f"the pattern {self._quoted} is not a regular expression: {error}",
                r"what is meant literally needs a backslash: \( \. \+",
            ) from error
        if not self._compiled.groups:
            raise UsageError(
                f"the pattern {self._quoted} has no group for the figure",
                f"put the figure in parentheses; {_EXAMPLE}",
            )

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        """The figure of the last match; see `Objective`."""
        name = self.spec.filename
        path = ended.output if name is None else ended.out_dir / name
        named = f"the pattern {self._quoted} on {path}"
        try:
            found = self.last_match(read_end(path, SEARCHED_BYTES).decode("utf-8", "replace"))
            if found is None:
                return Failed(FailureKind.NO_LOG, f"{named}: matches nothing")
            return Finished(self.spec.cost(figure_of(found)), 0)
        except FileNotFoundError:
            what = "output" if name is None else "file"
            return Failed(FailureKind.NO_LOG, f"there is no {what} {path}")
        except TimeoutError:
            fault = (
                f"took more than {LIMIT_S:g} s: the output is too long, or the pattern tries too"
                " many ways (nested repeats such as (a+)+)"
            )
        except OSError as error:
            fault = f"cannot be read: {error.strerror}"
        except ValueError as error:
            fault = f"the last match {error}"
        return Failed(FailureKind.BAD_LOG, f"{named}: {fault}")

    def last_match(self, text: str) -> str | None:
        """What the group of the last match holds; ``None`` if nothing matches.

        A line ends at a newline or at a carriage return (progress bars). The group is the first
        one with a name, else the first.

        Raises:
            TimeoutError: The search took too long.
        """
        group = min(self._compiled.groupindex.values(), default=1)
        until_s = time.monotonic() + LIMIT_S
        for line in reversed(text.replace("\r", "\n").split("\n")):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            matches = [*self._compiled.finditer(line, timeout=left_s, concurrent=True)]
            if matches and line:
                return (matches[-1][group] or "")[:LONGEST_TEXT]
        return None


def figure_of(text: str) -> float:
    """The figure that a text is, Fortran's exponents too.

    Raises:
        ValueError: It is none, or cannot be compared; the message goes on after "the match".
    """
    bare = text.strip()
    if not bare:
        raise ValueError("has nothing in its group")
    if not _NUMBER.fullmatch(bare):
        raise ValueError(f"has {shown(text)} in its group, which is not a number")
    value = float(bare.lower().replace("d", "e"))
    if value <= 0:
        raise ValueError(f"is {shown(value)}: a figure must be above 0")
    if not 1 / MOST <= value <= MOST:
        raise ValueError(f"is {shown(value)}, beyond what is compared")
    return value
