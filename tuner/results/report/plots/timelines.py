"""Load over time of the baseline's and the best's launch: one below the other, on the same axes."""

from __future__ import annotations

from collections.abc import Sequence
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
    """A column of a host's track as a line."""

    column: str
    name: str
    colour: str
    factor: float = 1.0


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
            Column("system_cores", "system", style.BASELINE),
            Column("steal_cores", "stolen by the hypervisor", style.FAILED),
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
        (Column("gpu_share", "utilisation", style.GREEN, 100.0),),
    ),
    Timeline(
        "gpu-power",
        "GPU power over time",
        "watts",
        (Column("gpu_power_w", "power, all GPUs", style.BASELINE),),
    ),
    Timeline(
        "network",
        "Network over time",
        "bytes a second",
        (
            Column("network_burst_bytes_per_s", "greatest millisecond", style.OTHER),
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


def build(data: StudyView) -> list[Figure]:
    """One figure a row of :data:`TIMELINES`; words if nothing was seen."""
    watched = [found for side in runs.sides(data) if (found := _watched(data, side))]
    gaps = _gaps(data)
    made = [_figure(row, watched, data.spec.machine.cores) for row in TIMELINES]
    missing = [row.title for row, figure in zip(TIMELINES, made, strict=True) if figure is None]
    said = [_missing(missing, gaps)] if missing else []
    return [*(figure for figure in made if figure is not None), *said]


def _gaps(data: StudyView) -> tuple[str, ...]:
    """What could not be seen, as the launches say; each once."""
    told = [r.outcome.telemetry.gaps for r in data.records if r.outcome.telemetry is not None]
    if not told:
        return ("nothing was recorded of these launches",)
    none = () if data.spec.machine.gpus else ("this host has no GPU",)
    return tuple(dict.fromkeys([*(gap for gaps in told for gap in gaps), *none]))


def _watched(data: StudyView, side: Side) -> Watched | None:
    """The launch of a side that was watched, with its first host."""
    for record in runs.standing(data, side.setting):
        hosts = _hosts(record.outcome.telemetry or Telemetry())
        if hosts:
            return Watched(side, record, hosts[0], len(hosts))
    return None


def _hosts(telemetry: Telemetry) -> list[Track]:
    return [track for track in telemetry.tracks if track.rank is None and track.times_s]


def _figure(row: Timeline, watched: list[Watched], cores: int) -> Figure | None:
    """The figure of a row; ``None`` if nothing of it was seen."""
    shown = [each for each in watched if any(_values(each, line) for line in row.lines)]
    if not shown:
        return None
    said = " ".join(_sentence(row, each) for each in shown)
    table = _table(row, shown)
    return Figure(row.key, row.title, said, _drawing(row, shown, cores), table)


def _missing(titles: list[str], gaps: Sequence[str]) -> Figure:
    """What was not seen, and why, in the place of empty figures."""
    said = [
        f"Nothing was seen of: {'; '.join(titles)}",
        *(wording.capital(gap.rstrip(".")) for gap in gaps),
    ]
    return Figure("not-seen", "Not seen", " ".join(f"{each}." for each in said))


def _sentence(row: Timeline, watched: Watched) -> str:
    parts = []
    for line in row.lines:
        seen = _values(watched, line)
        if seen:
            mean, most = sum(seen) / len(seen), max(seen)
            parts.append(f"{line.name} {_figure_of(mean)}, at most {_figure_of(most)}")
    host = ""
    if watched.hosts > 1:
        host = f" on {watched.track.host}, one of {wording.count(watched.hosts, 'host')}"
    launch = f"{wording.capital(watched.side.name)} (launch {watched.record.number}{host})"
    return f"{launch}, {row.unit}: {'; '.join(parts)}."


def _figure_of(value: float) -> str:
    """``1.9``, ``64``, ``1.2 k``, ``12.3 M``."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= 0.9995 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def _table(row: Timeline, shown: list[Watched]) -> Table:
    rows = []
    for watched in shown:
        for line in row.lines:
            seen = sorted(_values(watched, line))
            if seen:
                picked = (sum(seen) / len(seen), seen[0], seen[len(seen) // 2], seen[-1])
                cells = (_figure_of(each) for each in picked)
                rows.append((watched.side.name, line.name, *cells))
    return Table.of(("", row.unit, "mean", "least", "median", "most"), rows)


def _values(watched: Watched, line: Column) -> list[float]:
    """What was seen of a column, without its holes; empty if nothing was."""
    seen = watched.track.columns.get(line.column, ())
    return [value * line.factor for value in seen if value is not None]


def _drawing(row: Timeline, shown: list[Watched], cores: int) -> JsonDict:
    traces: list[JsonDict] = []
    axes: JsonDict = {}
    for place, watched in enumerate(shown, start=1):
        number = "" if place == 1 else str(place)
        traces += [
            _trace(row, watched, line, place) for line in row.lines if _values(watched, line)
        ]
        top = 1 - (place - 1) / len(shown)
        axes[f"yaxis{number}"] = {
            "domain": [top - 1 / len(shown) + 0.06, top - 0.05],
            "title": {"text": style.inert(row.unit)},
            "rangemode": "tozero",
            "tickformat": row.tick_format,
            **({"matches": "y"} if place > 1 else {}),
        }
    return style.drawing(
        traces,
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


def _trace(row: Timeline, watched: Watched, line: Column, place: int) -> JsonDict:
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
