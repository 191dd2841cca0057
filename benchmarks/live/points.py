"""The same settings in windows of running jobs and in launches of their own."""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import pictures
from benchmarks.live.sweep import Swept, spec_of, swept
from tuner.model import LaunchRecord, Setting, Value

LEAST_CORRELATION = 0.9
MOST_BIAS = 0.05

#: The studies that are measured if none is named.
STUDIES = ("chainer_mnist", "chainer_imagenet")

#: Of each study the ranks, and the values of its knobs: about ten combinations.
VALUES: Mapping[str, tuple[int, Mapping[str, tuple[Value, ...]]]] = {
    "chainer_mnist": (4, {"omp_threads": (1, 2), "iterator_workers": (1, 2, 4, 8, 16)}),
    "chainer_imagenet": (
        2,
        {"omp_threads": (1, 2), "opencv_threads": (1, 4), "iterator_workers": (1, 4)},
    ),
    "torch_ddp": (
        4,
        {"omp_threads": (1, 2), "iterator_workers": (1, 2, 4), "prefetch": (1, 4)},
    ),
}


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Spearman's: the correlation of the ranks (Python 3.12 has it)."""
    return statistics.correlation(_ranks(a), _ranks(b))


def _ranks(values: Sequence[float]) -> list[float]:
    """Each value's rank; equal ones share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def main(options: argparse.Namespace) -> bool:
    """Measure the studies; True if the targets are met."""
    found = [_compared(study, options) for study in options.study or STUDIES]
    return all(found)


def _compared(study: str, options: argparse.Namespace) -> bool:
    """Measure, print a line a setting, and the targets; True if they are met."""
    ranks, values = VALUES[study]
    spec = spec_of(study, ranks)
    live = swept(spec, "on", values, options.runs)
    cold = swept(spec, "off", values, options.runs)
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
    good = _agree("a run", runs) & _agree("an iteration", paces)
    if options.picture:
        draw(both, runs, options.picture.with_stem(f"{options.picture.stem}-{study}"))
    return good


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
    print(
        f"  {what:12} rank correlation {correlation:.3f} (>= {LEAST_CORRELATION}) {_said(good[0])},"
        f" of logarithms {of_logs:.3f};"
        f" median bias {bias:+.1%} (<= {MOST_BIAS:.0%}) {_said(good[1])},"
        f" worst {max(off, key=abs):+.1%}"
    )
    return all(good)


def _say_among_themselves(cold: Mapping[Setting, Sequence[float]]) -> None:
    """Print how launches agree with launches: windows can do no better."""
    halves = [(runs[::2], runs[1::2]) for runs in cold.values() if len(runs) > 1]
    if len(halves) > 1:
        first, second = zip(*([statistics.median(h) for h in both] for both in halves), strict=True)
        found = rank_correlation(first, second)
        print(f"  launches among themselves, one half of them and the other: {found:.3f}")


def _pairs(
    settings: Sequence[Setting],
    cold: Mapping[Setting, list[float]],
    live: Mapping[Setting, list[float]],
) -> list[tuple[float, float]]:
    """The medians of each setting: cold, live."""
    return [(statistics.median(cold[each]), statistics.median(live[each])) for each in settings]


def draw(settings: Sequence[Setting], pairs: Sequence[tuple[float, float]], path: Path) -> None:
    """Live over cold, both axes logarithmic, a point a setting."""
    import plotly.graph_objects as go

    cold, live = zip(*pairs, strict=True)
    made = go.Figure()
    threads = sorted({setting.as_dict()["omp_threads"] for setting in settings})
    for value in threads:
        chosen = [n for n, s in enumerate(settings) if s.as_dict()["omp_threads"] == value]
        made.add_scatter(
            x=[cold[n] for n in chosen],
            y=[live[n] for n in chosen],
            text=[str(settings[n]) for n in chosen],
            mode="markers",
            name=f"omp_threads {value}",
        )
    ends = [min(*cold, *live) * 0.9, max(*cold, *live) * 1.1]
    made.add_scatter(x=ends, y=ends, mode="lines", name="the same", line={"dash": "dot"})
    made.update_layout(
        template="plotly_white",
        xaxis={"title": "cold launch, s", "type": "log"},
        yaxis={"title": "window of a running job, scaled to a launch, s", "type": "log"},
        margin={"t": 20, "r": 20},
    )
    pictures.write(made, path, width=800, height=600)


def _said(good: bool) -> str:
    return "met" if good else "MISSED"
