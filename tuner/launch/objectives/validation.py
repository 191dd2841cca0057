"""Options of an objective and which of them go together; what it gets of a launch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from tuner.model import CLOCK, TIME_UNITS_S, ObjectiveSpec
from tuner.model.errors import UsageError, shown

#: The largest figure, and one over it the smallest above 0: their ratios and squares are numbers.
MOST = 1e30

#: What people write for a unit of time that goes by another name here.
_MEANT = {
    "µs": "us", "usec": "us", "msec": "ms", "sec": "s", "secs": "s", "second": "s",
    "seconds": "s", "m": "min", "mins": "min", "minute": "min", "minutes": "min",
    "hr": "h", "hrs": "h", "hour": "h", "hours": "h",
}  # fmt: skip

#: The letters of a unit that a table still shows.
LONGEST_UNIT = 20


@dataclass(frozen=True)
class EndedLaunch:
    """What a launch that has ended by itself left behind.

    ``out_dir`` is the folder that ``{out}`` stood for, ``output`` the file with what it printed
    (stdout and stderr of all ranks); ``wall_s`` is from the start of mpirun to its end.
    """

    out_dir: Path
    output: Path
    wall_s: float


def with_argument(spec: ObjectiveSpec, text: str) -> ObjectiveSpec:
    """The objective that ``KIND[:ARG]`` names: a key or ``steady``, or a regular expression.

    Raises:
        UsageError: The kind takes no argument, or it is empty.
    """
    kind, colon, argument = text.partition(":")
    if not colon:
        return replace(spec, kind=kind)
    if not argument:
        also = {"pattern": "'pattern:Performance: ([0-9.]+)'", "logreport": "logreport:steady"}
        raise UsageError(
            f"--objective {text!r}: nothing stands behind the colon.",
            f"For example: --objective {also.get(kind, kind)}",
        )
    if kind == "wall":
        raise UsageError(f"--objective {text!r}: wall takes nothing.", "--objective wall")
    if kind == "pattern":
        return replace(spec, kind=kind, pattern=argument)
    if kind == "logreport" and argument == "steady":
        return replace(spec, kind=kind, statistic="steady")
    return replace(spec, kind=kind, key=argument)


def check(spec: ObjectiveSpec) -> None:
    """Refuse options that do not go together; the kind itself is looked up elsewhere.

    Raises:
        UsageError: An option that makes no sense, or not for this kind.
    """
    path = PurePosixPath(spec.log)
    if not path.name or path.is_absolute() or ".." in path.parts or "\0" in spec.log:
        raise UsageError(
            f"The log {spec.log!r} is no name of a file below the output folder.",
            "Give it as the program writes it below {out}: --log log.jsonl.",
        )
    _check_unit(spec)
    _check_kind(spec)


def remove_old(path: Path) -> None:
    """Remove what an earlier launch wrote, so that it does not count as this one's.

    Raises:
        UsageError: It cannot be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except NotADirectoryError:
        return
    except OSError as error:
        raise UsageError(
            f"the old log {path} cannot be removed: {error.strerror}",
            "remove it by hand, or choose another output folder",
        ) from error


#: ``MS`` is no more a unit of its own than ``Ms``.
_SMALL = {unit: unit for unit in TIME_UNITS_S}


def _check_unit(spec: ObjectiveSpec) -> None:
    unit = spec.unit
    if not unit:
        return
    meant = unit if unit in TIME_UNITS_S else {**_SMALL, **_MEANT}.get(unit.lower(), unit)
    if meant != unit:
        raise UsageError(f"The unit {unit!r} is not known as a time.", f"Write --unit {meant}.")
    if not unit.isprintable() or unit != unit.strip() or len(unit) > LONGEST_UNIT:
        raise UsageError(
            f"The unit {shown(unit)} cannot be shown behind a figure.",
            f"At most {LONGEST_UNIT} letters, such as --unit ns/day.",
        )
    if spec.maximize and unit in TIME_UNITS_S:
        raise UsageError(
            f"A time in {unit} is better if it is smaller, but --maximize is given.",
            "Leave out --maximize, or give the unit of a rate, such as it/s.",
        )


def _check_kind(spec: ObjectiveSpec) -> None:
    kind, steady = spec.kind, spec.statistic == "steady"
    if spec.statistic not in {"last", "steady"}:
        raise UsageError(f"The statistic {shown(spec.statistic)} is not known.", "last or steady")
    if spec.pattern and kind != "pattern":
        raise UsageError(f"A pattern is given, but the objective is {kind}.", _ONE)
    if steady and kind != "logreport":
        raise UsageError(f"The steady state is of a log, but the objective is {kind}.", _ONE)
    if kind in {"wall", "pattern"} and spec.key != CLOCK:
        raise UsageError(f"The key {shown(spec.key)} is of a log; the objective is {kind}.", _ONE)
    if steady and spec.key != CLOCK:
        raise UsageError(
            f"The steady state is of the log's {CLOCK}, not of {shown(spec.key)}.", "Keep one."
        )
    if kind == "wall" or (kind == "logreport" and spec.key == CLOCK):
        what = "wall time" if kind == "wall" else "steady state" if steady else CLOCK
        if spec.unit:
            raise UsageError(f"--unit {spec.unit}: the {what} is in seconds.", "Leave it out.")
        if spec.maximize:
            raise UsageError(f"--maximize: the {what} is better if it is smaller.", _RATE)


_ONE = "Keep one of them: --objective 'pattern:REGEX', --objective logreport[:KEY] or wall."
_RATE = "Leave it out, or name a rate: --objective logreport:KEY or 'pattern:REGEX'."
