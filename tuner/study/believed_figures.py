"""Whether the evidence allows the figures of launches. Pure.

An objective says what one launch came to, and what it read. This module compares all launches of a
study: their units, the format of their numbers, and how long they took. A figure that these
contradict is a failure. Later launches may show that it was right, so it is judged anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile

from tuner.launch.objectives.number import figure
from tuner.model import (
    Failed,
    FailureKind,
    Finished,
    LaunchRecord,
    ObjectiveSpec,
    Progress,
    Reading,
    figures,
    wording,
)
from tuner.model.errors import UsageError
from tuner.model.units import MULTIPLES, converted, unit_of
from tuner.search.throughput import began_before, is_longer, steady_s

#: A difference that stays within this share of that of the wall times is constant.
NOISE = 0.25
#: At least so many launches must have the same fault before it is the program's.
FEW = 4


#: Gives the cost of a launch; raises ``ValueError`` with the reason if its figure is contradicted.
_CostOf = Callable[[LaunchRecord, Finished], float]


def believed(records: Iterable[LaunchRecord], objective: ObjectiveSpec) -> tuple[LaunchRecord, ...]:
    """Return the launches with the figures that their evidence allows; others have failed."""
    launches = [_as_it_came(record) for record in records]
    for rule in (_by_text, _by_log, _by_wall):
        cost_of = rule(launches, objective)
        launches = [_judged(record, cost_of) for record in launches]
    return tuple(launches)


def notes(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> list[str]:
    """Return what the user should know of how figures were read, a sentence each.

    The same sentence comes again while launches are added, so that it is told once.

    Args:
        records: The launches as they are `believed`.
        objective: Says how the figures were asked for.
    """
    usage = _Usage(records, objective)
    texts = (
        _unknown(records),
        _units(usage),
        _direction(usage),
        _resumed_log(records, objective),
        _long_figure(records, objective),
        _same_figures(records, objective),
    )
    return [*filter(None, texts)]


def check_direction(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> None:
    """Refuse to look for the lowest rate, unless --unit calls it by a name that is no rate.

    Raises:
        UsageError: It shows the line of the first launch.
    """
    usage = _Usage(records, objective)
    if objective.maximize or not usage.readings or (objective.unit and not unit_of(objective.unit)):
        return
    unit = unit_of(usage.target)
    if unit is not None and unit.is_rate:
        number, reading = usage.readings[0]
        raise UsageError(
            f"the figure of launch {number} is a rate, but the lowest would count as the best:"
            f" {wording.one_line(reading.marked)}",
            "add --maximize, and --fresh to begin this study anew",
        )


def _as_it_came(record: LaunchRecord) -> LaunchRecord:
    ending = record.outcome.ending
    if isinstance(ending, Failed) and ending.doubted is not None:
        return replace(record, outcome=replace(record.outcome, ending=ending.doubted))
    return record


def _judged(record: LaunchRecord, cost_of: _CostOf) -> LaunchRecord:
    ending: Finished | Failed
    sample = record.outcome.ending
    if not isinstance(sample, Finished):
        return record
    try:
        cost = cost_of(record, sample)
        if cost == sample.elapsed_s:
            return record
        ending = replace(sample, elapsed_s=cost)
    except ValueError as error:
        reason = wording.one_line(str(error), 500)
        ending = Failed(FailureKind.DOUBTED_FIGURE, reason, doubted=sample)
    return replace(record, outcome=replace(record.outcome, ending=ending))


def _sample(record: LaunchRecord) -> Finished | None:
    """Return the figure of a launch; ``None`` for a window, whose figure is made from its pace."""
    ending = record.outcome.ending
    return ending if isinstance(ending, Finished) and record.job is None else None


# --- what was read --------------------------------------------------------------------------------


class _Usage:
    """How the program of a study prints its figures, as far as its launches show.

    Attributes:
        objective: Says how the figures were asked for.
        readings: What was read, with the number of the launch. The first has the study's unit.
    """

    def __init__(self, records: Iterable[LaunchRecord], objective: ObjectiveSpec) -> None:
        self.objective = objective
        self.readings: list[tuple[int, Reading]] = []
        for record in map(_as_it_came, records):
            ending = record.outcome.ending
            if isinstance(ending, Finished) and ending.reading is not None:
                self.readings.append((record.number, ending.reading))

    def unit(self, reading: Reading) -> str:
        """Return the unit of a reading. A word such as "best" is none beside --unit s."""
        is_word = reading.unit not in MULTIPLES and unit_of(reading.unit) is None
        return "" if is_word and unit_of(self.objective.unit) is not None else reading.unit

    @cached_property
    def target(self) -> str:
        """The unit that figures are kept in: --unit, if the program's can be converted to it."""
        printed, option = self.unit(self.readings[0][1]), self.objective.unit
        return option if option and (not printed or converted(1.0, printed, option)) else printed

    def figure(self, reading: Reading) -> float:
        """The figure in the unit of the study.

        Raises:
            ValueError: It cannot be told; the message says why.
        """
        unit, first, target = self.unit(reading), self.unit(self.readings[0][1]), self.target
        as_printed = figure(reading)
        if not unit and (not first or target == self.objective.unit):
            return as_printed
        same = unit == first or not first or _same_work(unit, first)
        value = converted(as_printed, unit or target, target) if same else None
        if value is None:
            units = f"{unit or 'no unit'} instead of {first or target}"
            raise ValueError(
                f"its figure has {units}: {reading.marked}; launch {self.readings[0][0]}:"
                f" {self.readings[0][1].marked}; let the program print one unit in all launches, or"
                " time the launches: --objective wall"
            )
        return value


def _same_work(unit: str, other: str) -> bool:
    old, new = unit_of(unit), unit_of(other)
    return old is not None and new is not None and old.work == new.work


def _by_text(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> _CostOf:
    """Read the figures anew: a unit or format that differs between launches changes them."""
    usage = _Usage(records, objective)

    def cost_of(_: LaunchRecord, sample: Finished) -> float:
        reading = sample.reading
        return sample.elapsed_s if reading is None else objective.cost(usage.figure(reading))

    return cost_of


# --- the clock of the program, and that of tune --------------------------------------------------


def _by_log(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> _CostOf:
    """Count of a resumed log the time since the launch's own first entry."""
    logged = [record for record in records if _sample(record) and record.outcome.progress]
    logs = [record.outcome.progress for record in logged]
    # Each log is compared with the one before, the first one with the second.
    others = dict(
        zip((record.number for record in logged), [*(logs[1:2] or logs), *logs], strict=False)
    )

    def cost_of(record: LaunchRecord, sample: Finished) -> float:
        if not _is_resumed(record, objective):
            return sample.elapsed_s
        log, wall_s = record.outcome.progress, record.outcome.wall_s
        own = log[_first_own(log, others[record.number], wall_s) :]
        pairs = [(e.iteration - own[0].iteration, e.elapsed_s - own[0].elapsed_s) for e in own]
        if time_s := steady_s(pairs) if objective.clock == "steady" else pairs[-1][1]:
            return time_s
        raise ValueError(
            f"a resumed log: its clock ends at {log[-1].elapsed_s:g} s, but the launch took"
            f" {wording.seconds(wall_s)}, and it has too few entries of this launch to tell"
            " its time: log more often, or use --objective wall"
        )

    return cost_of


def _is_resumed(record: LaunchRecord, objective: ObjectiveSpec) -> bool:
    is_log = objective.clock in {"elapsed", "steady"} and _sample(record) is not None
    return is_log and began_before(record.outcome.progress, record.outcome.wall_s)


def _first_own(log: Sequence[Progress], other: Sequence[Progress], wall_s: float) -> int:
    """Return the place of the first entry that this launch wrote.

    Launches that go on from one snapshot have its entries in common, to the last digit. A log
    alone shows only which entries are too old.
    """
    pairs = zip(log, other, strict=False)
    place = sum(1 for _ in takewhile(lambda pair: _entry(pair[0]) == _entry(pair[1]), pairs))
    if other is not log and place < len(log):
        return place
    oldest_s = log[-1].elapsed_s - wall_s
    return next(n for n, entry in enumerate(log) if entry.elapsed_s >= oldest_s)


def _entry(progress: Progress) -> tuple[int, float]:
    return progress.iteration, progress.elapsed_s


def _by_wall(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> _CostOf:
    """Doubt times that are longer than their launches.

    A printed time may be that of all ranks. It is doubted only if it is the time of the launch and
    a constant more, from an earlier start.
    """
    beyond, advice = _beyond_wall(records, objective), ""
    if beyond and objective.clock == "none":
        walls_s = [record.outcome.wall_s for record in beyond]
        more_s = [s.elapsed_s - r.outcome.wall_s for r in beyond for s in r.outcome.samples]
        spread_s = max(walls_s) - min(walls_s)
        is_constant = len(beyond) >= FEW and spread_s > NOISE * min(walls_s)
        if not is_constant or max(more_s) - min(more_s) >= NOISE * spread_s:
            beyond = []
        advice = (
            f"; each launch has about {min(more_s):.4g} s more than it took: the clock of a program"
            " that goes on from an earlier run (--objective wall takes the launch's own time)"
        )
    numbers = {record.number for record in beyond}

    def cost_of(record: LaunchRecord, sample: Finished) -> float:
        if record.number in numbers:
            raise ValueError(_longer(record, objective) + advice)
        return sample.elapsed_s

    return cost_of


def _beyond_wall(records: Iterable[LaunchRecord], objective: ObjectiveSpec) -> list[LaunchRecord]:
    """Return the launches whose figure is a time that is longer than the launch.

    Of a program that writes its clock into a log, :func:`_by_log` has compared the log.
    """
    is_clock = objective.clock == "elapsed" and objective.kind != "logreport"
    is_time = is_clock or (objective.clock == "none" and objective.is_time)
    return [
        record
        for record in records
        if is_time
        and (sample := _sample(record)) is not None
        and is_longer(sample.elapsed_s, record.outcome.wall_s)
    ]


def _longer(record: LaunchRecord, objective: ObjectiveSpec) -> str:
    (sample,) = record.outcome.samples
    shown = figures.shown(objective, sample.elapsed_s)
    return f"its figure is {shown}, but the launch took {wording.seconds(record.outcome.wall_s)}"


# --- what is said ---------------------------------------------------------------------------------


def _unknown(records: Sequence[LaunchRecord]) -> str:
    """Name a setting without a figure: it may be the fastest, and the verdict leaves it out."""
    measured = {record.setting for record in records if record.outcome.samples}
    unknown = {
        str(record.setting): ending.kind
        for record in records
        if isinstance(ending := record.outcome.ending, Failed)
        and ending.kind in {FailureKind.CUT_FIGURE, FailureKind.DOUBTED_FIGURE}
        and record.setting not in measured
    }
    if not measured or not unknown:
        return ""
    setting, kind = next(iter(unknown.items()))
    more = " (nor of others)" if len(unknown) > 1 else ""
    return f"whether {setting} is faster is not known{more}: {kind}"


def _units(usage: _Usage) -> str:
    units = {usage.unit(r): f"launch {n}: {r.marked}" for n, r in reversed(usage.readings)}
    others = [line for unit, line in units.items()
              if converted(2.0, unit, usage.target) not in {None, 2.0}]  # fmt: skip
    if not others:
        return ""
    return f"figures are converted to {usage.target}: {'; '.join(map(wording.one_line, others))}"


def _direction(usage: _Usage) -> str:
    unit = unit_of(usage.target) if usage.readings else None
    if unit is None or unit.is_rate or not usage.objective.maximize:
        return ""
    return f"more counts as better (--maximize), but the figure is a time ({usage.target})"


def _resumed_log(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> str:
    for record in records:
        outcome = record.outcome
        if _is_resumed(record, objective):
            return (
                "a resumed log: its clock goes on from an earlier run"
                f" ({outcome.progress[-1].elapsed_s:.0f} s after a launch of"
                f" {wording.seconds(outcome.wall_s)}); the time since the first entry of each"
                " launch is counted"
            )
    return ""


def _long_figure(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> str:
    record = next(iter(_beyond_wall(records, objective)), None)
    if record is None:
        return ""
    return (
        f"launch {record.number}: {_longer(record, objective)}: is it the time of this launch, and"
        " in that unit? --objective wall takes the launch's own"
    )


def _same_figures(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> str:
    """Compare no more launches than suffice, so that more of them do not change the note."""
    samples = [
        (record.outcome.wall_s, sample.elapsed_s)
        for record in records
        if (sample := _sample(record)) is not None and record.outcome.exclusion is None
    ]
    if objective.clock == "wall" or len({cost for _, cost in samples}) != 1:
        return ""
    walls_s, cost = [wall_s for wall_s, _ in samples[:FEW]], samples[0][1]
    if len(walls_s) < FEW or max(walls_s) < min(walls_s) * (1 + NOISE):
        return ""
    return (
        f"all launches have the same figure, {figures.shown(objective, cost)}, though the first"
        f" {FEW} took from {wording.seconds(min(walls_s))} to {wording.seconds(max(walls_s))}: is"
        " it what the program measures?"
    )
