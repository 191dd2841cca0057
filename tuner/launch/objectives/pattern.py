"""A figure in what the program prints: the last match of a regular expression."""

from __future__ import annotations

import json
import re
import signal
import sys
import warnings
from pathlib import Path

from tuner.hosts import process
from tuner.launch.objectives import output
from tuner.launch.objectives.validation import MOST, EndedLaunch, remove_old
from tuner.model import Failed, FailureKind, Finished, ObjectiveSpec, Progress
from tuner.model.errors import UsageError, shown
from tuner.model.wording import one_line

#: Longer patterns are no patterns.
LONGEST = 1000

#: One search may take so long in all, s: reading may have to wait for a file system.
LIMIT_S = 60.0

#: A number as C, Python and Fortran (``1.5D+02``) print it.
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[EeDd][+-]?\d+)?", re.ASCII)

_EXAMPLE = "For example: --objective 'pattern:Performance: ([0-9.]+)'"


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, if a figure can be read with it.

    Raises:
        UsageError: It is empty, no regular expression, or has no group.
    """
    if not pattern:
        raise UsageError("The objective pattern has no regular expression.", _EXAMPLE)
    if len(pattern) > LONGEST or "\0" in pattern:
        raise UsageError(f"The pattern {_quoted(pattern)} is too long or has a NUL.", _EXAMPLE)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python may read otherwise
            found = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
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
        if not path.is_file():
            what = "output" if name is None else "file"
            return Failed(FailureKind.NO_LOG, f"there is no {what} {path}")
        named = f"the pattern {_quoted(self._spec.pattern)}"
        script = (sys.executable, "-I", "-S", str(Path(output.__file__)))
        argv = (*script, str(path), self._spec.pattern)
        try:
            done = process.run_tool(argv, timeout_s=LIMIT_S)
        except (OSError, TimeoutError) as error:
            late = isinstance(error, TimeoutError)  # which is an OSError as well
            why = f"took more than {LIMIT_S:g} s" if late else f"cannot be looked for: {error}"
            return Failed(FailureKind.BAD_LOG, f"{named} on {path}: {why}")
        if done.returncode != 0:
            why = _why(done.returncode, done.stderr)
            return Failed(FailureKind.BAD_LOG, f"{named} on {path}: {why}")
        found = json.loads(done.stdout)
        return judged(self._spec, None if found is None else output.Match(**found), path)


def judged(spec: ObjectiveSpec, found: output.Match | None, place: Path) -> Finished | Failed:
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
    """What is wrong with a figure; empty where it can be used."""
    if text is None:
        return "has nothing in its group"
    try:
        value = number(text)
    except ValueError:
        return f"has {shown(text)} in its group, which is not a number"
    if value <= 0:
        return f"is {shown(value)}: a figure must be above 0"
    return "" if 1 / MOST <= value <= MOST else f"is {shown(value)}, beyond what is compared"


def _why(code: int, said: str) -> str:
    """Why the search came to nothing."""
    if code in {-signal.SIGXCPU, -signal.SIGKILL}:
        return (
            f"took more than {output.CPU_S} s of CPU time: the output is too long, or the pattern"
            " tries too many ways (nested repeats such as (a+)+)"
        )
    if "MemoryError" in said:
        return "took too much memory"
    return f"failed: {one_line((said.strip().splitlines() or ['no reason'])[-1])}"
