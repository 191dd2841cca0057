"""The plot on a study's page: the times over the knobs that were varied most."""

from __future__ import annotations

import re
import statistics
from typing import TYPE_CHECKING, Any

from tuner import wording
from tuner.model import Setting

if TYPE_CHECKING:
    from tuner.exporters import ExportInput

#: What is put on an axis by its size; all else is a name.
_WHOLE = re.compile(r"-?[0-9]{1,15}")


def plot(data: ExportInput) -> Any:
    """Time over the two knobs that were varied most: a heat map; over one knob a line.

    Where other knobs were varied too, a cell is the fastest of its settings; of one that was
    only ever stopped it is where that was going. ``None`` with fewer than two settings.
    """
    measured = [
        (found.setting, time_s)
        for found in data.measurements
        if (time_s := found.typical_s) is not None and not found.setting.is_baseline
    ]
    names = varied(data, [setting for setting, _ in measured])
    if not names or len(measured) < 2:
        return None
    return _line(data, names[0], measured) if len(names) == 1 else _map(data, names, measured)


def varied(data: ExportInput, settings: list[Setting]) -> list[str]:
    """The knobs with more than one value among ``settings``, the most varied two first."""
    values: dict[str, set[int | str]] = {}
    for setting in settings:
        for name, value in setting.items:
            values.setdefault(name, set()).add(value)
    order = [knob.name for knob in data.spec.knobs]
    names = [name for name in values if len(values[name]) > 1]
    chosen = sorted(names, key=lambda name: (-len(values[name]), order.index(name)))[:2]
    return sorted(chosen, key=order.index)


def _map(data: ExportInput, names: list[str], measured: list[tuple[Setting, float]]) -> Any:
    import plotly.graph_objects as go

    across, up = names[1], names[0]
    cells: dict[tuple[str, str], float] = {}
    for setting, elapsed_s in measured:
        values = setting.as_dict()
        if across in values and up in values:
            key = (str(values[across]), str(values[up]))
            cells[key] = min(elapsed_s, cells.get(key, elapsed_s))
    columns, rows = (_ordered({key[place] for key in cells}) for place in (0, 1))
    times = [[cells.get((column, row)) for column in columns] for row in rows]
    figure = go.Figure(
        go.Heatmap(
            x=columns,
            y=rows,
            z=times,
            colorscale="Viridis_r",
            text=[["" if t is None else wording.seconds(t) for t in row] for row in times],
            texttemplate="%{text}",
            colorbar={"title": {"text": "seconds"}},
            hovertemplate=f"{across}=%{{x}}<br>{up}=%{{y}}<br>%{{z:.3f}} s<extra></extra>",
        )
    )
    figure.update_layout(xaxis_type="category", yaxis_type="category")
    return _titled(figure, data, across, up)


def _line(data: ExportInput, name: str, measured: list[tuple[Setting, float]]) -> Any:
    import plotly.graph_objects as go

    times: dict[str, list[float]] = {}
    for setting, elapsed_s in measured:
        if name in setting.as_dict():
            times.setdefault(str(setting.as_dict()[name]), []).append(elapsed_s)
    values = _ordered(set(times))
    medians = [statistics.median(times[value]) for value in values]
    figure = go.Figure(go.Scatter(x=values, y=medians, mode="lines+markers", name="measured"))
    figure.update_layout(xaxis_type="category", yaxis_rangemode="tozero")
    return _titled(figure, data, name, "seconds")


def _titled(figure: Any, data: ExportInput, across: str, up: str) -> Any:
    baseline = data.result.baseline
    against = ""
    if baseline is not None and baseline.elapsed_s is not None:
        against = f" (your defaults: {wording.seconds(baseline.elapsed_s)})"
    title = f"Time of a run, projected where it was stopped{against}"
    figure.update_layout(title=title, xaxis_title=across, yaxis_title=up, template="plotly_white")
    return figure


def _ordered(values: set[str]) -> list[str]:
    """Numbers by size, then names."""
    sizes = {text: int(text) for text in values if _WHOLE.fullmatch(text)}
    return sorted(values, key=lambda text: (text not in sizes, sizes.get(text, 0), text))
