"""A figure in what the program prints: the last match of a regular expression.

The pattern points at a number; :mod:`tuner.launch.objectives.number` reads it, with its unit.

The library ``regex`` searches, since it can end a search that takes too long; ``re`` cannot.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence

import regex

from tuner.hosts.untrusted_files import read_end
from tuner.launch.escapes import without_escapes
from tuner.launch.objectives import EndedLaunch, Objective, pattern_advice
from tuner.launch.objectives.number import CutError, figure, read
from tuner.model import Failed, FailureKind, Finished, Mark, ObjectiveSpec
from tuner.model.errors import UsageError, shown
from tuner.model.wording import one_line

#: One search may take this long in all, s.
LIMIT_S = 20.0
#: This much of the end of the output is searched, bytes.
SEARCHED_BYTES = 16 << 20
#: This many letters of what a group holds are kept, and on either side of it.
LONGEST_TEXT = 200
LONGEST_SIDE = 100
#: A pattern is proposed for this many letters of the line that comes nearest.
LONGEST_LINE = 1000
#: Progress bars go back by some letters.
_BACKSPACES = re.compile(r"\x08+")

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
        if spec.decimal not in {"", "comma", "point"}:
            raise UsageError(f"--decimal {shown(spec.decimal)} is not known", "comma or point")
        if not self._compiled.groups:
            raise UsageError(
                f"the pattern {self._quoted} has no group for the figure",
                f"put the figure in parentheses; {_EXAMPLE}",
            )

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        """The figure of the last match; see `Objective`."""
        name, unit = self.spec.filename, self.spec.unit
        path = ended.output if name is None else ended.out_dir / name
        kind, named = FailureKind.BAD_LOG, f"the pattern {self._quoted} on {path}"
        group = min(self._compiled.groupindex.values(), default=1)
        try:
            data = read_end(path, SEARCHED_BYTES)
            lines = lines_of(data)
            match = self.last_match(lines)
            if match is None:
                kind, fault = FailureKind.NO_LOG, f"matches nothing{self._nearest(lines, data)}"
            else:
                separated = pattern_advice.is_separated(self.spec.pattern, group)
                reading = read(*match, is_separated=separated)
                decimal = Mark.POINT if reading.by_point is not None else Mark.COMMA
                return Finished(self.spec.cost(figure(reading, decimal, unit)), 0, reading=reading)
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
        except CutError as error:
            kind, whole = FailureKind.CUT_FIGURE, error.whole
            fault = f"reads a part of the number {whole.text}: {one_line(error.part.marked)}"
            if better := pattern_advice.for_whole_number(self.spec.pattern, group, whole):
                fault += f"; this one reads all of it: {shlex.quote(f'pattern:{better}')}"
        except ValueError as error:
            fault = f"the last match {error}"
        return Failed(kind, f"{named}: {fault}")

    def last_match(self, lines: Sequence[str]) -> tuple[str, str, str] | None:
        """What stands before the group of the last match, in it and after it, in its line.

        The group is the first one with a name, else the first. ``None``: nothing matches.

        Raises:
            TimeoutError: The search took too long.
        """
        group = min(self._compiled.groupindex.values(), default=1)
        until_s = time.monotonic() + LIMIT_S
        for line in reversed(lines):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            matches = [*self._compiled.finditer(line, timeout=left_s, concurrent=True)]
            if matches and line:
                start, end = matches[-1].span(group)
                if start < 0:  # it is of another branch of the pattern
                    return "", "", ""
                before, after = line[max(0, start - LONGEST_SIDE) : start], line[end:]
                return before, line[start:end][:LONGEST_TEXT], after[:LONGEST_SIDE]
        return None

    def _nearest(self, lines: Sequence[str], data: bytes) -> str:
        """What an empty search came near to, and what it did not look at."""
        line = pattern_advice.nearest_line(self.spec.pattern, lines)
        said = f"; the line that comes nearest is {one_line(line)!r}" if line else "; it is empty"
        group = min(self._compiled.groupindex.values(), default=1)
        if better := pattern_advice.for_nearest(self.spec.pattern, group, line[:LONGEST_LINE]):
            said += f", which this one reads: {shlex.quote(f'pattern:{better}')}"
        if len(data) < SEARCHED_BYTES:
            return said
        return f" in the last {SEARCHED_BYTES >> 20} MiB, which alone are searched{said}"


def lines_of(data: bytes) -> list[str]:
    """The lines of an output as its user saw them: without the escapes of a terminal."""
    text = data.decode("utf-8", "replace")
    if len(data) == SEARCHED_BYTES:  # the first line has lost its begin
        text = text.partition("\n")[2] or text
    text = without_escapes(text).replace("\r", "\n")
    return (_BACKSPACES.sub("\n", text) if "\b" in text else text).split("\n")
