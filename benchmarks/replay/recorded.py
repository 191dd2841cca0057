"""A surface file from the launches of ``python -m benchmarks.record``."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.replay.recording import launches, settings
from benchmarks.replay.surface import RUN_COLUMNS
from tuner.model import BASELINE, Failed, Finished, JsonDict, LaunchRecord, Outcome, Setting
from tuner.model.errors import NothingMeasuredError
from tuner.stats import evidence
from tuner.study.history import History


def document(history: History) -> JsonDict:
    """The surface (``benchmarks/surfaces/README.md``) of a recorded study.

    The point that the defaults come to is the one with the median time closest to theirs.
    What is no training of a launch, its end too, counts as start-up.

    Raises:
        NothingMeasuredError: No setting has a time.
    """
    groups = {setting: history.of(launches(history), setting) for setting in settings(history)}
    medians = {setting: m for setting, group in groups.items() if (m := _median_s(group))}
    if not medians:
        raise NothingMeasuredError(
            f"study {history.spec.name} has no measured setting to record",
            f"`tune show {history.spec.name}` lists why its launches failed",
        )
    spec = history.spec
    return {
        "name": spec.name,
        "model": False,
        "ranks": spec.layout.ranks,
        "iterations": evidence.full_length(history.records) or 1,
        "machine": {
            "physical_cores": spec.machine.usable_cores,
            "cpu_model": spec.machine.cpu_model,
            "launcher": f"{spec.launcher.kind} {spec.launcher.version}",
        },
        "knobs": {name: list(values) for name, values in history.distinct},
        "cold": sorted(knob.name for knob in history.knobs if not knob.live),
        "default": _default(history, medians).as_dict(),
        "default_runs_s": [
            s.elapsed_s for r in history.of(launches(history), BASELINE) for s in r.outcome.samples
        ],
        "run_columns": list(RUN_COLUMNS),
        "points": [_point(setting, group) for setting, group in groups.items()],
    }


def spread(surface: JsonDict) -> float:
    """How much the runs of a setting differ, as a share of their median; typical of the points.

    Half of the runs lie within this about the median (the median absolute deviation).
    """
    place = surface["run_columns"].index("elapsed_s")
    shares = []
    for point in surface["points"]:
        times = [row[place] for row in point["runs"]]
        if len(times) > 1:
            middle_s = statistics.median(times)
            away = statistics.median(abs(time_s - middle_s) for time_s in times)
            shares.append(away / middle_s)
    return statistics.median(shares) if shares else 0.0


def _median_s(group: Sequence[LaunchRecord]) -> float | None:
    return evidence.estimate_s([sample for record in group for sample in record.outcome.samples])


def _default(history: History, medians: dict[Setting, float]) -> Setting:
    baseline_s = _median_s(history.of(launches(history), BASELINE))
    if baseline_s is None:  # they fail: the fullest setting is the closest to that
        return max(medians, key=lambda setting: medians[setting])
    log_s = math.log(baseline_s)
    return min(medians, key=lambda setting: abs(math.log(medians[setting]) - log_s))


def default_is_off(surface: JsonDict) -> float:
    """By what share the point that stands for the defaults differs from them; 0 unknown."""
    runs = surface["default_runs_s"]
    if not runs:
        return 0.0
    chosen = (p["truth_s"] for p in surface["points"] if p["setting"] == surface["default"])
    return abs(float(next(chosen)) / statistics.median(map(float, runs)) - 1)


def _point(setting: Setting, group: Sequence[LaunchRecord]) -> dict[str, Any]:
    runs = [_run(record.outcome) for record in group if record.outcome.samples]
    point: dict[str, Any] = {"setting": setting.as_dict(), "failed": not runs, "runs": runs}
    if runs:
        return point | {"truth_s": _median_s(group), "fail_after_s": None, "reason": None}
    failures = [record.outcome for record in group if isinstance(record.outcome.ending, Failed)]
    reasons = [each.ending.reason for each in failures if isinstance(each.ending, Failed)]
    after_s = statistics.median(outcome.wall_s for outcome in failures)
    return point | {"truth_s": None, "fail_after_s": after_s, "reason": reasons[0]}


def _run(outcome: Outcome) -> list[float]:
    ending = outcome.ending
    assert isinstance(ending, Finished)
    startup_s = max(0.0, outcome.wall_s - ending.elapsed_s)
    row = (startup_s, _first_iteration_s(outcome, ending), ending.elapsed_s)
    return [round(figure, 4) for figure in row]


def _first_iteration_s(outcome: Outcome, ending: Finished) -> float:
    """What the first iteration took, by the pace of those after the first entry."""
    if not outcome.progress:
        return ending.elapsed_s / max(1, ending.iterations)
    first = outcome.progress[0]
    left = ending.iterations - first.iteration
    pace_s = (ending.elapsed_s - first.elapsed_s) / left if left > 0 else 0.0
    return min(max(first.elapsed_s - (first.iteration - 1) * pace_s, pace_s), first.elapsed_s)
