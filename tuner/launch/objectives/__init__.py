"""Reads a launch's figure of merit: each objective has a class.

An objective reads what a launch left behind (`EndedLaunch`) and nothing else; other packages add
theirs through the entry point group ``tuner.objectives`` (name -> a callable that takes the
`ObjectiveSpec`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from tuner.model import (
    CLOCK,
    OBJECTIVES,
    TIME_UNITS_S,
    Failed,
    Finished,
    ObjectiveSpec,
    Progress,
    plugins,
)
from tuner.model.errors import UsageError, shown
from tuner.model.units import SECONDS, unit_of

#: The entry point group of objectives from other packages.
GROUP = "tuner.objectives"

_SHIPPED = {
    "logreport": "tuner.launch.objectives.logreport:LogReport",
    "pattern": "tuner.launch.objectives.pattern:Pattern",
    "wall": "tuner.launch.objectives:Wall",
}

#: The largest figure, and one over it the smallest: ratios and squares of these are finite.
MOST_FIGURE = 1e30

#: The units of time by other names that people write for them.
_SYNONYMS = {"m": "min"} | {
    name: unit
    for name, seconds in SECONDS.items()
    for unit, unit_s in TIME_UNITS_S.items()
    if seconds == unit_s
}

#: The most letters of a unit that a table has room for.
LONGEST_UNIT = 20


@dataclass(frozen=True)
class EndedLaunch:
    """What a launch that has ended by itself left behind."""

    out_dir: Path  #: The folder that ``{out}`` stood for.
    output: Path  #: The file with what it printed: stdout and stderr of all ranks.
    wall_s: float  #: From the start of mpirun to its end.


class Objective:
    """Reads the figure of one launch; one object serves one launch."""

    #: The figure is read below ``{out}``, which the command must have.
    needs_out = False
    #: The figure is without the time during which the launch was paused.
    leaves_out_pauses = False

    def __init__(self, spec: ObjectiveSpec) -> None:
        self.spec = spec
        #: Gives the pauses of the launch so far, each from and to a moment of ``time.time``. The
        #: program's own clock goes on meanwhile: what reads that clock has to take them off.
        self.pauses: Callable[[], Sequence[tuple[float, float]]] = lambda: ()

    def progress(self, out_dir: Path) -> tuple[Progress, ...]:  # noqa: ARG002
        """Return what the program has logged so far; empty if nothing. It never raises."""
        return ()

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        """Return the value of a launch that has ended by itself, or why nothing gives one."""
        raise NotImplementedError


class Wall(Objective):
    """The wall time of the launch; the program only has to end."""

    leaves_out_pauses = True

    def result(self, ended: EndedLaunch) -> Finished | Failed:
        """Return how long the launch took."""
        return Finished(ended.wall_s, iterations=0)


def with_argument(spec: ObjectiveSpec, text: str) -> ObjectiveSpec:
    """Return the objective that ``KIND[:ARG]`` names: a key, ``steady``, a regular expression.

    ``UsageError``: the kind takes no argument, or it is empty.
    """
    kind, colon, argument = text.partition(":")
    if not colon:
        return replace(spec, kind=kind)
    spec = replace(spec, kind=kind)
    if not argument or not spec.traits.argument:
        examples = {"pattern": "'pattern:Performance: ([0-9.]+)'", "logreport": "logreport:steady"}
        raise UsageError(
            f"--objective {text!r}: {f'{kind} takes nothing' if argument else 'nothing comes'}"
            " after the colon",
            f"for example: --objective {examples.get(kind, kind)}",
        )
    if spec.traits.argument == "pattern":
        return replace(spec, pattern=argument)
    if spec.traits.has_steady_state and argument == "steady":
        return replace(spec, statistic="steady")
    return replace(spec, key=argument)


def objective_for(spec: ObjectiveSpec) -> Objective:
    """Return the objective that `spec` names.

    ``UsageError``: there is none, its package is broken, or it cannot have these options.
    """
    make: Callable[[ObjectiveSpec], Objective] = plugins.find(
        GROUP, _SHIPPED, spec.kind, what="objective"
    )
    for is_wrong, fault, hint in _faults(spec):
        if is_wrong:
            raise UsageError(fault, hint)
    return make(spec)


def _faults(spec: ObjectiveSpec) -> list[tuple[bool, str, str]]:
    """Return what may be wrong with the options: whether it is, the fault, and a hint."""
    kind, unit, steady = spec.kind, spec.unit, spec.statistic == "steady"
    path, known_unit = PurePosixPath(spec.log), unit_of(unit)
    synonym = unit if unit in TIME_UNITS_S else _SYNONYMS.get(unit.lower(), unit)
    keep_one = "keep one of them: --objective 'pattern:REGEX', --objective logreport[:KEY] or wall"
    traits = spec.traits
    is_shipped_clock = kind in OBJECTIVES and traits.clock != "none" and spec.key == CLOCK
    clock = "wall time" if traits.clock == "wall" else "steady state" if steady else CLOCK
    return [
        (
            not path.name or path.is_absolute() or ".." in path.parts or "\0" in spec.log,
            f"the log {spec.log!r} is not the name of a file below the output folder",
            "give it as the program writes it below {out}: --log log.jsonl",
        ),
        (synonym != unit, f"the unit {unit!r} is not known as a time", f"write --unit {synonym}"),
        (
            not unit.isprintable() or unit != unit.strip() or len(unit) > LONGEST_UNIT,
            f"the unit {shown(unit)} cannot be shown after a figure",
            f"at most {LONGEST_UNIT} letters, such as --unit ns/day",
        ),
        (
            is_shipped_clock and spec.maximize,
            f"--maximize: the {clock} is better if it is smaller",
            "leave it out, or name a rate: --objective logreport:KEY or 'pattern:REGEX'",
        ),
        (
            is_shipped_clock and unit != "",
            f"--unit {unit}: the {clock} is in seconds",
            "leave it out",
        ),
        (
            spec.maximize and unit in TIME_UNITS_S,
            f"a time in {unit} is better if it is smaller, but --maximize is given",
            "leave out --maximize, or give the unit of a rate, such as it/s",
        ),
        (
            known_unit is not None and known_unit.is_rate and not spec.maximize,
            f"the lowest rate in {unit} would count as the best",
            "add --maximize; if the lowest is the best, give --unit a name that is no rate",
        ),
        (
            spec.statistic not in {"last", "steady"},
            f"the statistic {shown(spec.statistic)} is not known",
            "last or steady",
        ),
        (
            bool(spec.pattern) and traits.argument != "pattern",
            f"a pattern is given, but the objective is {kind}",
            keep_one,
        ),
        (
            steady and (not traits.has_steady_state or spec.key != CLOCK),
            f"the steady state is read from the {CLOCK} of a log; the objective is {kind} with the"
            f" key {shown(spec.key)}",
            keep_one,
        ),
        (
            traits.argument != "key" and spec.key != CLOCK,
            f"the key {shown(spec.key)} is read from a log; the objective is {kind}",
            keep_one,
        ),
    ]
