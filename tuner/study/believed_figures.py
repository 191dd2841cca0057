"""Whether the evidence allows the figures of launches. Pure.

An objective says what one launch came to, and what it read. This module compares all launches of a
study: their units, the format of their numbers, and how long they took. A launch whose figure they
contradict has failed. A later launch may show that the figure was right, so all are judged anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from tuner.launch.objectives.number import figure
from tuner.model import (
    Failed,
    FailureKind,
    Finished,
    LaunchRecord,
    ObjectiveSpec,
    Reading,
    figures,
    wording,
)
from tuner.model.errors import UsageError
from tuner.model.units import MULTIPLES, converted, unit_of
from tuner.search.throughput import began_before, is_longer


def believed(records: Iterable[LaunchRecord], objective: ObjectiveSpec) -> tuple[LaunchRecord, ...]:
    """Return the launches with the figures that their evidence allows; others have failed."""
    launches = [_with_own_figure(record) for record in records]
    usage = _Usage(launches, objective)
    return tuple(_failed_if_doubted(record, usage) for record in launches)


def notes(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> list[str]:
    """Return what the user should know of how figures were read, a sentence each.

    A sentence stays the same while launches are added, so that the loop can say it once.
    """
    usage, texts = _Usage(map(_with_own_figure, records), objective), []
    unit = unit_of(usage.target) if usage.readings else None
    if unit is not None and not unit.is_rate and objective.maximize:
        what = f"the figure is a time ({usage.target})"
        texts.append(f"more counts as better (--maximize), but {what}")
    return [*texts, *filter(None, [_long_figure(records, objective)])]


def check_direction(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> None:
    """Refuse to look for the lowest rate, unless --unit calls it by a name that is no rate."""
    usage = _Usage(map(_with_own_figure, records), objective)
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


def _with_own_figure(record: LaunchRecord) -> LaunchRecord:
    """Return the launch with the figure that it had before other launches cast doubt on it."""
    ending = record.outcome.ending
    if isinstance(ending, Failed) and ending.doubted is not None:
        return replace(record, outcome=replace(record.outcome, ending=ending.doubted))
    return record


def _failed_if_doubted(record: LaunchRecord, usage: _Usage) -> LaunchRecord:
    ending: Finished | Failed
    sample = record.outcome.ending
    if not isinstance(sample, Finished):
        return record
    try:
        if record.job is None:  # the figure of a window is made from its pace
            _require_own_clock(record, sample, usage.objective)
        if sample.reading is None:
            return record
        ending = replace(sample, elapsed_s=usage.objective.cost(usage.figure(sample.reading)))
    except ValueError as error:
        reason = wording.one_line(str(error), most=500)
        ending = Failed(FailureKind.DOUBTED_FIGURE, reason, doubted=sample)
    return replace(record, outcome=replace(record.outcome, ending=ending))


def _require_own_clock(record: LaunchRecord, sample: Finished, objective: ObjectiveSpec) -> None:
    """Doubt a clock that is ahead of the launch, as it goes on from an earlier run (ValueError)."""
    log, wall_s = record.outcome.progress, record.outcome.wall_s
    is_alone = record.outcome.side_by_side is None  # an objective of others may keep the pauses
    if is_alone and objective.clock in {"elapsed", "steady"} and began_before(log, wall_s):
        raise ValueError(
            f"a resumed log: its clock ends at {log[-1].elapsed_s:g} s, but the launch took"
            f" {wording.seconds(wall_s)}: let each launch begin anew (--prepare COMMAND can remove"
            " what it goes on from), or use --objective wall"
        )
    is_clock = objective.clock == "elapsed" and objective.kind != "logreport"
    if is_clock and is_longer(sample.elapsed_s, wall_s):
        raise ValueError(_figure_and_wall_time(record, sample, objective))


def _figure_and_wall_time(record: LaunchRecord, sample: Finished, objective: ObjectiveSpec) -> str:
    shown = figures.shown(objective, sample.elapsed_s)
    return f"its figure is {shown}, but the launch took {wording.seconds(record.outcome.wall_s)}"


# --- what was read --------------------------------------------------------------------------------


class _Usage:
    """How the program of a study prints its figures, as far as its launches show."""

    def __init__(self, records: Iterable[LaunchRecord], objective: ObjectiveSpec) -> None:
        self.objective = objective
        #: What was read, with the number of the launch. The first has the study's unit.
        self.readings: list[tuple[int, Reading]] = []
        for record in records:
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
        """Return the figure in the unit of the study; a ``ValueError`` if it cannot be told."""
        unit, first, target = self.unit(reading), self.unit(self.readings[0][1]), self.target
        as_printed = figure(reading)
        if not unit and (not first or target == self.objective.unit):
            return as_printed  # a number without a unit is in the study's
        own, of_first = unit_of(unit), unit_of(first)
        has_same_work = own is not None and of_first is not None and own.work == of_first.work
        is_same = unit == first or not first or has_same_work
        value = converted(as_printed, unit or target, target) if is_same else None
        if value is None:
            units = f"{unit or 'no unit'} instead of {first or target}"
            raise ValueError(
                f"its figure has {units}: {reading.marked}; launch {self.readings[0][0]}:"
                f" {self.readings[0][1].marked}; let the program print one unit in all launches, or"
                " time the launches: --objective wall"
            )
        return value


# --- what is said ---------------------------------------------------------------------------------


def _long_figure(records: Sequence[LaunchRecord], objective: ObjectiveSpec) -> str:
    """Point out a printed time that is longer than its launch; it may be that of all ranks."""
    if objective.clock != "none" or not objective.is_time:
        return ""
    for record in records:
        sample = record.outcome.ending
        if record.job is not None or not isinstance(sample, Finished):
            continue  # the figure of a window is made from its pace
        if is_longer(sample.elapsed_s, record.outcome.wall_s):
            times = _figure_and_wall_time(record, sample, objective)
            return (
                f"launch {record.number}: {times}: is it the time of"
                " this launch, and in that unit? --objective wall takes the launch's own"
            )
    return ""
