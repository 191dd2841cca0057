"""Reads a figure from what the program prints: the last match of a regular expression.

The pattern points at a number; :mod:`tuner.launch.objectives.number` reads it, with its unit.

The library ``regex`` searches, since it can end a search that takes too long; ``re`` cannot.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import regex

from tuner.hosts.untrusted_files import read_end
from tuner.launch.failure import without_escapes
from tuner.launch.objectives import EndedLaunch, Objective
from tuner.launch.objectives.number import CutError, figure, read
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec
from tuner.model.errors import UsageError
from tuner.model.wording import one_line

#: The search of one output may take this long in all, s.
LIMIT_S = 20.0
#: This much of the end of the output is searched, bytes.
SEARCHED_BYTES = 16 << 20
#: So many letters are kept of what a group holds, and on either side of it.
LONGEST_TEXT = 200
LONGEST_SIDE = 100
#: The line that comes nearest is one of this many at the end.
MOST_LINES = 2000
#: By these progress bars go back in their line.
_BACKSPACES = re.compile(r"\x08+")

_EXAMPLE = "for example: --objective 'pattern:Performance: ([0-9.]+)'"
_GROUP = r"(?<!\\)\((?:\?P?<\w+>|(?!\?))"  # the begin of a group in a pattern
#: How a pattern has a comma or a blank beside its group.
_SEPARATORS = {
    ",": re.compile(rf",{_GROUP}|{_GROUP}[^()]*\),"),
    " ": re.compile(rf"{_GROUP}[^()]*\)(?: |\\s|\[ )"),
}
_WORD = re.compile(r"[^\W\d_]+|%")


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
        name, unit = self.spec.filename, self.spec.unit
        path = ended.output if name is None else ended.out_dir / name
        kind = FailureKind.BAD_LOG
        # With several groups nobody can say which one a comma or a blank belongs to.
        separators = ""
        if self._compiled.groups == 1:
            forms = _SEPARATORS.items()
            separators = "".join(mark for mark, form in forms if form.search(self.spec.pattern))
        try:
            data = read_end(path, SEARCHED_BYTES)
            lines = lines_of(data)
            match = self.last_match(lines)
            if match is None:
                kind, fault = FailureKind.NO_LOG, f"matches nothing{self._nearest(lines, data)}"
            else:
                reading = read(*match, separators=separators)
                cost = self.spec.cost(figure(reading, unit))
                return Finished(cost, iterations=0, reading=reading)
        except FileNotFoundError:
            noun = "output" if name is None else "file"
            return Failed(FailureKind.NO_LOG, f"there is no {noun} {path}")
        except TimeoutError:
            fault = (
                f"took more than {LIMIT_S:g} s: the output is too long, or the pattern tries too"
                " many ways (nested repeats such as (a+)+)"
            )
        except OSError as error:
            fault = f"cannot be read: {error.strerror}"
        except CutError as error:
            kind, line = FailureKind.CUT_FIGURE, one_line(error.part.marked)
            fault = (
                f"reads a part of the number {error.whole.text}: {line}; let its group take the"
                " whole number, with its marks and units, as (.*) does"
            )
        except ValueError as error:
            fault = f"the last match {error}"
        return Failed(kind, f"the pattern {self._quoted} on {path}: {fault}")

    def last_match(self, lines: Sequence[str]) -> tuple[str, str, str] | None:
        """Return what stands before the group of the last match, in it and after it, in its line.

        The group is the first one with a name, else the first. ``None``: nothing matches.
        ``TimeoutError``: the search took too long.
        """
        group = min(self._compiled.groupindex.values(), default=1)
        deadline_s = time.monotonic() + LIMIT_S
        for line in reversed(lines):
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            matches = [*self._compiled.finditer(line, timeout=left_s, concurrent=True)]
            if matches and line:  # a pattern may match nothing in an empty line
                start, end = matches[-1].span(group)
                if start < 0:  # another branch of the pattern has matched, without the group
                    return "", "", ""
                before, after = line[max(0, start - LONGEST_SIDE) : start], line[end:]
                return before, line[start:end][:LONGEST_TEXT], after[:LONGEST_SIDE]
        return None

    def _nearest(self, lines: Sequence[str], data: bytes) -> str:
        """Return which line comes nearest to the pattern, and which part was not searched."""
        literal = re.sub(r"\[[^]]*\]|\\.", " ", self.spec.pattern).lower()
        words = set(_WORD.findall(literal))

        def likeness(line: str) -> tuple[int, bool]:
            common = words.intersection(_WORD.findall(line[:1000].lower()))
            return sum(map(len, common)), any(letter.isdigit() for letter in line)

        texts = [line.strip() for line in reversed(lines[-MOST_LINES:]) if line.strip()]
        nearest = one_line(max(texts, key=likeness, default=""))
        note = f"; the line that comes nearest is {nearest!r}" if nearest else "; it is empty"
        if len(data) < SEARCHED_BYTES:
            return note
        return f" in the last {SEARCHED_BYTES >> 20} MiB, which alone are searched{note}"


def lines_of(data: bytes) -> list[str]:
    """Return the lines of an output as its user saw them, without the escapes of a terminal."""
    text = data.decode("utf-8", "replace")
    if len(data) == SEARCHED_BYTES:  # the first line is cut off at its begin
        text = text.partition("\n")[2] or text
    text = without_escapes(text).replace("\r", "\n")
    return _BACKSPACES.sub("\n", text).split("\n")
