"""The same settings in windows of running jobs and in launches of their own.

    python -m benchmarks.live_points

Some ten settings of the MNIST and of the image trainer are measured both ways, in random order, and
the medians compared: their correlation, and the bias of the windows. That wants an idle machine.
``TUNE_STORAGE`` says where studies are kept; what is there is not measured again.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.every_setting import EverySetting, spec_of
from tuner.live.full_run import rescaled, usual_s
from tuner.model import (
    LOGGED_TIME,
    Choice,
    LaunchRecord,
    Live,
    Purpose,
    Setting,
    StudySpec,
    Value,
)
from tuner.stats import evidence
from tuner.store.store import Store
from tuner.store.urls import resolve_url
from tuner.study.tuning import tune

LEAST_CORRELATION = 0.9
MOST_BIAS = 0.05

#: Of each setting, both ways.
RUNS = 3

#: Of each study the ranks, and the values of its knobs: about ten combinations.
VALUES: Mapping[str, tuple[int, Mapping[str, tuple[Value, ...]]]] = {
    "chainer_mnist": (4, {"omp_threads": (1, 2), "iterator_workers": (1, 2, 4, 8, 16)}),
    "chainer_imagenet": (
        2,
        {"omp_threads": (1, 2), "opencv_threads": (1, 4), "iterator_workers": (1, 4)},
    ),
}


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: the correlation of the ranks (Python 3.12 has it)."""
    return statistics.correlation(_ranks(a), _ranks(b))


def _ranks(values: Sequence[float]) -> list[float]:
    """Each value's rank; equal ones share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def main() -> int:
    """Measure the studies; 1 if a target is missed."""
    results = [_compared(study, *how) for study, how in VALUES.items()]
    return int(not all(results))


def _compared(study: str, ranks: int, values: Mapping[str, tuple[Value, ...]]) -> bool:
    """Measure, print a line a setting, and the targets; True if they are met."""
    name = f"{study}_{ranks}"
    spec = spec_of(study, mpi_procs=ranks, name=name, oversubscription=1e6)
    live, cold = swept(spec, "on", values), swept(spec, "off", values)
    cold_s, live_s = cold.elapsed_s(), live.elapsed_s(_proof(live, cold))
    both = [setting for setting in cold_s if setting in live_s]
    runs = _pairs(both, cold_s, live_s)
    paces = _pairs(both, cold.pace_s(), live.pace_s())
    print("      a run: live, cold, s        an iteration: live, cold, ms")
    for place in sorted(range(len(both)), key=lambda n: runs[n]):
        cells = [
            f"{b / a - 1:+7.1%} {b * unit:8.2f} {a * unit:8.2f}"
            for (a, b), unit in ((runs[place], 1), (paces[place], 1e3))
        ]
        print(*cells, both[place], sep="    ")
    lost = len(cold_s) - len(both)
    print(f"{len(both)} settings of {study} with {ranks} ranks, {lost} only cold")
    print(f"  all windows took {live.wall_s:.0f} s in {live.jobs} jobs, cold {cold.wall_s:.0f} s")
    _say_among_themselves(cold_s)
    return _agree("a run", runs) & _agree("an iteration", paces)


def _proof(live: Swept, cold: Swept) -> list[LaunchRecord]:
    """The launches of the best and of the slowest by windows: a study's windows are scaled by
    those of its confirmation, of the best and the baseline."""
    paces_s = live.pace_s()
    order = sorted(paces_s, key=lambda setting: statistics.median(paces_s[setting]))
    return [record for record in cold.records if record.setting in (order[0], order[-1])]


def _agree(what: str, pairs: Sequence[tuple[float, float]]) -> bool:
    """Print how windows (the second of each pair) agree with launches; True if well enough."""
    correlation = rank_correlation(*zip(*pairs, strict=True))
    logs = [(math.log(cold_s), math.log(live_s)) for cold_s, live_s in pairs]
    of_logs = statistics.correlation(*zip(*logs, strict=True))
    off = [live_s / cold_s - 1 for cold_s, live_s in pairs]
    bias = statistics.median(off)
    good = correlation >= LEAST_CORRELATION, abs(bias) <= MOST_BIAS
    said = ["met" if each else "MISSED" for each in good]
    print(
        f"  {what:12} rank correlation {correlation:.3f} (>= {LEAST_CORRELATION}) {said[0]},"
        f" of logarithms {of_logs:.3f};"
        f" median bias {bias:+.1%} (<= {MOST_BIAS:.0%}) {said[1]},"
        f" worst {max(off, key=abs):+.1%}"
    )
    return all(good)


def _say_among_themselves(cold: Mapping[Setting, Sequence[float]]) -> None:
    """Print how launches agree with launches: windows can do no better."""
    halves = [(runs[::2], runs[1::2]) for runs in cold.values() if len(runs) > 1]
    if len(halves) > 1:
        first, second = zip(*([statistics.median(h) for h in both] for both in halves), strict=True)
        correlation = rank_correlation(first, second)
        print(f"  launches among themselves, one half of them and the other: {correlation:.3f}")


def _pairs(
    settings: Sequence[Setting],
    cold: Mapping[Setting, list[float]],
    live: Mapping[Setting, list[float]],
) -> list[tuple[float, float]]:
    """The medians of each setting: cold, live."""
    return [(statistics.median(cold[each]), statistics.median(live[each])) for each in settings]


# --- the measurements --------------------------------------------------------------------------


@dataclass(frozen=True)
class Swept:
    """What was measured: those that count, what all took, s, and how many jobs had windows."""

    records: tuple[LaunchRecord, ...]
    wall_s: float
    jobs: int

    def elapsed_s(self, others: Sequence[LaunchRecord] = ()) -> Mapping[Setting, list[float]]:
        """The figures of each setting, s a run; windows by the scale of what else was launched."""
        mine = {id(record) for record in self.records}
        scaled = rescaled((*self.records, *others), LOGGED_TIME)
        pairs = zip((*self.records, *others), scaled, strict=True)
        return _by_setting(
            (after, sample.elapsed_s)
            for before, after in pairs
            if id(before) in mine
            for sample in after.outcome.samples
        )

    def pace_s(self) -> Mapping[Setting, list[float]]:
        """Seconds an iteration of each setting, without evaluations and the first ones."""
        return _by_setting((record, _pace_s(record)) for record in self.records)


def _by_setting(
    figures: Iterable[tuple[LaunchRecord, float]],
) -> Mapping[Setting, list[float]]:
    by_setting: dict[Setting, list[float]] = {}
    for record, figure in figures:
        by_setting.setdefault(record.setting, []).append(figure)
    return by_setting


def swept(spec: StudySpec, live: Live, values: Mapping[str, tuple[Value, ...]]) -> Swept:
    """Measure all combinations of these values of the spec's knobs.

    What was measured before under this name is not measured again: a sweep that was
    interrupted goes on. ``TUNE_STORAGE`` says where.
    """
    knobs = tuple(
        replace(knob, domain=Choice(values[knob.name]), when=())
        for knob in spec.knobs
        if knob.name in values
    )
    spec = replace(spec, knobs=knobs, live=live, confirm="none", name=f"{spec.name}_{live}")
    tune(spec, policy=EverySetting(RUNS, Purpose.SEARCH))
    with Store.open(resolve_url(None, os.environ), create=False) as store:
        records = store.launches(spec.name, detail=False)
    counted = [r for r in records if r.purpose.stage.is_evidence]
    jobs = {r.outcome.window.job for r in counted if r.outcome.window is not None}
    kept = tuple(record for record in evidence.counted(records) if record.outcome.samples)
    return Swept(kept, sum(r.outcome.wall_s for r in counted), len(jobs))


def _pace_s(record: LaunchRecord) -> float:
    if record.outcome.window is not None:
        return record.outcome.window.pace_s
    pace_s = usual_s(record.outcome.progress)
    assert pace_s is not None, "the log of a launch has one entry"
    return pace_s


if __name__ == "__main__":
    sys.exit(main())
