"""How a timeline is drawn: the launches under each other, on the same axes."""

from __future__ import annotations

from tuner.model import JsonDict
from tuner.results.report.plots import style
from tuner.results.report.plots.timeline_rows import Line, Timeline, Watched, values

#: Points of a line: a phone has no more columns to show them.
_MOST = 600


def drawing(row: Timeline, shown: list[Watched], cores: int) -> JsonDict:
    traces: list[JsonDict] = []
    axes: JsonDict = {}
    for place, watched in enumerate(shown, start=1):
        number = "" if place == 1 else str(place)
        traces += [_trace(row, watched, line, place) for line in row.lines if values(watched, line)]
        top = 1 - (place - 1) / len(shown)
        axes[f"yaxis{number}"] = {
            "domain": [top - 1 / len(shown) + 0.06, top - 0.05],
            "title": {"text": style.inert(row.unit)},
            "rangemode": "tozero",
            "tickformat": row.tick_format,
            **({"matches": "y"} if place > 1 else {}),
        }
    layout = style.layout(
        130 + 150 * len(shown),
        **axes,
        xaxis={
            "title": {"text": "seconds since the launch"},
            "rangemode": "tozero",
            "anchor": f"y{len(shown) if len(shown) > 1 else ''}",
        },
        annotations=[_heading(watched, place, len(shown)) for place, watched in enumerate(shown)],
        shapes=_cores_lines(len(shown), cores) if row.of_cores else [],
        hovermode="x",
    )
    return {"data": traces, "layout": layout}


def _trace(row: Timeline, watched: Watched, line: Line, place: int) -> JsonDict:
    pairs = zip(watched.track.times_s, watched.track.columns[line.column], strict=False)
    # What was not seen is a hole in a line; in a stack it would count as nothing.
    shown = style.thinned([p for p in pairs if not row.stacked or p[1] is not None], _MOST)
    trace: JsonDict = {
        "type": "scatter",
        "mode": "lines",
        "name": style.inert(line.name),
        "legendgroup": line.column,
        "showlegend": place == 1,
        "x": [time_s for time_s, _ in shown],
        "y": [None if value is None else value * line.factor for _, value in shown],
        "yaxis": "y" if place == 1 else f"y{place}",
        "line": {"color": line.colour, "width": 1 if row.stacked else 1.5},
        "hoverinfo": "y+name",
    }
    stack = {"stackgroup": f"parts{place}", "stackgaps": "interpolate"}
    return {**trace, **stack} if row.stacked else trace


def _heading(watched: Watched, place: int, of: int) -> JsonDict:
    """Whose lines these are, above them."""
    return {
        "text": f"<b>{style.inert(watched.side.name)}</b>",
        "showarrow": False,
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "y": 1 - place / of - 0.05,
        "xanchor": "left",
        "yanchor": "bottom",
    }


def _cores_lines(places: int, cores: int) -> list[JsonDict]:
    return [
        {
            "type": "line",
            "xref": "paper",
            "yref": "y" if place == 1 else f"y{place}",
            "x0": 0,
            "x1": 1,
            "y0": cores,
            "y1": cores,
            "line": {"color": style.OTHER, "dash": "dash", "width": 1},
        }
        for place in range(1, places + 1)
    ]
