"""Figures of the space: the weight of each knob, the time against each, and each pair of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations

from tuner.model import JsonDict, Measurement, ObjectiveSpec, Value, figures, wording
from tuner.results.report.plots import runs, style
from tuner.results.report.plots.runs import DrawnRun
from tuner.results.report.plots.style import Figure, Table
from tuner.results.study_view import StudyView

Cells = dict[tuple[Value, Value], Measurement]

#: Knobs, and pairs of them, that are shown at once; the knobs of which pairs are made at all.
SHOWN_KNOBS, SHOWN_PAIRS, MOST_PAIRED = 4, 2, 8

#: Dots of a kind in one figure (there may be a dozen of these); fewer than ``_FEW`` can be larger.
_MOST, _FEW = 200, 60

#: Cells a side in which a time can still be read.
_READABLE = 8


# --- what was varied -------------------------------------------------------------------------


def varied(data: StudyView, weights: Mapping[str, float]) -> list[str]:
    """The knobs with more than one value among the settings with a time, the weightiest first."""
    values: dict[str, set[Value]] = {}
    for measurement in _timed(data):
        for name, value in measurement.setting.items:
            values.setdefault(name, set()).add(value)
    order = [knob.name for knob in data.spec.knobs]
    names = [name for name in order if len(values.get(name, ())) > 1]
    return sorted(names, key=lambda n: (-weights.get(n, 0.0), -len(values[n]), order.index(n)))


def _timed(data: StudyView) -> list[Measurement]:
    """The settings with a time, or with where they were going, the fastest first.

    The defaults are left out. The study's best is in front: what looks faster is not proven.
    """
    timed = [m for m in data.measurements if m.typical_s is not None and not m.setting.is_baseline]
    return sorted(timed, key=lambda m: not _is_best(data, m))


def _fastest(data: StudyView, *names: str) -> dict[tuple[Value, ...], Measurement]:
    """By the values of these knobs the fastest setting that has them, in the same order."""
    fastest: dict[tuple[Value, ...], Measurement] = {}
    for measurement in _timed(data):
        values = measurement.setting.as_dict()
        if all(name in values for name in names):
            fastest.setdefault(tuple(values[name] for name in names), measurement)
    return fastest


def _is_best(data: StudyView, measurement: Measurement) -> bool:
    best = data.result.candidate
    return (
        best is not None
        and measurement.elapsed_s is not None
        and measurement.setting == best.setting
    )


def _caution(data: StudyView, measurements: Iterable[Measurement]) -> str:
    """A sentence if one of these looks faster than the study's best; else empty."""
    best = data.result.candidate
    if best is None or best.elapsed_s is None:
        return ""
    faster = [m for m in measurements if m.elapsed_s and m.elapsed_s < best.elapsed_s]
    if not faster:
        return ""
    if all(len(m.samples) < len(best.samples) for m in faster):
        return " What looks faster than the best was launched less often."
    return " What looks faster than the best was not so when both were compared."


# --- the weight of each knob -----------------------------------------------------------------


def importance(weights: Mapping[str, float]) -> list[Figure]:
    """How much each knob matters, as Optuna estimates it; words if too few settings tell."""
    title = "How much each knob matters"
    if not weights:
        said = "Too few settings have a time, or no knob was varied: nothing is estimated."
        return [Figure("importance", title, said)]
    ranked = sorted(weights.items(), key=lambda item: -item[1])
    name, share = ranked[0]
    summary = (
        f"{name} matters most: {100 * share:.0f} % of what tells fast settings from slow ones,"
        " estimated by PED-ANOVA."
    )
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": [share for _, share in ranked],
        "y": list(range(len(ranked))),
        "text": [f"{share:.0%}" for _, share in ranked],
        "textposition": "auto",
        "marker": {"color": style.BEST},
        "hoverinfo": "text",
        "hovertext": [f"{style.inert(name)}: {share:.1%}" for name, share in ranked],
    }
    drawing = style.drawing(
        [bars],
        90 + 30 * len(ranked),
        xaxis={"tickformat": ".0%", "range": [0, 1], "title": {"text": "share"}},
        yaxis=style.row_axis([style.inert(name, 24) for name, _ in ranked]),
        showlegend=False,
    )
    table = Table.of(("knob", "share"), [(knob, f"{part:.1%}") for knob, part in ranked])
    return [Figure("importance", title, summary, drawing, table)]


# --- time against each knob ------------------------------------------------------------------


def knobs(data: StudyView, weights: Mapping[str, float]) -> list[Figure]:
    """A figure a varied knob: every run, and a line through the fastest setting of each value."""
    every = [run for run in runs.counted(data) if run.going and not run.setting.is_baseline]
    return [_knob(data, name, every, at) for at, name in enumerate(varied(data, weights))]


def _knob(data: StudyView, name: str, every: list[DrawnRun], place: int) -> Figure:
    objective, fastest = data.spec.objective, _fastest(data, name)
    values = style.ordered(value for (value,) in fastest)
    at = {value: number for number, value in enumerate(values)}
    dots = [
        (at[value], run)
        for run in every
        if (value := run.setting.as_dict().get(name)) in at and value is not None
    ]
    measurements = [fastest[(value,)] for value in values]
    ((first,), best), *_, ((last,), worst) = fastest.items()
    which = "best" if _is_best(data, best) else "fastest"
    summary = (
        f"The {which} setting with {name}={first}: {runs.typical(objective, best)};"
        f" the fastest with {name}={last}: {runs.typical(objective, worst)}."
        f"{_caution(data, measurements)}"
        " The line joins the fastest setting of each value, with its interval."
    )
    ended = [(x, run) for x, run in dots if run.cost is not None]
    cut = [(x, run) for x, run in dots if run.stopped is not None]
    going = [(x, run) for x, run in cut if not run.is_bound]
    bounds = [(x, run) for x, run in cut if run.is_bound]
    drawing = style.drawing(
        [
            _line(objective, measurements),
            _dots(objective, ended, "a run", "circle"),
            _dots(objective, going, "stopped, projected", "circle-open"),
            _dots(objective, bounds, "stopped, no better", style.bound(objective)),
        ],
        340,
        xaxis=style.value_axis(name, values),
        yaxis=style.measure_axis([run.going for _, run in dots if run.going], objective),
    )
    rows = [
        (
            str(value),
            runs.typical(objective, measurement),
            str(len(measurement.samples)),
            " ".join(f"{k}={v}" for k, v in measurement.setting.items if k != name),
        )
        for value, measurement in zip(values, measurements, strict=True)
    ]
    table = Table.of((name, "fastest setting", "runs", "with"), rows)
    title = f"{wording.capital(figures.title(objective))} against {name}"
    return Figure(f"knob-{place}", title, summary, drawing, table, place >= SHOWN_KNOBS)


def _line(objective: ObjectiveSpec, measurements: list[Measurement]) -> JsonDict:
    centres = {
        at: runs.centre([sample.elapsed_s for sample in measurement.samples])
        for at, measurement in enumerate(measurements)
        if measurement.elapsed_s is not None
    }
    middle = [objective.figure(centre.median) for centre in centres.values()]
    lows, highs = (
        [objective.figure(runs.ends(objective, centre)[side]) for centre in centres.values()]
        for side in (0, 1)
    )
    said = (
        f"{style.inert(runs.spelled(objective, centre))}<br>{style.short(measurements[at].setting)}"
        for at, centre in centres.items()
    )
    error = {
        "type": "data",
        "symmetric": False,
        "array": [high - median for high, median in zip(highs, middle, strict=True)],
        "arrayminus": [median - low for low, median in zip(lows, middle, strict=True)],
    }
    return style.scatter(
        "lines+markers",
        centres,
        middle,
        said,
        name="fastest setting",
        error_y=error,
        line={"color": style.BEST, "width": 2},
        marker={"size": 8, "color": style.BEST, "symbol": "diamond"},
    )


def _dots(
    objective: ObjectiveSpec, every: list[tuple[int, DrawnRun]], name: str, symbol: str
) -> JsonDict:
    shown = style.thinned(every, _MOST)
    return style.scatter(
        "markers",
        (at + style.spread(number) for number, (at, _) in enumerate(shown)),
        (style.at(objective, run.going) for _, run in shown),
        (f"launch {run.number}: {style.inert(runs.said(objective, run))}" for _, run in shown),
        name=name,
        marker=style.marker(style.OTHER, symbol, 7 if len(shown) < _FEW else 5),
    )


# --- each pair of knobs ----------------------------------------------------------------------


def pairs(data: StudyView, weights: Mapping[str, float]) -> list[Figure]:
    """A heat map a pair of the weightiest knobs: a cell is the fastest setting with both values."""
    order = [knob.name for knob in data.spec.knobs]
    chosen = varied(data, weights)[:MOST_PAIRED]
    heat_maps: list[Figure] = []
    for first, second in sorted(
        combinations(chosen, 2), key=lambda pair: chosen.index(pair[0]) + chosen.index(pair[1])
    ):
        up, across = sorted((first, second), key=order.index)
        cells: Cells = {(a, b): m for (a, b), m in _fastest(data, across, up).items()}
        if min(len({key[place] for key in cells}) for place in (0, 1)) >= 2:
            heat_maps.append(_pair(data, across, up, cells, len(heat_maps)))
    return heat_maps


def _pair(data: StudyView, across: str, up: str, cells: Cells, place: int) -> Figure:
    objective = data.spec.objective
    (a, b), best = next(iter(cells.items()))
    which = "best" if _is_best(data, best) else "fastest"
    summary = (
        f"Of {wording.count(len(cells), 'pair')} of values the {which} is {up}={b} with"
        f" {across}={a}: {figures.typical(objective, best)}."
        f"{_caution(data, cells.values())} A cell is the fastest setting with"
        " both values; ~ is projected, > at least: stopped early."
    )
    rows = [
        (str(b), str(a), figures.typical(objective, m), str(len(m.samples)))
        for (a, b), m in cells.items()
    ]
    table = Table.of((up, across, "fastest setting", "runs"), rows)
    drawing = _heat(objective, across, up, cells)
    return Figure(
        f"pair-{place}", f"{up} and {across}", summary, drawing, table, place >= SHOWN_PAIRS
    )


def _heat(objective: ObjectiveSpec, across: str, up: str, cells: Cells) -> JsonDict:
    columns, rows = (style.ordered(key[place] for key in cells) for place in (0, 1))
    grid = [[cells.get((column, row)) for column in columns] for row in rows]
    # Ratios count, not differences: one projection of minutes would take all colours otherwise.
    shades = [[math.log10(m.typical_s) if m and m.typical_s else None for m in row] for row in grid]
    levels = [shade for row in shades for shade in row if shade is not None]
    low, high = min(levels), max(levels)
    ticks = [low + (high - low) * step / 3 for step in range(4)] if high > low else [low]
    heat: JsonDict = {
        "type": "heatmap",
        "x": list(range(len(columns))),
        "y": list(range(len(rows))),
        "z": shades,
        "colorscale": [[at / (len(style.SCALE) - 1), c] for at, c in enumerate(style.SCALE)],
        "reversescale": True,
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
        "hoverinfo": "text",
        "hovertext": [
            ["" if m is None else style.inert(runs.typical(objective, m)) for m in row]
            for row in grid
        ],
        "colorbar": {
            "thickness": 10,
            "tickvals": ticks,
            "ticktext": [style.inert(figures.shown(objective, 10**tick)) for tick in ticks],
        },
    }
    if len(columns) <= _READABLE and len(rows) <= 2 * _READABLE:
        heat["text"] = [  # without the unit, which is beside the colours
            ["" if m is None else figures.typical(objective, m).partition(" ")[0] for m in row]
            for row in grid
        ]
        heat |= {"texttemplate": "%{text}", "textfont": {"color": style.ON_SCALE}}
    return style.drawing(
        [heat],
        min(640, 190 + 34 * len(rows)),
        xaxis={**style.value_axis(across, columns), "showgrid": False},
        yaxis={**style.value_axis(up, rows), "showgrid": False},
        showlegend=False,
    )
