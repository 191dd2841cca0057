"""Launches every setting of a study file several times, and writes them as a surface.

    python -m benchmarks.record --study FILE [--runs 10] [--output NAME.json]

The same command continues an interrupted recording; ``TUNE_STORAGE`` says where it is kept. On the
surface `python -m benchmarks.search NAME.json` searches in seconds.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.every_setting import EverySetting, settings, spec_of
from benchmarks.replay.surface import RUN_COLUMNS
from tuner.model import BASELINE, Failed, Finished, JsonDict, LaunchRecord, Outcome, Purpose
from tuner.model.errors import NothingMeasuredError
from tuner.results.exporters.json import dumps
from tuner.stats import evidence
from tuner.store.store import Store
from tuner.store.urls import resolve_url
from tuner.study.history import History
from tuner.study.tuning import tune


def main() -> None:
    """Record one surface."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--study", required=True, help="the study file, or its name")
    parser.add_argument("--runs", type=int, default=10, help="of each setting")
    parser.add_argument("--output", type=Path, help="the surface file [NAME.json]")
    options = parser.parse_args()
    spec = spec_of(options.study, live="off")
    name = spec.name
    spec = replace(
        spec, name=f"{name}-surface", oversubscription=None, confirm="none", learn_from="none"
    )
    tune(spec, policy=EverySetting(options.runs, Purpose.RECORD, (BASELINE,)))
    with Store.open(resolve_url(None, os.environ), create=False) as store:
        history = History.judged(spec, store.launches(spec.name))
    path = options.output or Path(f"{name}.json")
    path.write_text(dumps(document(history) | {"name": name}))
    print(f"wrote {path}")


def document(history: History) -> JsonDict:
    """Return the surface (``benchmarks/surfaces/README.md``) of a recorded study.

    The point that the defaults come to is the one with the median time closest to theirs.
    What is no training of a launch, its end too, counts as start-up.

    Raises:
        NothingMeasuredError: No setting has a time.
    """
    spec = history.spec
    recorded = [record for record in history.valid if record.purpose is Purpose.RECORD]
    groups = {setting: history.of(recorded, setting) for setting in settings(history)}
    medians = {setting: m for setting, group in groups.items() if (m := _median_s(group))}
    if not medians:
        raise NothingMeasuredError(
            f"study {spec.name} has no measured setting to record",
            f"`tune show {spec.name}` lists why its launches failed",
        )
    defaults = history.of(recorded, BASELINE)
    # If the defaults fail, the slowest setting is the closest to that.
    log_s = math.log(_median_s(defaults) or max(medians.values()))
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
        "default": min(medians, key=lambda s: abs(math.log(medians[s]) - log_s)).as_dict(),
        "default_runs_s": [s.elapsed_s for record in defaults for s in record.outcome.samples],
        "run_columns": list(RUN_COLUMNS),
        "points": [
            {"setting": setting.as_dict()} | _point(group) for setting, group in groups.items()
        ],
    }


def _median_s(group: Sequence[LaunchRecord]) -> float | None:
    return evidence.estimate_s([sample for record in group for sample in record.outcome.samples])


def _point(group: Sequence[LaunchRecord]) -> dict[str, Any]:
    runs = [_run(record.outcome) for record in group if record.outcome.samples]
    if runs:
        worked = {"truth_s": _median_s(group), "fail_after_s": None, "reason": None}
        return {"failed": False, "runs": runs, **worked}
    outcomes = [record.outcome for record in group]
    after_s = statistics.median(outcome.wall_s for outcome in outcomes)
    reason = next(o.ending.reason for o in outcomes if isinstance(o.ending, Failed))
    return {"failed": True, "runs": [], "truth_s": None, "fail_after_s": after_s, "reason": reason}


def _run(outcome: Outcome) -> list[float]:
    """Return the row of a launch; the first entry's pace says what its first iteration took."""
    ending = outcome.ending
    assert isinstance(ending, Finished)
    startup_s = max(0.0, outcome.wall_s - ending.elapsed_s)
    first_s = ending.elapsed_s / max(1, ending.iterations)
    if outcome.progress:
        first = outcome.progress[0]
        left = ending.iterations - first.iteration
        pace_s = (ending.elapsed_s - first.elapsed_s) / left if left > 0 else 0.0
        own_s = max(first.elapsed_s - (first.iteration - 1) * pace_s, pace_s)
        first_s = min(own_s, first.elapsed_s)
    return [round(figure, 4) for figure in (startup_s, first_s, ending.elapsed_s)]


if __name__ == "__main__":
    main()
