"""What a figure is, and how all of them look: colours, text that stays text, axes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tuner.model import JsonDict, ObjectiveSpec, Setting, Value, figures, wording

Item = TypeVar("Item")

#: Told apart with any colour vision (blue and vermilion of Okabe and Ito, Color Universal Design,
#: 2008), and with a contrast of 3 or more on white and on the dark page. Whatever has one of them
#: also has a mark, a dash, a pattern or a place of its own.
BEST, BASELINE, OTHER = COLOURS = "#0072b2", "#d55e00", "#8f8f8f"

#: The fourth: no colour, so that Plotly takes that of the text, which each theme has.
INK = None

#: From little to much: the upper half of viridis, on which black text can be read.
SCALE = ("#21918c", "#27ad81", "#5ec962", "#aadc32", "#fde725")
ON_SCALE = "#000000"

#: Points of one trace at most: more hide each other, and make a page slow.
MOST_POINTS = 250

#: Figures that differ more than this get a logarithmic axis.
_FEW_TIMES = 8.0

#: What is put on an axis by its size; all else is a name.
_WHOLE = re.compile(r"-?[0-9]{1,15}")

_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def _theme(ink: str, line: str, page: str) -> JsonDict:
    axis = {
        "gridcolor": line,
        "linecolor": line,
        "zerolinecolor": line,
        "automargin": True,
        "title": {"standoff": 8},
    }
    return {
        "layout": {
            "font": {"family": _FONT, "size": 12, "color": ink},
            "colorway": [ink],
            "paper_bgcolor": page,
            "plot_bgcolor": page,
            "hoverlabel": {"bgcolor": page, "bordercolor": line, "font": {"color": ink}},
            "xaxis": axis,
            "yaxis": axis,
        }
    }


#: Plotly's templates for a light and a dark page.
THEMES = {
    "light": _theme("#1f2328", "#d8dee4", "#ffffff"),
    "dark": _theme("#e6edf3", "#3d444d", "#15181d"),
}


#: The rows of a figure's table at most: more are in the exports.
MOST_ROWS = 200


@dataclass(frozen=True)
class Table:
    """The numbers behind a figure, without the ``left_out`` rows beyond :data:`MOST_ROWS`."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0

    @classmethod
    def of(cls, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
        """A table of these rows, cut at :data:`MOST_ROWS`."""
        return cls(head, tuple(rows[:MOST_ROWS]), max(0, len(rows) - MOST_ROWS))


@dataclass(frozen=True)
class Figure:
    """One figure.

    ``drawing`` is Plotly's ``{"data": …, "layout": …}`` without colours of page and text, which
    :data:`THEMES` has; ``None`` if there is nothing to draw: then
    ``summary`` says why. All text in it is inert (:func:`inert`);
    title, summary and table are plain text.
    """

    key: str  # letters, digits and dashes
    title: str
    summary: str  # one or two sentences, made of the numbers
    drawing: JsonDict | None = None
    table: Table | None = None
    is_extra: bool = False  # shown only if it is asked for


def inert(text: object, most: int = 80) -> str:
    """Foreign text for Plotly, to which ``<a href=…>``, ``&lt;`` and ``$x$`` mean something."""
    line = wording.one_line(str(text), most)
    return (
        line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
    )


def scatter(
    mode: str, x: Iterable[object], y: Iterable[object], hover: Iterable[str] | None, **more: object
) -> JsonDict:
    """A trace of points; ``hover`` has an inert text for each, ``None``: they are silent."""
    hover_options = (
        {"hoverinfo": "skip"} if hover is None else {"hoverinfo": "text", "hovertext": [*hover]}
    )
    return {"type": "scatter", "mode": mode, "x": [*x], "y": [*y], **hover_options, **more}


def drawing(traces: Iterable[JsonDict], height_px: int, **more: object) -> JsonDict:
    """Traces that have a point, under the layout of every figure: the legend above, no title."""
    layout = {
        "height": height_px,
        "margin": {"l": 48, "r": 12, "t": 16, "b": 46},
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "dragmode": False,  # a finger scrolls the page
    }
    return {"data": [trace for trace in traces if trace["x"]], "layout": {**layout, **more}}


def marker(colour: str | None, symbol: str, size: int) -> JsonDict:
    """A dot; an open one has a line that can be seen."""
    line = {"line": {"width": 1.8}} if "-open" in symbol else {}
    return {"color": colour, "symbol": symbol, "size": size, **line}


def thinned(items: Sequence[Item], most: int = MOST_POINTS) -> list[Item]:
    """At most this many, spread evenly, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / (most - 1)
    return [items[round(place * step)] for place in range(most)]


def spread(number: int, width: float = 0.3) -> float:
    """Where the n-th of some points stands beside its place, so that none hides another.

    Multiples of the golden ratio fill an interval evenly, whatever their number.
    """
    return ((number * (math.sqrt(5) - 1) / 2 + 0.5) % 1 - 0.5) * width


def measure_axis(costs: Iterable[float], objective: ObjectiveSpec) -> JsonDict:
    """An axis for figures: from zero; logarithmic where they differ by far."""
    positive = [cost for cost in costs if cost > 0]
    title = figures.axis(objective)
    if positive and max(positive) > _FEW_TIMES * min(positive):
        ticks = _ticks([objective.figure(cost) for cost in positive])
        return {
            "type": "log",
            "title": {"text": f"{inert(title)} (logarithmic)"},
            "tickvals": ticks,
            "ticktext": [f"{tick:g}" for tick in ticks],
        }
    return {"rangemode": "tozero", "title": {"text": inert(title)}}


def ratio_axis(ratios: Sequence[float], title: str) -> JsonDict:
    """An axis for ratios, on which 1 can be seen; logarithmic where they differ by far."""
    if max(ratios) > _FEW_TIMES * min(ratios):
        ticks = _ticks([1.0, *ratios])
        scale = {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]}
        return {**scale, "title": {"text": f"{inert(title)} (logarithmic)"}}
    return {"title": {"text": inert(title)}, "zeroline": False}


def at(objective: ObjectiveSpec, cost: float | None) -> float | None:
    """Where a cost is on such an axis; ``None`` for none, and for one of a bound of nothing."""
    return objective.figure(cost) if cost else None


def bound(objective: ObjectiveSpec, *, is_sideways: bool = False) -> str:
    """The mark of a run that is no better than where it stands: it points to what is worse."""
    if is_sideways:
        return "triangle-left-open" if objective.maximize else "triangle-right-open"
    return "triangle-down-open" if objective.maximize else "triangle-up-open"


def _ticks(values: Sequence[float]) -> list[float]:
    """1, 2, 5, 10 … around these values; only powers of ten, if that would be many."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    steps = (1, 2, 5) if high - low <= 3 else (1,)
    return [float(f"{step}e{power}") for power in range(low, high + 1) for step in steps]


def value_axis(name: str, values: Sequence[Value]) -> JsonDict:
    """An axis of a knob's values, each at its place: 0, 1, 2 …"""
    return {**row_axis([inert(value, 16) for value in values], 1), "title": {"text": inert(name)}}


def row_axis(names: Sequence[str], direction: int = -1) -> JsonDict:
    """An axis of named rows, the first on top (``direction`` 1: the last)."""
    ends = [-0.5, len(names) - 0.5][::direction]
    return {
        "tickvals": list(range(len(names))),
        "ticktext": list(names),
        "range": ends,
        "zeroline": False,
        "showgrid": direction > 0,
    }


def ordered(values: Iterable[Value]) -> list[Value]:
    """The different values: numbers by size, then names."""
    different = set(values)
    sizes = {value: int(value) for value in different if _WHOLE.fullmatch(str(value))}
    return sorted(
        different, key=lambda value: (value not in sizes, sizes.get(value, 0), str(value))
    )


def short(setting: Setting) -> str:
    """A setting for a hover text: a line a knob, no more than six."""
    if setting.is_baseline:
        return "your defaults"
    lines = [f"{inert(name, 40)}={inert(value, 30)}" for name, value in setting.items]
    rest = [f"and {len(lines) - 6} more"] if len(lines) > 6 else []
    return "<br>".join([*lines[:6], *rest])
