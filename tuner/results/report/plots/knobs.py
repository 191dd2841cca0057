"""Time against each knob: every run, and a line through the fastest setting of each value."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.model import JsonDict, Measurement, ObjectiveSpec, Value, figures, wording
from tuner.results.report.plots import runs, style, varied
from tuner.results.report.plots.figure import Figure, Table
from tuner.results.report.plots.runs import Run
from tuner.results.study_view import StudyView

#: Knobs that are shown at once.
SHOWN = 4

#: Points of a kind in one figure: there may be a dozen of these figures.
_MOST = 200

#: Fewer dots than this can be larger.
_FEW = 60


def build(data: StudyView, weights: Mapping[str, float]) -> list[Figure]:
    """One figure a varied knob, the weightiest first."""
    names = varied.knobs(data, weights)
    everything = [run for run in runs.counted(data) if run.going and not run.setting.is_baseline]
    return [
        _figure(data, name, everything, place, is_extra=place >= SHOWN)
        for place, name in enumerate(names)
    ]


def _figure(
    data: StudyView, name: str, everything: list[Run], place: int, *, is_extra: bool
) -> Figure:
    objective = data.spec.objective
    fastest = varied.fastest(data, name)
    values = style.ordered(value for (value,) in fastest)
    at = {value: number for number, value in enumerate(values)}
    shown = [
        (at[value], run)
        for run in everything
        if (value := run.setting.as_dict().get(name)) in at and value is not None
    ]
    found = [fastest[(value,)] for value in values]
    layout = style.layout(
        340,
        xaxis=style.value_axis(name, values),
        yaxis=style.measure_axis([run.going for _, run in shown if run.going], objective),
    )
    return Figure(
        f"knob-{place}",
        f"{wording.capital(figures.title(objective))} against {name}",
        _summary(data, name, values, found),
        {"data": _traces(objective, found, shown), "layout": layout},
        _table(objective, name, values, found),
        is_extra,
    )


def _summary(data: StudyView, name: str, values: list[Value], found: list[Measurement]) -> str:
    objective, place = data.spec.objective, varied.first(data, varied.fastest(data, name))
    ranked = sorted(
        zip(values, found, strict=True),
        key=lambda pair: ((pair[0],) != place, varied.rank(pair[1])),
    )
    (first, best), (last, worst) = ranked[0], ranked[-1]
    which = "fastest" if place is None else "best"
    return (
        f"The {which} setting with {name}={first}: {runs.typical(objective, best)};"
        f" the fastest with {name}={last}: {runs.typical(objective, worst)}."
        f"{varied.caution(data, found)}"
        " The line joins the fastest setting of each value, with its interval."
    )


def _traces(
    objective: ObjectiveSpec, found: list[Measurement], shown: list[tuple[int, Run]]
) -> list[JsonDict]:
    ended = [(at, run) for at, run in shown if run.cost is not None]
    stopped = [(at, run) for at, run in shown if run.stopped is not None]
    going = [(at, run) for at, run in stopped if not run.is_bound]
    bounds = [(at, run) for at, run in stopped if run.is_bound]
    made = [
        _line(objective, found),
        _dots(objective, ended, "a run", "circle"),
        _dots(objective, going, "stopped, projected", "circle-open"),
        _dots(objective, bounds, "stopped, no better", style.bound(objective)),
    ]
    return [trace for trace in made if trace["x"]]


def _line(objective: ObjectiveSpec, found: list[Measurement]) -> JsonDict:
    centres = {
        at: runs.centre([sample.elapsed_s for sample in each.samples])
        for at, each in enumerate(found)
        if each.elapsed_s is not None
    }
    middle = [objective.figure(each.median) for each in centres.values()]
    lows, highs = (
        [objective.figure(runs.ends(objective, each)[side]) for each in centres.values()]
        for side in (0, 1)
    )
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "fastest setting",
        "x": list(centres),
        "y": middle,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [high - each for high, each in zip(highs, middle, strict=True)],
            "arrayminus": [each - low for low, each in zip(lows, middle, strict=True)],
        },
        "line": {"color": style.BEST, "width": 2},
        "marker": {"size": 8, "color": style.BEST},
        "hoverinfo": "text",
        "hovertext": [
            f"{style.inert(runs.spelled(objective, each))}<br>{style.short(found[at].setting)}"
            for at, each in centres.items()
        ],
    }


def _dots(
    objective: ObjectiveSpec, every: list[tuple[int, Run]], name: str, symbol: str
) -> JsonDict:
    shown = style.thinned(every, _MOST)
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [at + style.spread(number) for number, (at, _) in enumerate(shown)],
        "y": [style.at(objective, run.going) for _, run in shown],
        "marker": style.marker(style.OTHER, symbol, 7 if len(shown) < _FEW else 5),
        "hoverinfo": "text",
        "hovertext": [
            f"launch {run.number}: {style.inert(runs.said(objective, run))}" for _, run in shown
        ],
    }


def _table(
    objective: ObjectiveSpec, name: str, values: list[Value], found: list[Measurement]
) -> Table:
    return Table.of(
        (name, "fastest setting", "runs", "with"),
        [
            (
                str(value),
                runs.typical(objective, each),
                str(len(each.samples)),
                " ".join(f"{k}={v}" for k, v in each.setting.items if k != name),
            )
            for value, each in zip(values, found, strict=True)
        ],
    )
