"""Each pair of varied knobs as a heat map: a cell is the fastest setting with both values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

from tuner.model import JsonDict, Measurement, ObjectiveSpec, Value, figures, wording
from tuner.results.report.plots import runs, style, varied
from tuner.results.report.plots.figure import Figure, Table
from tuner.results.study_view import StudyView

#: Pairs that are shown at once, and the knobs of which pairs are made at all.
SHOWN, MOST_KNOBS = 2, 8

#: Cells a side in which a time can still be read.
_READABLE = 8

Cells = dict[tuple[Value, Value], Measurement]


def build(data: StudyView, weights: Mapping[str, float]) -> list[Figure]:
    """One figure a pair of the weightiest knobs, the weightiest pair first."""
    order = [knob.name for knob in data.spec.knobs]
    chosen = varied.knobs(data, weights)[:MOST_KNOBS]
    made: list[Figure] = []
    for first, second in sorted(
        combinations(chosen, 2), key=lambda pair: chosen.index(pair[0]) + chosen.index(pair[1])
    ):
        up, across = sorted((first, second), key=order.index)
        cells: Cells = {(a, b): m for (a, b), m in varied.fastest(data, across, up).items()}
        if len({b for _, b in cells}) < 2 or len({a for a, _ in cells}) < 2:
            continue
        made.append(_figure(data, across, up, cells, len(made)))
    return made


def _figure(data: StudyView, across: str, up: str, cells: Cells, place: int) -> Figure:
    objective, first = data.spec.objective, varied.first(data, cells)
    (a, b), best = min(cells.items(), key=lambda item: (item[0] != first, varied.rank(item[1])))
    which = "fastest" if first is None else "best"
    summary = (
        f"Of {wording.count(len(cells), 'pair')} of values the {which} is {up}={b} with"
        f" {across}={a}: {figures.typical(objective, best)}."
        f"{varied.caution(data, cells.values())} A cell is the fastest setting with"
        " both values; ~ is projected, > at least: stopped early."
    )
    return Figure(
        f"pair-{place}",
        f"{up} and {across}",
        summary,
        _drawing(objective, across, up, cells),
        _table(objective, across, up, cells),
        place >= SHOWN,
    )


def _drawing(objective: ObjectiveSpec, across: str, up: str, cells: Cells) -> JsonDict:
    columns, rows = (style.ordered(key[place] for key in cells) for place in (0, 1))
    grid = [[cells.get((column, row)) for column in columns] for row in rows]
    # Ratios count, not differences: one projection of minutes would take all colours otherwise.
    shades = [[_shade(each) for each in row] for row in grid]
    is_readable = len(columns) <= _READABLE and len(rows) <= 2 * _READABLE
    heat = {
        "type": "heatmap",
        "x": list(range(len(columns))),
        "y": list(range(len(rows))),
        "z": shades,
        "colorscale": "Viridis",
        "reversescale": True,
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
        "hoverinfo": "text",
        "hovertext": [[_hover(objective, each) for each in row] for row in grid],
        "colorbar": _colorbar(
            objective, [shade for row in shades for shade in row if shade is not None]
        ),
    }
    if is_readable:
        heat["text"] = [
            ["" if each is None else _short(objective, each) for each in row] for row in grid
        ]
        heat["texttemplate"] = "%{text}"
    layout = style.layout(
        min(640, 190 + 34 * len(rows)),
        xaxis={**style.value_axis(across, columns), "showgrid": False},
        yaxis={**style.value_axis(up, rows), "showgrid": False},
        showlegend=False,
    )
    return {"data": [heat], "layout": layout}


def _shade(found: Measurement | None) -> float | None:
    return None if found is None or not found.typical_s else math.log10(found.typical_s)


def _short(objective: ObjectiveSpec, found: Measurement) -> str:
    """Without the unit, which stands beside the colours."""
    return figures.typical(objective, found).partition(" ")[0]


def _hover(objective: ObjectiveSpec, found: Measurement | None) -> str:
    return "" if found is None else style.inert(runs.typical(objective, found))


def _colorbar(objective: ObjectiveSpec, shades: list[float]) -> JsonDict:
    """Ticks of a logarithmic scale, in words."""
    low, high = min(shades), max(shades)
    ticks = [low + (high - low) * step / 3 for step in range(4)] if high > low else [low]
    return {
        "thickness": 10,
        "tickvals": ticks,
        "ticktext": [style.inert(figures.shown(objective, 10**tick)) for tick in ticks],
    }


def _table(objective: ObjectiveSpec, across: str, up: str, cells: Cells) -> Table:
    rows = sorted(cells.items(), key=lambda item: varied.rank(item[1]))
    return Table.of(
        (up, across, "fastest setting", "runs"),
        [
            (str(b), str(a), figures.typical(objective, each), str(len(each.samples)))
            for (a, b), each in rows
        ],
    )
