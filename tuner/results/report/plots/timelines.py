"""What was seen over time while defaults and best ran: under each other, on the same axes.

What timelines there are, stands in :mod:`tuner.results.report.plots.timeline_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tuner.model import Telemetry, Track, wording
from tuner.results.report.plots import runs
from tuner.results.report.plots.figure import Figure, Table
from tuner.results.report.plots.runs import Side
from tuner.results.report.plots.timeline_drawing import drawing
from tuner.results.report.plots.timeline_rows import TIMELINES, Timeline, Watched, values
from tuner.results.study_view import StudyView


def build(data: StudyView) -> list[Figure]:
    """One figure a row of :data:`TIMELINES`; words where nothing was seen."""
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
    """The figure of a row; ``None`` where nothing of it was seen."""
    shown = [each for each in watched if any(values(each, line) for line in row.lines)]
    if not shown:
        return None
    said = " ".join(_sentence(row, each) for each in shown)
    table = _table(row, shown)
    return Figure(row.key, row.title, said, drawing(row, shown, cores), table)


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
        seen = values(watched, line)
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
            seen = sorted(values(watched, line))
            if seen:
                picked = (sum(seen) / len(seen), seen[0], seen[len(seen) // 2], seen[-1])
                cells = (_figure_of(each) for each in picked)
                rows.append((watched.side.name, line.name, *cells))
    return Table.of(("", row.unit, "mean", "least", "median", "most"), rows)
