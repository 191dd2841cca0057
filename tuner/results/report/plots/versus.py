"""Best against baseline: every run as a dot, the medians, the proven ratio in words."""

from __future__ import annotations

from tuner.model import JsonDict, ObjectiveSpec, figures, wording
from tuner.results import claims
from tuner.results.report.plots import runs, style
from tuner.results.report.plots.figure import Figure, Table
from tuner.results.report.plots.runs import Run, Side
from tuner.results.study_view import StudyView

_TITLE = "Best against your defaults"


def build(data: StudyView) -> list[Figure]:
    """One figure, where anything was measured."""
    objective = data.spec.objective
    sides = [side for side in runs.sides(data) if any(run.known for run in side.runs)]
    if not sides:
        said = "No launch of the defaults or of a setting came to a result."
        return [Figure("versus", _TITLE, said)]
    told = [
        claims.comparison(data.result),
        *(f"{side.name}: {_told(objective, side)}" for side in sides),
    ]
    summary = " ".join(f"{wording.capital(each)}." for each in told)
    return [Figure("versus", _TITLE, summary, _drawing(objective, sides), _table(objective, sides))]


def _told(objective: ObjectiveSpec, side: Side) -> str:
    costs = [run.cost for run in side.runs if run.cost is not None]
    cut = [run for run in side.runs if run.stopped is not None]
    parts = [f"median {runs.spelled(objective, runs.centre(costs))}"] if costs else []
    if cut:
        parts.append(f"{wording.count(len(cut), 'run')} stopped early")
    return ", ".join(parts)


def _drawing(objective: ObjectiveSpec, sides: list[Side]) -> JsonDict:
    traces = [trace for at, side in enumerate(sides) for trace in _traces(objective, at, side)]
    costs = [run.known for side in sides for run in side.runs if run.known]
    layout = style.layout(
        90 + 90 * len(sides),
        xaxis=style.measure_axis(costs, objective),
        yaxis={
            "tickvals": list(range(len(sides))),
            "ticktext": [style.inert(side.name).replace(" that ", "<br>that ") for side in sides],
            "range": [len(sides) - 0.5, -0.5],
            "showgrid": False,
            "zeroline": False,
        },
        showlegend=False,
    )
    return {"data": traces, "layout": layout}


def _traces(objective: ObjectiveSpec, at: int, side: Side) -> list[JsonDict]:
    ended = style.thinned([run for run in side.runs if run.cost is not None])
    cut = style.thinned([run for run in side.runs if run.stopped is not None and run.known])
    going = [run for run in cut if run.is_projected]
    bounds = [run for run in cut if not run.is_projected]
    made = [
        _dots(objective, at, ended, side.colour, "circle"),
        _dots(objective, at, going, side.colour, "circle-open"),
        _dots(objective, at, bounds, side.colour, style.bound(objective, is_sideways=True)),
    ]
    if ended:
        found = runs.centre([run.cost for run in ended if run.cost is not None])
        made += [_median(objective, at, found, side.colour)]
    return [trace for trace in made if trace["x"]]


def _dots(
    objective: ObjectiveSpec, at: int, shown: list[Run], colour: str, symbol: str
) -> JsonDict:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [style.at(objective, run.known) for run in shown],
        "y": [at + style.spread(number) for number in range(len(shown))],
        "marker": style.marker(colour, symbol, 9),
        "hoverinfo": "text",
        "hovertext": [
            f"launch {run.number}: {style.inert(runs.said(objective, run))}" for run in shown
        ],
    }


def _median(objective: ObjectiveSpec, at: int, found: runs.Centre, colour: str) -> JsonDict:
    """A bar across the dots."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [style.at(objective, found.median)] * 2,
        "y": [at - 0.32, at + 0.32],
        "line": {"color": colour, "width": 3},
        "hoverinfo": "text",
        "hovertext": style.inert(f"median {runs.spelled(objective, found)}"),
    }


def _table(objective: ObjectiveSpec, sides: list[Side]) -> Table:
    return Table.of(
        ("", "launch", figures.title(objective)),
        [
            (side.name, str(run.number), runs.said(objective, run))
            for side in sides
            for run in side.runs
        ],
    )
