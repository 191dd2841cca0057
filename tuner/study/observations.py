"""A study's history in the words of the search: its space, and what every launch came to."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from tuner.knobs import ROLES, core_budget, space
from tuner.knobs.conditions import KnobAxis
from tuner.live.running_job import window_pace
from tuner.model import (
    SHORTAGES,
    Failed,
    FailureKind,
    Finished,
    LaunchRecord,
    Progress,
    Purpose,
    Setting,
    Stopped,
    Value,
)
from tuner.search.grid import Grid, Key, Space
from tuner.search.launch_groups import SearchObservation, grouped
from tuner.search.regions import ruled_out
from tuner.search.throughput import Pace, startup_s
from tuner.study.history import History

#: A knob with more values than this is searched on a scale.
MOST_VALUES = 128

#: Failures that need not be the setting's fault: another launch may well work.
_BY_CHANCE = frozenset(
    {FailureKind.CRASHED, FailureKind.LAUNCHER, FailureKind.NO_LOG, FailureKind.BAD_LOG}
)

_pace = lru_cache(maxsize=1 << 16)(Pace.of)
_startup_s = lru_cache(maxsize=1 << 16)(startup_s)


def search_space(history: History, *suggested: Setting) -> Space:
    """Return the settings that differ on this machine in the words of the search; needs a knob.

    Those that were ``suggested`` by another sampler, or are measured elsewhere, are among them.
    """
    spec, canonical = history.spec, history.pooling.canonical
    guesses = [canonical(guess) for guess in space.guesses(spec)]
    launched = [record.setting for record in history.valid]
    needed = [*guesses, *map(canonical, (*launched, *history.pending, *suggested))]
    needed.append(Setting.of(history.pooling.unchanged))  # what a setting without the knob comes to
    axes = []
    for knob, (name, values) in zip(history.knobs, history.distinct, strict=True):
        levels = values
        if name not in history.requirements.names:  # a condition may hold for any of the values
            levels = _on_a_scale(values, {setting.as_dict().get(name) for setting in needed})
        axes.append(KnobAxis(name, levels, ROLES.get(name), knob.when))
    return Space(
        tuple(axes),
        ranks_per_host=spec.layout.ranks_per_host,
        cores=spec.machine.usable_cores,
        baseline=as_key(history, history.default),
        guesses=tuple(key for guess in guesses if (key := as_key(history, guess)) is not None),
        most_demand=core_budget.most_demand(spec),
        requirements=history.requirements,
    )


def _on_a_scale(values: tuple[Value, ...], needed: AbstractSet[Value | None]) -> tuple[Value, ...]:
    """Return some of a very long range of numbers, in equal ratios: twice as many is one step.

    Those that are ``needed`` are among them in any case.
    """
    numbers = [value for value in values if isinstance(value, int)]
    if len(values) <= MOST_VALUES or len(numbers) < len(values):
        return values
    low, high = max(1, min(numbers)), max(numbers)
    ratio = (high / low) ** (1 / (MOST_VALUES - 1))
    scale = {round(low * ratio**step) for step in range(MOST_VALUES)}
    # A knob that does not exist in a setting has its first value there: see `as_key`.
    chosen = scale | needed | {min(numbers), high, numbers[0]}
    return tuple(value for value in numbers if value in chosen)


def as_key(history: History, setting: Setting) -> Key | None:
    """Return the setting's values in the space's order; ``None`` outside of the present space."""
    if not history.contains(setting):
        return None
    chosen = setting.as_dict()
    return tuple(chosen.get(name, values[0]) for name, values in history.distinct)


def as_setting(history: History, key: Key) -> Setting:
    """Return the setting of a key, without the knobs that do not exist in it."""
    names = (knob.name for knob in history.knobs)
    return space.setting_of(history.knobs, dict(zip(names, key, strict=True)))


def observations(history: History, records: Sequence[LaunchRecord]) -> list[SearchObservation]:
    """Return what the launches came to, the oldest first."""
    # The search subtracts start-ups from figures: only if these are of the same clock.
    counts_start = history.spec.objective.clock == "elapsed"
    observed = []
    for record in records:
        outcome, ending = record.outcome, record.outcome.ending
        # A window has no log of its own, and no start-up of its own.
        progress: tuple[Progress, ...] = outcome.progress if record.job is None else ()
        stopped = ending if isinstance(ending, Stopped) else None
        failed = ending if isinstance(ending, Failed) else None
        observed.append(
            SearchObservation(
                setting=as_key(history, record.canonical),
                ending="failed" if failed else "killed" if stopped else "finished",
                purpose=record.purpose,
                wall_s=outcome.wall_s,
                elapsed_s=ending.elapsed_s if isinstance(ending, Finished) else None,
                projection_s=stopped.projection_s if stopped else None,
                projection_log_sd=stopped.log_sd if stopped else 0.3,
                startup_s=_startup_s(progress) if counts_start else None,
                pace=_pace(progress) if record.job is None else window_pace(record),
                by_chance=failed is not None and failed.kind in _BY_CHANCE,
                is_bound=failed is not None and failed.kind in SHORTAGES,
                in_job=record.job is not None,
            )
        )
    return observed


def is_ruled_out(history: History, setting: Setting) -> bool:
    """Return whether a (canonical) setting uses too many cores, or is expected to fail."""
    key, grid = as_key(history, setting), Grid(search_space(history, setting))
    if key is None:
        return True
    row, groups = grid.rows([key]), grouped(observations(history, history.searched))
    return bool(ruled_out(grid, row, groups)[0])


def pending(history: History, observed: Sequence[SearchObservation]) -> list[SearchObservation]:
    """Return guesses at what other hosts measure: as fast as before, or as the slowest setting.

    So the search proposes something else meanwhile (the "constant liar" of Ginsbourger, Le Riche &
    Carraro, 2010).
    """
    groups = grouped(observed)
    slowest_s = max((launch.elapsed_s or 0.0 for launch in observed), default=0.0) or 1.0
    running = []
    for setting in history.pending:
        key = as_key(history, history.pooling.canonical(setting))
        if key is None:
            continue
        logs_s = groups[key].finished if key in groups else []
        elapsed_s = math.exp(statistics.median(logs_s)) if logs_s else slowest_s
        purpose = Purpose.REPEAT if key in groups else Purpose.SEARCH
        running.append(SearchObservation(key, "finished", purpose, 0.0, elapsed_s, is_running=True))
    return running
