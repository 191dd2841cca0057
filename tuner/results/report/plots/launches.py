"""Figures of the launches: best against baseline, and the search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tuner.model import JsonDict, ObjectiveSpec, Purpose, figures, wording
from tuner.results import claims
from tuner.results.report.plots import runs, style
from tuner.results.report.plots.runs import DrawnRun, Side
from tuner.results.report.plots.style import Figure, Table
from tuner.results.study_view import StudyView

#: A shape for each kind of failure, the most frequent first; the rest share the last one.
_SHAPES = ("x", "cross", "star", "hash-open", "asterisk-open")

#: Fewer dots than this can be larger.
_FEW = 60


# --- best against baseline -------------------------------------------------------------------


def versus(data: StudyView) -> list[Figure]:
    """Every run of best and baseline as a dot, the medians, the proven ratio in words."""
    title, objective = "Best against your defaults", data.spec.objective
    sides = [side for side in runs.sides(data) if any(run.known_cost for run in side.runs)]
    if not sides:
        said = "No launch of the defaults or of a setting came to a result."
        return [Figure("versus", title, said)]
    sentences = [claims.comparison(data.result)]
    for side in sides:
        costs = [run.cost for run in side.runs if run.cost is not None]
        cut = sum(run.stopped is not None for run in side.runs)
        parts = [f"median {runs.spelled(objective, runs.centre(costs))}"] if costs else []
        parts += [f"{wording.count(cut, 'run')} stopped early"] if cut else []
        sentences.append(f"{side.name}: {', '.join(parts)}")
    drawing = style.drawing(
        [trace for at, side in enumerate(sides) for trace in _versus_traces(objective, at, side)],
        90 + 90 * len(sides),
        xaxis=style.measure_axis(
            (r.known_cost for s in sides for r in s.runs if r.known_cost), objective
        ),
        yaxis=style.row_axis(
            [style.inert(side.name).replace(" that ", "<br>that ") for side in sides]
        ),
        showlegend=False,
    )
    rows = [(s.name, str(run.number), runs.said(objective, run)) for s in sides for run in s.runs]
    table = Table.of(("", "launch", figures.title(objective)), rows)
    summary = " ".join(f"{wording.capital(sentence)}." for sentence in sentences)
    return [Figure("versus", title, summary, drawing, table)]


def _versus_traces(objective: ObjectiveSpec, at: int, side: Side) -> list[JsonDict]:
    """The dots of a side by what is known of each, and its median as a bar across them."""
    traces = []
    for shown, symbol in _by_knowledge(side.runs, style.bound(objective, is_sideways=True)):
        few = style.thinned(shown)
        traces.append(
            style.scatter(
                "markers",
                (style.at(objective, run.known_cost) for run in few),
                (at + style.spread(number) for number in range(len(few))),
                (f"launch {run.number}: {style.inert(runs.said(objective, run))}" for run in few),
                marker=style.marker(side.colour, symbol, 9),
            )
        )
    costs = [run.cost for run in side.runs if run.cost is not None]
    if costs:
        centre = runs.centre(costs)
        said = style.inert(f"median {runs.spelled(objective, centre)}")
        place, line = style.at(objective, centre.median), {"color": side.colour, "width": 3}
        ends = (at - 0.32, at + 0.32)
        traces.append(style.scatter("lines", [place] * 2, ends, [said] * 2, line=line))
    return traces


def _by_knowledge(
    every: tuple[DrawnRun, ...] | list[DrawnRun], bound: str, ended: str = "circle"
) -> list[tuple[list[DrawnRun], str]]:
    """The runs that ended, those with a projection, those with a mere bound; with their marks."""
    cut = [run for run in every if run.stopped is not None and run.known_cost]
    return [
        ([run for run in every if run.cost is not None], ended),
        ([run for run in cut if run.is_projected], f"{ended}-open"),
        ([run for run in cut if not run.is_projected], bound),
    ]


# --- the search, launch by launch ------------------------------------------------------------


def history(data: StudyView) -> list[Figure]:
    """The launches in their order: what led, what was stopped, failed, confirmed."""
    title, objective, shown = (
        "The search, launch by launch",
        data.spec.objective,
        runs.counted(data),
    )
    if not shown:
        return [Figure("history", title, "Nothing was launched yet that counts.")]
    leads: list[tuple[int, float]] = []  # the launches that were faster than every one before
    for run in shown:
        if run.cost is not None and (not leads or run.cost < leads[-1][1]):
            leads.append((run.number, run.cost))
    rows = [(str(r.number), r.made_for, runs.said(objective, r), str(r.setting)) for r in shown]
    table = Table.of(("launch", "for", "result", "setting"), rows)
    summary = _history_summary(objective, shown, leads)
    return [Figure("history", title, summary, _history_drawing(objective, shown, leads), table)]


def _history_summary(
    objective: ObjectiveSpec, shown: list[DrawnRun], leads: list[tuple[int, float]]
) -> str:
    cut, windows = (
        sum(flags)
        for flags in zip(*((bool(r.stopped), r.job is not None) for r in shown), strict=True)
    )
    kinds = Counter(str(run.failure.kind) for run in shown if run.failure is not None)
    parts = [wording.count(len(shown), "launch", "launches") + " that count"]
    parts += [f"{wording.count(windows, 'window')} of running jobs among them"] if windows else []
    parts += [f"{cut} stopped early"] if cut else []
    parts += [f"{number} failed ({kind})" for kind, number in kinds.most_common()]
    if not leads:
        return f"{', '.join(parts)}."
    number, cost = leads[-1]
    fastest = f"Launch {number} was the fastest run, with {figures.shown(objective, cost)}."
    return f"{', '.join(parts)}. {fastest}"


def _history_drawing(
    objective: ObjectiveSpec, shown: list[DrawnRun], leads: list[tuple[int, float]]
) -> JsonDict:
    costs = [run.known_cost for run in shown if run.known_cost]
    axis = style.measure_axis(costs, objective)
    traces = []
    for whose, word, colour, shape, dot in (
        (False, "a setting", style.OTHER, "circle", ""),
        (True, "defaults", style.BASELINE, "square", "-dot"),
    ):
        own = [run for run in shown if run.is_default is whose]
        ended, going, bounds = _by_knowledge(own, style.bound(objective) + dot, shape)
        who = "defaults, " if whose else "stopped, "
        for (group, symbol), name in (
            (ended, word),
            (going, f"{who}projected"),
            (bounds, f"{who}{'stopped' if whose else 'no better'}"),
        ):
            few = style.thinned(group)
            points = [(run, style.at(objective, run.known_cost)) for run in few]
            traces.append(_marks(objective, points, name, colour, symbol))
    if leads:
        ends = [*leads, (shown[-1].number, leads[-1][1])]
        traces.append(
            style.scatter(
                "lines",
                (number for number, _ in ends),
                (style.at(objective, cost) for _, cost in ends),
                None,
                name="fastest run so far",
                line={"shape": "hv", "color": style.BEST, "width": 2},
            )
        )
    # A failure has no figure: it stands on the lower edge, one trace a kind.
    figures_known = [objective.figure(cost) for cost in costs]
    floor = 0.8 * min(figures_known, default=1.0) if axis.get("type") == "log" else 0.0
    kinds: dict[str, list[DrawnRun]] = {}
    for run in shown:
        if run.failure is not None:
            kinds.setdefault(str(run.failure.kind), []).append(run)
    ranked = sorted(kinds.items(), key=lambda item: (-len(item[1]), item[0]))
    for place, (kind, failures) in enumerate(ranked):
        few, symbol = style.thinned(failures, 100), _SHAPES[min(place, len(_SHAPES) - 1)]
        points = [(run, floor) for run in few]
        traces.append(_marks(objective, points, kind, style.INK, symbol))
    whole = {"dtick": 1} if shown[-1].number - shown[0].number < 10 else {}  # no half launches
    return style.drawing(
        traces,
        400,
        xaxis={"title": {"text": "launch"}, "zeroline": False, **whole},
        yaxis=axis,
        shapes=_history_shapes(objective, shown),
    )


def _marks(
    objective: ObjectiveSpec,
    points: Sequence[tuple[DrawnRun, float | None]],
    name: str,
    colour: str | None,
    symbol: str,
) -> JsonDict:
    said = (
        f"launch {run.number} ({run.made_for}): {style.inert(runs.said(objective, run))}"
        f"<br>{style.short(run.setting)}"
        for run, _ in points
    )
    return style.scatter(
        "markers",
        (run.number for run, _ in points),
        (place for _, place in points),
        said,
        name=style.inert(name),
        marker=style.marker(colour, symbol, 9 if len(points) < _FEW else 6),
        cliponaxis=False,
    )


def _history_shapes(objective: ObjectiveSpec, shown: list[DrawnRun]) -> list[JsonDict]:
    """The median of the defaults across, and a shade behind the confirmation."""
    shapes: list[JsonDict] = []
    costs = [run.cost for run in shown if run.is_default and run.cost is not None]
    if costs:
        place = style.at(objective, runs.centre(costs).median)
        line = {"color": style.BASELINE, "dash": "dash", "width": 1.5}
        ends = {"x0": 0, "x1": 1, "y0": place, "y1": place}
        shapes.append({"type": "line", "xref": "paper", **ends, "line": line})
    numbers = [run.number for run in shown if run.purpose is Purpose.CONFIRM]
    if numbers:
        shapes.append(
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
        )
    return shapes
