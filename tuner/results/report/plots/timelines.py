"""Load over time of the baseline's and the best's launch: one below the other, on the same axes."""

from __future__ import annotations

from dataclasses import dataclass

from tuner.model import JsonDict, LaunchRecord, Telemetry, Track, wording
from tuner.results.report.plots import runs, style
from tuner.results.report.plots.runs import Side
from tuner.results.report.plots.style import Figure, Table
from tuner.results.study_view import StudyView

#: Points of a line: a phone has no more columns to show them.
_MOST = 600


@dataclass(frozen=True)
class Column:
    """A column of a host's track as a line; ``mark`` is its dash, or its pattern in a stack."""

    column: str
    name: str
    colour: str | None
    factor: float = 1.0
    mark: str = ""


@dataclass(frozen=True)
class Timeline:
    """One figure: its lines, on top of each other if they are parts of a whole."""

    key: str
    title: str
    unit: str
    lines: tuple[Column, ...]
    stacked: bool = False
    of_cores: bool = False  # how many cores there are is drawn across
    tick_format: str = ""


#: One row a figure; columns are those of :data:`tuner.model.HOST_COLUMNS`.
TIMELINES = (
    Timeline(
        "cpu",
        "CPU over time",
        "cores",
        (
            Column("user_cores", "user", style.BEST),
            Column("system_cores", "system", style.BASELINE, mark="/"),
            Column("steal_cores", "stolen by the hypervisor", style.INK, mark="x"),
        ),
        stacked=True,
        of_cores=True,
    ),
    Timeline(
        "queue",
        "Threads that run or wait for a CPU",
        "threads",
        (Column("runnable_threads", "runnable threads", style.BEST),),
        of_cores=True,
    ),
    Timeline(
        "gpu",
        "GPU utilisation over time",
        "per cent",
        (Column("gpu_share", "utilisation", style.BEST, 100.0),),
    ),
    Timeline(
        "gpu-power",
        "GPU power over time",
        "watts",
        (Column("gpu_power_w", "power, all GPUs", style.BEST),),
    ),
    Timeline(
        "network",
        "Network over time",
        "bytes a second",
        (
            Column("network_burst_bytes_per_s", "greatest millisecond", style.OTHER, mark="dot"),
            Column("network_bytes_per_s", "average", style.BEST),
        ),
        tick_format="~s",
    ),
)


@dataclass(frozen=True)
class Watched:
    """The launch that stands for a side, and the host of it that is drawn."""

    side: Side
    record: LaunchRecord
    track: Track
    hosts: int

    def values(self, line: Column) -> list[float]:
        """What was seen of a column, without its holes; empty if nothing was."""
        values = self.track.columns.get(line.column, ())
        return [value * line.factor for value in values if value is not None]


def build(data: StudyView) -> list[Figure]:
    """One figure a row of :data:`TIMELINES`; words if nothing was seen."""
    watched = [launch for side in runs.sides(data) if (launch := _watched(data, side))]
    figures = [_figure(row, watched, data.spec.machine.cores) for row in TIMELINES]
    missing = [row.title for row, figure in zip(TIMELINES, figures, strict=True) if figure is None]
    shown = [figure for figure in figures if figure is not None]
    if missing:
        gaps_by_launch = [
            r.outcome.telemetry.gaps for r in data.records if r.outcome.telemetry is not None
        ]
        gaps = [gap for gaps_of_launch in gaps_by_launch for gap in gaps_of_launch]
        gaps += [] if gaps_by_launch else ["nothing was recorded of these launches"]
        gaps += ["this host has no GPU"] if gaps_by_launch and not data.spec.machine.gpus else []
        said = [f"Nothing was seen of: {'; '.join(missing)}", *map(wording.capital, gaps)]
        summary = " ".join(dict.fromkeys(f"{sentence.rstrip('.')}." for sentence in said))
        shown.append(Figure("not-seen", "Not seen", summary))
    return shown


def _watched(data: StudyView, side: Side) -> Watched | None:
    """The launch of a side that was watched, with its first host."""
    for record in runs.standing(data, side.setting):
        tracks = (record.outcome.telemetry or Telemetry()).tracks
        hosts = [track for track in tracks if track.rank is None and track.times_s]
        if hosts:
            return Watched(side, record, hosts[0], len(hosts))
    return None


def _figure(row: Timeline, watched: list[Watched], cores: int) -> Figure | None:
    """The figure of a row; ``None`` if nothing of it was seen."""
    shown = [launch for launch in watched if any(launch.values(line) for line in row.lines)]
    if not shown:
        return None
    sentences, rows = [], []
    for launch in shown:
        parts = []
        for line in row.lines:
            if values := sorted(launch.values(line)):
                mean, most = _number(sum(values) / len(values)), _number(values[-1])
                parts.append(f"{line.name} {mean}, at most {most}")
                least, median = _number(values[0]), _number(values[len(values) // 2])
                rows.append((launch.side.name, line.name, mean, least, median, most))
        host = ""
        if launch.hosts > 1:
            host = f" on {launch.track.host}, one of {wording.count(launch.hosts, 'host')}"
        heading = f"{wording.capital(launch.side.name)} (launch {launch.record.number}{host})"
        sentences.append(f"{heading}, {row.unit}: {'; '.join(parts)}.")
    table = Table.of(("", row.unit, "mean", "least", "median", "most"), rows)
    return Figure(row.key, row.title, " ".join(sentences), _drawing(row, shown, cores), table)


def _number(value: float) -> str:
    """``1.9``, ``64``, ``1.2 k``, ``12.3 M``."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= 0.9995 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def _drawing(row: Timeline, shown: list[Watched], cores: int) -> JsonDict:
    """The lines of each launch under its name, one launch below the other on the same axes."""
    traces: list[JsonDict] = []
    axes: JsonDict = {}
    headings: list[JsonDict] = []
    shapes: list[JsonDict] = []
    for place, watched in enumerate(shown):
        number = "" if place == 0 else str(place + 1)  # Plotly's names: y, y2, …
        traces += [_trace(row, watched, line, number) for line in row.lines if watched.values(line)]
        top = 1 - place / len(shown)
        axes[f"yaxis{number}"] = {
            "domain": [top - 1 / len(shown) + 0.06, top - 0.05],
            "title": {"text": style.inert(row.unit)},
            "rangemode": "tozero",
            "tickformat": row.tick_format,
            **({"matches": "y"} if place else {}),
        }
        name = f"<b>{style.inert(watched.side.name)}</b>"
        corner = {"x": 0, "xanchor": "left", "y": top - 0.05, "yanchor": "bottom"}
        on_page = {"xref": "paper", "yref": "paper", "showarrow": False}
        headings.append({"text": name, **on_page, **corner})
        line = {"color": style.OTHER, "dash": "dash", "width": 1}
        ends = {"x0": 0, "x1": 1, "y0": cores, "y1": cores}
        shapes.append({"type": "line", "xref": "paper", "yref": f"y{number}", **ends, "line": line})
    return style.drawing(
        traces,
        130 + 150 * len(shown),
        **axes,
        xaxis={
            "title": {"text": "seconds since the launch"},
            "rangemode": "tozero",
            "anchor": f"y{number}",
        },
        annotations=headings,
        shapes=shapes if row.of_cores else [],
        hovermode="x",
    )


def _trace(row: Timeline, watched: Watched, line: Column, axis: str) -> JsonDict:
    pairs = zip(watched.track.times_s, watched.track.columns[line.column], strict=False)
    # What was not seen is a hole in a line; in a stack it would count as nothing.
    shown = style.thinned([p for p in pairs if not row.stacked or p[1] is not None], _MOST)
    look: JsonDict = {"line": {"color": line.colour, "width": 1.5, "dash": line.mark or "solid"}}
    if row.stacked:
        look = {
            "line": {"color": line.colour, "width": 1},
            "fillpattern": {"shape": line.mark, "size": 6},
            "stackgroup": f"parts{axis}",
            "stackgaps": "interpolate",
        }
    return {
        "type": "scatter",
        "mode": "lines",
        "name": style.inert(line.name),
        "legendgroup": line.column,
        "showlegend": not axis,
        "x": [time_s for time_s, _ in shown],
        "y": [None if value is None else value * line.factor for _, value in shown],
        "yaxis": f"y{axis}",
        "hoverinfo": "y+name",
        **look,
    }
