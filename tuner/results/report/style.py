"""Says what a figure is, and how all look: colours, text that stays text, axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tuner.model import JsonDict, Setting, Value, wording
from tuner.results.study_view import Table

Item = TypeVar("Item")

#: Any colour vision tells them apart (blue and vermilion of Okabe and Ito, Color Universal Design,
#: 2008), and with a contrast of 3 or more on white and on the dark page. Whatever has one of them
#: also has a mark, a dash or a place of its own.
BEST, BASELINE, OTHER = COLOURS = "#0072b2", "#d55e00", "#8f8f8f"

#: The colour of each kind of side.
OF_SIDE = {"best": BEST, "baseline": BASELINE}

#: The colour of text: none is given, so that Plotly takes that of the theme.
INK = None

#: A trace has at most so many points: more hide each other, and make a page slow.
MOST_POINTS = 250

#: Figures that differ by more than this factor get a logarithmic axis.
_LINEAR_TIMES = 8.0

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


@dataclass(frozen=True)
class Figure:
    """One figure: what it shows in a sentence, as a drawing, and as a table of its numbers.

    ``drawing`` is Plotly's ``{"data": …, "layout": …}`` without colours of page and text, which
    :data:`THEMES` has. All text in it is inert (:func:`inert`); title, summary and table are
    plain text. ``key`` is made of letters, digits and dashes.
    """

    key: str
    title: str
    summary: str
    drawing: JsonDict
    table: Table


def inert(text: object, most: int = 80) -> str:
    """Escape a text for Plotly, to which ``<a href=…>``, ``&lt;`` and ``$x$`` mean something."""
    line = wording.one_line(str(text), most)
    return (
        line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")
    )


def scatter(
    mode: str, x: Iterable[object], y: Iterable[object], hover: Iterable[str] | None, **more: object
) -> JsonDict:
    """Return a trace of points; ``hover`` has an inert text for each (``None``: no texts)."""
    hover_options = (
        {"hoverinfo": "skip"} if hover is None else {"hoverinfo": "text", "hovertext": [*hover]}
    )
    return {"type": "scatter", "mode": mode, "x": [*x], "y": [*y], **hover_options, **more}


def drawing(traces: Iterable[JsonDict], height_px: int, **options: object) -> JsonDict:
    """Put the traces that have a point under the layout that all figures have."""
    layout = {
        "height": height_px,
        "margin": {"l": 48, "r": 12, "t": 16, "b": 46},
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hovermode": "closest",
        "dragmode": False,  # a finger scrolls the page
    }
    return {"data": [trace for trace in traces if trace["x"]], "layout": {**layout, **options}}


def marker(colour: str | None, symbol: str, size: int = 8) -> JsonDict:
    """Return the look of a point; an open one has a line that can be seen."""
    line = {"line": {"width": 1.8}} if "-open" in symbol else {}
    return {"color": colour, "symbol": symbol, "size": size, **line}


def thinned(items: Sequence[Item], most: int = MOST_POINTS) -> list[Item]:
    """Return at most so many items, spread evenly, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    step = (len(items) - 1) / (most - 1)
    return [items[round(place * step)] for place in range(most)]


def spread_around(place: float, number: int) -> float:
    """Return a place beside another one for the n-th of some points: none hides another.

    Multiples of the golden ratio fill an interval evenly, whatever their number.
    """
    return place + ((number * (math.sqrt(5) - 1) / 2 + 0.5) % 1 - 0.5) * 0.3


def axis(title: str, figures: Iterable[float], *, from_zero: bool = True) -> JsonDict:
    """Return an axis of figures above 0; logarithmic if they differ by far."""
    values = [figure for figure in figures if figure > 0]
    if values and max(values) > _LINEAR_TIMES * min(values):
        return {
            "type": "log",
            "title": {"text": f"{inert(title)} (logarithmic)"},
            "tickformat": "~g",
            "dtick": "D2",  # 1, 2, 5, 10: with all digits their labels overlap
        }
    zero = {"rangemode": "tozero"} if from_zero else {"zeroline": False}
    return {"title": {"text": inert(title)}, **zero}


def names_axis(names: Sequence[object]) -> JsonDict:
    """Return an axis of names, each at its place: 0, 1, 2 …"""
    return {
        "tickvals": list(range(len(names))),
        "ticktext": [inert(name, 24) for name in names],
        "range": [-0.5, len(names) - 0.5],
        "zeroline": False,
    }


def ordered(values: Iterable[Value]) -> list[Value]:
    """Return the different values: numbers by size, then names."""
    numbers = sorted(value for value in set(values) if isinstance(value, int))
    return [*numbers, *sorted(value for value in set(values) if isinstance(value, str))]


def short(setting: Setting) -> str:
    """Return a setting for a hover text: a line a knob, no more than six."""
    lines = [f"{inert(name, 40)}={inert(value, 30)}" for name, value in setting.items]
    rest = [f"and {len(lines) - 6} more"] if len(lines) > 6 else []
    return "<br>".join([*lines[:6], *rest]) or "your defaults"
