"""A figure of points and lines as SVG, for where Plotly cannot run: a notebook on a code host."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape, unescape

from tuner.model import JsonDict
from tuner.results.report.plots.style import Figure

WIDTH, HEIGHT = 680, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 44, 40

#: Text and lines, with a contrast of 3.6 or more on a white and on a dark page.
INK = "#767676"

#: Plotly's symbols as paths around 0; any other is a star of three lines.
_PATHS = {
    "circle": "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "triangle-up": "M-5 4h10l-5-9z",
    "triangle-down": "M-5-4h10l-5 9z",
    "x": "M-4-4l8 8m0-8l-8 8",
    "cross": "M-5 0h10m-5-5v10",
}
_STAR = "M-4-4l8 8m0-8l-8 8M-5 0h10"

Scale = Callable[[float], float]


def svg(figure: Figure) -> str:
    """The drawing of a figure of numbers over numbers, with its legend: a document of its own."""
    assert figure.drawing is not None
    traces, layout = figure.drawing["data"], figure.drawing["layout"]
    xs: list[float] = [x for trace in traces for x in trace["x"]]
    ys: list[float] = [y for trace in traces for y in trace["y"] if y is not None]
    axis, is_log = layout["yaxis"], layout["yaxis"].get("type") == "log"
    power: Scale = math.log10 if is_log else float
    most = max(ys) or 1.0  # if all failed
    low, high = (power(0.85 * min(ys)), power(1.15 * most)) if is_log else (0, 1.08 * most)
    first, last = min(xs) - 0.5, max(xs) + 0.5

    def across(x: float) -> float:
        return round(LEFT + (x - first) / (last - first) * (WIDTH - LEFT - RIGHT), 1)

    def up(y: float) -> float:
        return round(HEIGHT - BOTTOM - (power(y) - low) / (high - low) * (HEIGHT - TOP - BOTTOM), 1)

    ticks = axis.get("tickvals") or _ticks(most)
    parts = [_grid(up(y), f"{y:g}") for y in ticks if low <= power(y) <= high]
    steps = sorted({round(each) for each in _ticks(last, whole=True)} - {0})
    parts += [_word(across(x), HEIGHT - BOTTOM + 16, f"{x}", "middle") for x in steps if x < last]
    middle = (WIDTH + LEFT) / 2
    parts.append(_word(middle, HEIGHT - 6, layout["xaxis"]["title"]["text"], "middle"))
    for shape in layout.get("shapes", ()):
        parts.append(_shape(shape, across, up))
    at, over = LEFT, 0  # the legend grows upwards
    for trace in traces:
        parts.append(_trace(trace, across, up))
        wide = 28 + round(6.4 * len(unescape(trace["name"])))
        if at + wide > WIDTH:
            at, over = LEFT, over + 18
        parts.append(f'<g transform="translate({at} {32 - over})">{_key(trace)}</g>')
        parts.append(_word(at + 12, 36 - over, trace["name"]))
        at += wide
    parts.append(_word(4, 14 - over, axis["title"]["text"]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 {-over} {WIDTH} {HEIGHT + over}"'
        f' width="{WIDTH}" height="{HEIGHT + over}" font-family="sans-serif" font-size="12"'
        f' fill="{INK}">{"".join(parts)}</svg>'
    )


def _ticks(most: float, *, whole: bool = False) -> list[float]:
    """0 and up to six more round numbers."""
    step = 10.0 ** math.floor(math.log10(most))
    step *= next(part for part in (0.2, 0.5, 1, 2) if most / (step * part) <= 6)
    step = max(1.0, step) if whole else step
    return [step * number for number in range(int(most / step) + 1)]


def _word(x: float, y: float, text: str, anchor: str = "start") -> str:
    """Text that is inert: Plotly's escapes are HTML's."""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(unescape(text))}</text>'


def _grid(y: float, text: str) -> str:
    line = f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="{INK}" opacity="0.2"/>'
    return line + _word(LEFT - 6, y + 4, text, "end")


def _shape(shape: JsonDict, across: Scale, up: Scale) -> str:
    """A level across all, or a shade behind some launches."""
    if shape["type"] == "line":
        colour, y = shape["line"]["color"], up(shape["y0"])
        return f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="{colour}" stroke-dasharray="5 4"/>'
    left, right = across(shape["x0"]), across(shape["x1"])
    return (
        f'<rect x="{left}" y="{TOP}" width="{right - left:.1f}" height="{HEIGHT - TOP - BOTTOM}"'
        f' fill="{shape["fillcolor"]}" opacity="{shape["opacity"]}"/>'
        + _word((left + right) / 2, TOP + 12, shape["label"]["text"], "middle")
    )


def _trace(trace: JsonDict, across: Scale, up: Scale) -> str:
    both = zip(trace["x"], trace["y"], strict=True)
    points = [(across(x), up(y)) for x, y in both if y is not None]
    if trace["mode"] == "lines":  # in steps
        path = f"M{points[0][0]} {points[0][1]}" + "".join(f"H{x}V{y}" for x, y in points)
        return f'<path d="{path}" fill="none" stroke="{trace["line"]["color"]}" stroke-width="2"/>'
    return "".join(f'<g transform="translate({x} {y})">{_key(trace)}</g>' for x, y in points)


def _key(trace: JsonDict) -> str:
    """What stands for a trace: its mark, or a piece of its line."""
    if trace["mode"] == "lines":
        return f'<path d="M-8 0H8" stroke="{trace["line"]["color"]}" stroke-width="2"/>'
    colour, symbol = trace["marker"]["color"], trace["marker"]["symbol"]
    path = _PATHS.get(symbol.removesuffix("-open"), _STAR)
    fill = colour if symbol == "circle" else "none"
    return f'<path d="{path}" fill="{fill}" stroke="{colour}" stroke-width="1.6"/>'
