"""The search's history: launches in their order, what led, what was stopped, failed, confirmed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tuner.model import JsonDict, ObjectiveSpec, Purpose, figures, wording
from tuner.results.report.plots import runs, style
from tuner.results.report.plots.figure import Figure, Table
from tuner.results.report.plots.runs import Run
from tuner.results.study_view import StudyView

#: A shape for each kind of failure, the most frequent first; the rest share the last one.
_SHAPES = ("x", "cross", "star", "hash-open", "asterisk-open")

#: Fewer dots than this can be larger.
_FEW = 60

_TITLE = "The search, launch by launch"


def build(data: StudyView) -> list[Figure]:
    """One figure, where anything was launched."""
    shown = runs.counted(data)
    if not shown:
        return [Figure("history", _TITLE, "Nothing was launched yet that counts.")]
    objective = data.spec.objective
    drawing = _drawing(objective, shown)
    return [
        Figure("history", _TITLE, _summary(objective, shown), drawing, _table(objective, shown))
    ]


def _summary(objective: ObjectiveSpec, shown: list[Run]) -> str:
    cut = sum(run.stopped is not None for run in shown)
    kinds = Counter(str(run.failure.kind) for run in shown if run.failure is not None)
    parts = [wording.count(len(shown), "launch", "launches") + " that count"]
    windows = sum(run.job is not None for run in shown)
    if windows:
        parts.append(f"{wording.count(windows, 'window')} of running jobs among them")
    if cut:
        parts.append(f"{cut} stopped early")
    parts += [f"{number} failed ({kind})" for kind, number in kinds.most_common()]
    leads = _leads(shown)
    last = ""
    if leads:
        number, cost = leads[-1]
        last = f" Launch {number} was the fastest run, with {figures.shown(objective, cost)}."
    return f"{', '.join(parts)}.{last}"


def _leads(shown: list[Run]) -> list[tuple[int, float]]:
    """The launches that were faster than every one before, with their time."""
    made: list[tuple[int, float]] = []
    for run in shown:
        if run.cost is not None and (not made or run.cost < made[-1][1]):
            made.append((run.number, run.cost))
    return made


def _drawing(objective: ObjectiveSpec, shown: list[Run]) -> JsonDict:
    costs = [run.known for run in shown if run.known]
    axis = style.measure_axis(costs, objective)
    places = [objective.figure(cost) for cost in costs]
    floor = 0.8 * min(places, default=1.0) if axis.get("type") == "log" else 0.0
    bound = style.bound(objective)
    ended = [run for run in shown if run.cost]
    stopped = [run for run in shown if run.stopped is not None and run.known]
    going = [run for run in stopped if run.is_projected]
    stopped = [run for run in stopped if not run.is_projected]
    traces = [
        _known(objective, _others(ended), "a setting", style.OTHER, "circle"),
        _known(objective, _own(ended), "defaults", style.BASELINE, "circle"),
        _known(objective, _others(going), "stopped, projected", style.OTHER, "circle-open"),
        _known(objective, _own(going), "defaults, projected", style.BASELINE, "circle-open"),
        _known(objective, _others(stopped), "stopped, no better", style.OTHER, bound),
        _known(objective, _own(stopped), "defaults, stopped", style.BASELINE, bound),
        _incumbent(objective, shown),
        *_failures(objective, shown, floor),
    ]
    layout = style.layout(
        400,
        xaxis={"title": {"text": "launch"}, "zeroline": False, **_whole(shown)},
        yaxis=axis,
        shapes=[*_defaults_line(objective, _own(ended)), *_confirmation(shown)],
    )
    return {"data": [trace for trace in traces if trace["x"]], "layout": layout}


def _own(shown: list[Run]) -> list[Run]:
    """Those of the defaults."""
    return [run for run in shown if run.is_default]


def _others(shown: list[Run]) -> list[Run]:
    return [run for run in shown if not run.is_default]


def _whole(shown: list[Run]) -> JsonDict:
    """Ticks of an axis of numbers: no half launches where there are few."""
    return {"dtick": 1} if shown[-1].number - shown[0].number < 10 else {}


def _known(
    objective: ObjectiveSpec, every: list[Run], name: str, colour: str, symbol: str
) -> JsonDict:
    shown = style.thinned(every)
    places = [style.at(objective, run.known) for run in shown]
    return _marks(objective, shown, places, name, style.marker(colour, symbol, _size(shown)))


def _size(shown: list[Run]) -> int:
    return 9 if len(shown) < _FEW else 6


def _failures(objective: ObjectiveSpec, shown: list[Run], floor: float) -> list[JsonDict]:
    """One trace a kind, on the lower edge: a failure has no figure."""
    kinds: dict[str, list[Run]] = {}
    for run in shown:
        if run.failure is not None:
            kinds.setdefault(str(run.failure.kind), []).append(run)
    ranked = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))
    made = []
    for place, (kind, found) in enumerate(ranked):
        few = style.thinned(found, 100)
        symbol = _SHAPES[min(place, len(_SHAPES) - 1)]
        marker = style.marker(style.FAILED, symbol, _size(few))
        made.append(_marks(objective, few, [floor] * len(few), kind, marker))
    return made


def _marks(
    objective: ObjectiveSpec,
    shown: list[Run],
    places: Sequence[float | None],
    name: str,
    marker: JsonDict,
) -> JsonDict:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": style.inert(name),
        "x": [run.number for run in shown],
        "y": list(places),
        "marker": marker,
        "cliponaxis": False,
        "hoverinfo": "text",
        "hovertext": [
            f"launch {run.number} ({run.made_for}): {style.inert(runs.said(objective, run))}"
            f"<br>{style.short(run.setting)}"
            for run in shown
        ],
    }


def _incumbent(objective: ObjectiveSpec, shown: list[Run]) -> JsonDict:
    leads = _leads(shown)
    ends = [*leads, (shown[-1].number, leads[-1][1])] if leads else []
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "fastest run so far",
        "x": [number for number, _ in ends],
        "y": [style.at(objective, cost) for _, cost in ends],
        "line": {"shape": "hv", "color": style.BEST, "width": 2},
        "hoverinfo": "skip",
    }


def _defaults_line(objective: ObjectiveSpec, defaults: list[Run]) -> list[JsonDict]:
    """The median of the defaults, across."""
    costs = [run.cost for run in defaults if run.cost is not None]
    if not costs:
        return []
    place = style.at(objective, runs.centre(costs).median)
    return [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": place,
            "y1": place,
            "line": {"color": style.BASELINE, "dash": "dash", "width": 1.5},
        }
    ]


def _confirmation(shown: list[Run]) -> list[JsonDict]:
    """A shade behind the launches of the confirmation."""
    numbers = [run.number for run in shown if run.purpose is Purpose.CONFIRM]
    if not numbers:
        return []
    return [
        {
            "type": "rect",
            "yref": "paper",
            "x0": min(numbers) - 0.5,
            "x1": max(numbers) + 0.5,
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "fillcolor": style.BEST,
            "opacity": 0.12,
            "layer": "below",
            "label": {"text": "confirmation", "textposition": "top center"},
        }
    ]


def _table(objective: ObjectiveSpec, shown: list[Run]) -> Table:
    return Table.of(
        ("launch", "for", "result", "setting"),
        [(str(r.number), r.made_for, runs.said(objective, r), str(r.setting)) for r in shown],
    )
