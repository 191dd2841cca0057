"""How a launch's figure of merit is read: one class an objective.

An objective reads what a launch left behind (`EndedLaunch`) and nothing else; other packages add
theirs through the entry point group ``tuner.objectives`` (name -> a callable that takes the
`ObjectiveSpec`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from tuner.model import CLOCK, TIME_UNITS_S, Failed, Finished, ObjectiveSpec, Progress, plugins
from tuner.model.errors import UsageError, shown
from tuner.model.units import SECONDS, unit_of

#: The entry point group of objectives from other packages.
GROUP = "tuner.objectives"

_SHIPPED = {
    "logreport": "tuner.launch.objectives.logreport:LogReport",
    "pattern": "tuner.launch.objectives.pattern:Pattern",
    "wall": "tuner.launch.objectives:Wall",
}

#: The largest figure, and one over it the smallest above 0: their ratios and squares are numbers.
MOST = 1e30

#: What people write for a unit of time that goes by another name here.
_MEANT = {"m": "min"} | {
    name: unit
    for name, seconds in SECONDS.items()
    for unit, unit_s in TIME_UNITS_S.items()
    if seconds == unit_s
}

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


class Objective:
    """Reads the figure of one launch; one object serves one launch."""

    #: The figure is read below ``{out}``, which the command must have.
    needs_out = False
    #: The figure is without the time during which the launch was paused.
    leaves_out_pauses = False

    def __init__(self, spec: ObjectiveSpec) -> None:
        self.spec = spec
        #: Gives the pauses of the launch so far, each from and to a moment of ``time.time``. The
        #: program's own clock goes on meanwhile: what reads that has to take them off.
        self.pauses: Callable[[], Sequence[tuple[float, float]]] = lambda: ()

    def progress(self, out_dir: Path) -> tuple[Progress, ...]:  # noqa: ARG002
        """What the program has logged so far; empty while there is nothing. Never raises."""
        return ()

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        """The value of a launch that has ended by itself, or why nothing gives one."""
        raise NotImplementedError


class Wall(Objective):
    """The wall time of the launch; the program only has to end."""

    leaves_out_pauses = True

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        """How long it took."""
        return Finished(ended.wall_s, 0)


def with_argument(spec: ObjectiveSpec, text: str) -> ObjectiveSpec:
    """The objective that ``KIND[:ARG]`` names: a key or ``steady``, or a regular expression.

    Raises:
        UsageError: The kind takes no argument, or it is empty.
    """
    kind, colon, argument = text.partition(":")
    if not colon:
        return replace(spec, kind=kind)
    if not argument or kind == "wall":
        also = {"pattern": "'pattern:Performance: ([0-9.]+)'", "logreport": "logreport:steady"}
        raise UsageError(
            f"--objective {text!r}: {'wall takes nothing' if argument else 'nothing comes'}"
            " after the colon",
            f"for example: --objective {also.get(kind, kind)}",
        )
    if kind == "pattern":
        return replace(spec, kind=kind, pattern=argument)
    if kind == "logreport" and argument == "steady":
        return replace(spec, kind=kind, statistic="steady")
    return replace(spec, kind=kind, key=argument)


def objective_for(spec: ObjectiveSpec) -> Objective:
    """The objective that `spec` names.

    Raises:
        UsageError: No such objective, one whose package is broken, or options that it cannot
            have, alone or together.
    """
    make: Callable[[ObjectiveSpec], Objective] = plugins.find(
        GROUP, _SHIPPED, spec.kind, what="objective"
    )
    for fault, hint in _faults(spec):
        raise UsageError(fault, hint)
    return make(spec)


def _faults(spec: ObjectiveSpec) -> Iterator[tuple[str, str]]:
    """What is wrong with the options, each with a hint."""
    kind, unit, steady = spec.kind, spec.unit, spec.statistic == "steady"
    path = PurePosixPath(spec.log)
    if not path.name or path.is_absolute() or ".." in path.parts or "\0" in spec.log:
        yield (
            f"the log {spec.log!r} is not the name of a file below the output folder",
            "give it as the program writes it below {out}: --log log.jsonl",
        )
    meant = unit if unit in TIME_UNITS_S else _MEANT.get(unit.lower(), unit)
    if meant != unit:
        yield f"the unit {unit!r} is not known as a time", f"write --unit {meant}"
    if not unit.isprintable() or unit != unit.strip() or len(unit) > LONGEST_UNIT:
        yield (
            f"the unit {shown(unit)} cannot be shown after a figure",
            f"at most {LONGEST_UNIT} letters, such as --unit ns/day",
        )
    yield from _faults_of_direction(spec.unit, maximize=spec.maximize)
    if spec.statistic not in {"last", "steady"}:
        yield f"the statistic {shown(spec.statistic)} is not known", "last or steady"
    one = "keep one of them: --objective 'pattern:REGEX', --objective logreport[:KEY] or wall"
    if (spec.pattern or spec.decimal) and kind != "pattern":
        what = "pattern" if spec.pattern else "decimal mark"
        yield f"a {what} is given, but the objective is {kind}", one
    if steady and kind != "logreport":
        yield f"a steady state is read from a log, but the objective is {kind}", one
    if kind in {"wall", "pattern"} and spec.key != CLOCK:
        yield f"the key {shown(spec.key)} is read from a log; the objective is {kind}", one
    if steady and spec.key != CLOCK:
        yield f"the steady state is read from the log's {CLOCK}, not of {shown(spec.key)}", one
    if kind == "wall" or (kind == "logreport" and spec.key == CLOCK):
        what = "wall time" if kind == "wall" else "steady state" if steady else CLOCK
        if unit:
            yield f"--unit {unit}: the {what} is in seconds", "leave it out"
        if spec.maximize:
            rate = "--objective logreport:KEY or 'pattern:REGEX'"
            yield (
                f"--maximize: the {what} is better if it is smaller",
                f"leave it out, or name a rate: {rate}",
            )


def _faults_of_direction(unit: str, *, maximize: bool) -> Iterator[tuple[str, str]]:
    """Yield a fault and a hint if the best figure is sought where the worst ones are."""
    if maximize and unit in TIME_UNITS_S:
        yield (
            f"a time in {unit} is better if it is smaller, but --maximize is given",
            "leave out --maximize, or give the unit of a rate, such as it/s",
        )
    measured = unit_of(unit)
    if measured is not None and measured.is_rate and not maximize:
        yield (
            f"the lowest rate in {unit} would count as the best",
            "add --maximize; if the lowest is the best, give --unit a name that is no rate",
        )
