"""Draws the figures of a study as Plotly's JSON: each answers a question (pure)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from tuner.model import (
    Failed,
    Finished,
    JsonDict,
    LaunchRecord,
    Measurement,
    ObjectiveSpec,
    Stopped,
    Value,
    figures,
    wording,
)
from tuner.model.figures import came_to
from tuner.results import words
from tuner.results.claims import how_compared
from tuner.results.report import slices, style, timeline
from tuner.results.report.style import Figure
from tuner.results.study_view import THREADS, StudyView, Table, ranks_and_threads

#: A launch, and its place on the other axis.
Point = tuple[float, LaunchRecord]

#: At most so many knobs have a figure: those that matter most.
MOST_KNOBS = 4


def build(data: StudyView) -> list[Figure]:
    """Return the figures for which the study has something to draw, in the order of the page."""
    drawn = [
        *(_comparison(data), slices.build(data), _runs(data), _search(data)),
        *(_ranks(data), *_knobs(data), timeline.build(data)),
    ]
    return [figure for figure in drawn if figure is not None]


# --- launches as dots ------------------------------------------------------------------------


def _drawn_figure(objective: ObjectiveSpec, record: LaunchRecord) -> float | None:
    """Return the figure at which a launch is drawn: its own, its projection, or its bound."""
    ending = record.outcome.ending
    if isinstance(ending, Failed):
        return None
    cost = ending.elapsed_s if isinstance(ending, Finished) else ending.bound_s
    if isinstance(ending, Stopped) and ending.is_forecast:
        cost = ending.projection_s
    return objective.figure(cost) if cost else None


def _drawn_figures(objective: ObjectiveSpec, records: Iterable[LaunchRecord]) -> list[float]:
    return [figure for r in records if (figure := _drawn_figure(objective, r)) is not None]


def _traces_of_launches(
    objective: ObjectiveSpec,
    points: Sequence[Point],
    name: str,
    colour: str | None,
    shape: str = "circle",
) -> list[JsonDict]:
    """Draw the launches that ended, those with a projection, and those with a mere bound."""
    bound = "triangle-down-open" if objective.maximize else "triangle-up-open"
    bound += "-dot" if shape == "square" else ""
    traces = []
    for suffix, symbol in (("", shape), (", projected", f"{shape}-open"), (", no better", bound)):
        dots = style.thinned([(x, record) for x, record in points if _suffix(record) == suffix])
        hover = (
            f"launch {r.number} ({r.purpose}): {style.inert(came_to(objective, r.outcome))}"
            f"<br>{style.short(r.canonical)}"
            for _, r in dots
        )
        traces.append(
            style.scatter(
                "markers",
                (x for x, _ in dots),
                (_drawn_figure(objective, r) for _, r in dots),
                hover,
                name=f"{name}{suffix}",
                marker=style.marker(colour, symbol),
                cliponaxis=False,
            )
        )
    return traces


def _suffix(record: LaunchRecord) -> str:
    """Return what :func:`_traces_of_launches` adds to the name of a launch's trace."""
    ending = record.outcome.ending
    if isinstance(ending, Stopped):
        return ", projected" if ending.is_forecast else ", no better"
    return "" if isinstance(ending, Finished) else ", failed"


# --- is it faster? ---------------------------------------------------------------------------


def _comparison(data: StudyView) -> Figure | None:
    """Draw the ratio of each pair of launches, and what all of them so far prove."""
    finding, pairs = data.result.finding, data.pairs
    if finding is None or pairs is None or not pairs.logs:
        return None
    ratios = [math.exp(log) for log in pairs.logs]
    proofs = {
        n: proof
        for n in range(2, len(ratios) + 1)
        if (proof := pairs.first(n).judge(data.spec.precision, is_last=True)) is not None
    }
    # The proof of all pairs is the finding of the study.
    proofs[len(ratios)] = finding
    word = f"as {figures.words(data.spec.objective).good}"  # claims no gain, unlike `better`
    highs = {n: proof.high or proof.ratio for n, proof in proofs.items()}
    spans = {
        n: f"{proof.low:.2f} to {proof.high:.2f}" if proof.high else f"{proof.low:.2f} or more"
        for n, proof in proofs.items()
    }
    error = {
        "array": [highs[n] - proof.ratio for n, proof in proofs.items()],
        "arrayminus": [proof.ratio - proof.low for proof in proofs.values()],
        "color": style.BEST,
    }
    traces = [
        style.scatter(
            "markers",
            [number - 0.15 for number in range(1, len(ratios) + 1)],  # left of the intervals
            ratios,
            (f"pair {n}: {ratio:.2f} times" for n, ratio in enumerate(ratios, start=1)),
            name="a pair",
            marker=style.marker(style.INK, "circle-open"),
        ),
        style.scatter(
            "markers",
            proofs,
            (proof.ratio for proof in proofs.values()),
            (f"{n} pairs: {proof.ratio:.2f} times ({spans[n]})" for n, proof in proofs.items()),
            name="all pairs so far, with the 95 % interval",
            marker=style.marker(style.BEST, "diamond", 10),
            error_y=error,
        ),
    ]
    line = {"color": style.OTHER, "dash": "dash", "width": 1.5}  # here both are as good
    equality = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": line}
    ends = [1.0, *ratios, *(proof.low for proof in proofs.values()), *highs.values()]
    drawing = style.drawing(
        traces,
        320,
        xaxis={"title": {"text": "pair"}, "zeroline": False, "dtick": 1},
        yaxis=style.axis(f"times {word}", ends, from_zero=False),
        shapes=[equality],
    )
    summary = (
        f"{wording.count(len(ratios), 'pair')} {how_compared(finding)}: {finding.ratio:.2f} times"
        f" {word} ({spans[len(ratios)]}); each by itself shows {min(ratios):.2f} to"
        f" {max(ratios):.2f}."
    )
    rows = []
    for n, ratio in enumerate(ratios, start=1):
        proof = proofs.get(n)
        cells = ("", "") if proof is None else (f"{proof.ratio:.3f}", spans[n])
        rows.append((str(n), f"{ratio:.3f}", *cells))
    table = Table(("pair", f"times {word}", "all so far", "95 % interval"), rows)
    return Figure("comparison", "Best against your defaults, pair by pair", summary, drawing, table)


# --- how do the runs of both differ? ---------------------------------------------------------


def _runs(data: StudyView) -> Figure | None:
    """Draw each run of both sides of the comparison as a dot, and the medians as lines."""
    objective = data.spec.objective
    sides = [side for side in data.sides if _drawn_figures(objective, side.launches)]
    traces = []
    for x, side in enumerate(sides):
        colour = style.OF_SIDE[side.kind]
        points = [(style.spread_around(x, n), record) for n, record in enumerate(side.launches)]
        traces += _traces_of_launches(objective, points, style.inert(side.name), colour)
        if side.costs:
            median = objective.figure(statistics.median(side.costs))
            ends, line = (x - 0.32, x + 0.32), {"color": colour, "width": 3}
            traces.append(style.scatter("lines", ends, [median] * 2, None, line=line))
    if not sides:
        return None
    figures_drawn = [y for side in sides for y in _drawn_figures(objective, side.launches)]
    drawing = style.drawing(
        traces,
        340,
        xaxis={**style.names_axis([side.name for side in sides]), "showgrid": False},
        yaxis=style.axis(figures.axis(objective), figures_drawn),
        showlegend=False,
    )
    texts = [f"{wording.capital(side.name)}: {words.side_text(data, side)}." for side in sides]
    rows = [
        (s.name, str(r.number), came_to(objective, r.outcome)) for s in sides for r in s.launches
    ]
    table = Table(("", "launch", figures.title(objective)), rows)
    return Figure("runs", "Every run of both", " ".join(texts), drawing, table)


# --- what was tried? -------------------------------------------------------------------------


def _search(data: StudyView) -> Figure | None:
    """Draw the launches in their order: what led, what was stopped, failed, confirmed."""
    objective, records = data.spec.objective, data.counted
    if not records:
        return None
    default = data.result.baseline.setting if data.result.baseline else None
    by_kind: dict[bool, list[Point]] = {False: [], True: []}  # whether it is of the defaults
    for record in records:
        by_kind[record.canonical == default].append((float(record.number), record))
    leads: list[tuple[int, float]] = []  # the launches that were faster than every one before
    for record in records:
        for run in record.outcome.samples:
            if not leads or run.elapsed_s < leads[-1][1]:
                leads.append((record.number, run.elapsed_s))
    axis = style.axis(figures.axis(objective), _drawn_figures(objective, records))
    traces = [
        *_traces_of_launches(objective, by_kind[False], "a setting", style.OTHER),
        *_traces_of_launches(objective, by_kind[True], "defaults", style.BASELINE, "square"),
    ]
    if leads:
        ends = [*leads, (records[-1].number, leads[-1][1])]
        traces.append(
            style.scatter(
                "lines",
                (number for number, _ in ends),
                (objective.figure(cost) for _, cost in ends),
                None,
                name="fastest run so far",
                line={"shape": "hv", "color": style.BEST, "width": 2},
            )
        )
    # A failure has no figure: it stands below the least one (a logarithmic axis has no 0).
    failed = [r for r in records if isinstance(r.outcome.ending, Failed)]
    thinned = style.thinned(failed)
    floor = 0.8 * min(_drawn_figures(objective, records), default=1.0) if "type" in axis else 0.0
    traces.append(
        style.scatter(
            "markers",
            (r.number for r in thinned),
            [floor] * len(thinned),
            (f"launch {r.number}: {style.inert(came_to(objective, r.outcome))}" for r in thinned),
            name="failed",
            marker=style.marker(style.INK, "x"),
            cliponaxis=False,
        )
    )
    drawing = style.drawing(
        traces,
        400,
        xaxis={"title": {"text": "launch"}, "zeroline": False},
        yaxis=axis,
    )
    stopped = sum(isinstance(r.outcome.ending, Stopped) for r in records)
    parts = [
        f"{wording.count(len(records), 'launch', 'launches')} that count",
        *([f"{stopped} stopped early"] if stopped else []),
        *([f"{len(failed)} failed"] if failed else []),
    ]
    summary = f"{', '.join(parts)}."
    if leads:
        number, cost = leads[-1]
        summary += f" Launch {number} was the fastest run, with {figures.shown(objective, cost)}."
    rows = [
        (str(r.number), str(r.purpose), came_to(objective, r.outcome), str(r.canonical))
        for r in records
    ]
    table = Table(("launch", "for", "result", "setting"), rows)
    return Figure("search", "The search, launch by launch", summary, drawing, table)


# --- how many ranks, with how many threads? --------------------------------------------------


def _ranks(data: StudyView) -> Figure | None:
    """Draw the best setting with each number of ranks and of threads as a map of colours."""
    rank_map = ranks_and_threads(data)
    if rank_map is None:
        return None
    table, grid = rank_map
    # What failed looks like the worst.
    worst_s = max(cell.typical_s or 0.0 for line in grid for cell in line if cell) or 1.0
    heat_map = {
        "type": "heatmap",
        "x": [*range(len(grid[0]))],
        "y": [*range(len(grid))],
        "z": [[cell and math.log(cell.typical_s or worst_s) for cell in line] for line in grid],
        "text": [[style.inert(text) for text in row[1:]] for row in table.rows],
        "hovertext": [[cell and style.short(cell.setting) for cell in line] for line in grid],
        "colorscale": [[0, "#6cb4e4"], [1, "#e3edf5"]],  # dark text is read on it, also by night
        **{"textfont": {"color": "#1f2328"}, "texttemplate": "%{text}", "hoverinfo": "text"},
        **{"showscale": False, "xgap": 2, "ygap": 2},
    }
    threads = style.names_axis([title.split()[0] for title in table.head[1:]])
    ranks = style.names_axis([row[0] for row in table.rows])
    ranks |= {"title": {"text": table.head[0]}, "autorange": "reversed"}  # as in the table
    drawing = style.drawing(
        [heat_map],
        110 + 36 * len(grid),
        xaxis={**threads, "title": {"text": THREADS}, "showgrid": False},
        yaxis={**ranks, "showgrid": False},
        showlegend=False,
    )
    summary = (
        "The fastest setting with each number of ranks and of threads: the darker, the"
        f" {figures.words(data.spec.objective).better}; * is what the study calls best. What was"
        " stopped before its end has ~ (projected) or > (at least)."
    )
    return Figure("ranks", "Ranks against threads", summary, drawing, table)


# --- which knobs matter? ---------------------------------------------------------------------


def _knobs(data: StudyView) -> list[Figure]:
    """Draw every run against each varied knob, and a line through the fastest of each value.

    The knobs come first whose values differ most.
    """
    best = data.result.candidate
    timed = [m for m in data.measurements if m.typical_s and not m.setting.is_baseline]
    # The fastest are first, the study's best before them: what looks faster is not proven.
    timed.sort(key=lambda m: best is None or m.setting != best.setting)
    by_knob: dict[str, dict[Value, Measurement]] = {}
    for measurement in timed:
        for name, value in measurement.setting.items:
            by_knob.setdefault(name, {}).setdefault(value, measurement)
    spans = {
        name: max(costs) / min(costs)
        for name, by_value in by_knob.items()
        if len(costs := [m.typical_s or 1.0 for m in by_value.values()]) > 1
    }
    ranked = sorted(spans, key=lambda name: (-spans[name], name))[:MOST_KNOBS]
    return [_knob(data, name, by_knob[name], f"knob-{n}") for n, name in enumerate(ranked)]


def _knob(data: StudyView, name: str, by_value: dict[Value, Measurement], key: str) -> Figure:
    objective, values = data.spec.objective, style.ordered(by_value)
    fastest = [by_value[value] for value in values]
    places = [(x, m.elapsed_s) for x, m in enumerate(fastest) if m.elapsed_s is not None]
    points: list[Point] = []
    for record in data.counted:
        value = record.canonical.as_dict().get(name)
        if value is not None and value in by_value:
            points.append((style.spread_around(values.index(value), len(points)), record))
    line = style.scatter(
        "lines+markers",
        (x for x, _ in places),
        (objective.figure(cost) for _, cost in places),
        (style.short(fastest[x].setting) for x, _ in places),
        name="fastest setting",
        line={"color": style.BEST, "width": 2},
        marker=style.marker(style.BEST, "diamond"),
    )
    drawing = style.drawing(
        [line, *_traces_of_launches(objective, points, "a run", style.OTHER)],
        340,
        xaxis={**style.names_axis(values), "title": {"text": style.inert(name)}},
        yaxis=style.axis(
            figures.axis(objective), _drawn_figures(objective, (record for _, record in points))
        ),
    )
    texts = [f"{m.setting.as_dict()[name]}: {figures.typical(objective, m)}" for m in fastest]
    summary = (
        f"The fastest setting with each value of {name}: {'; '.join(texts[:6])}. What was launched"
        " once may look faster than it is."
    )
    rows = [
        (
            str(value),
            figures.typical(objective, m),
            str(len(m.samples)),
            " ".join(f"{k}={v}" for k, v in m.setting.items if k != name),
        )
        for value, m in zip(values, fastest, strict=True)
    ]
    table = Table((name, "fastest setting", "runs", "with"), rows)
    title = f"{wording.capital(figures.title(objective))} against {name}"
    return Figure(key, title, summary, drawing, table)
