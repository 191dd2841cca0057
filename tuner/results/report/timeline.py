"""Draws what the machine did meanwhile: the load over time of a launch of each side."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from tuner.model import JsonDict, LaunchRecord, Track, wording
from tuner.results.explain.explained_runs import median_run
from tuner.results.report import style
from tuner.results.report.style import Figure
from tuner.results.study_view import Side, StudyView, Table

#: A line has at most so many points: a phone has no more columns of pixels to show them.
_MOST_MOMENTS = 600

#: The rows of the timeline: title, the columns of a host's track that add up to it, and a factor.
_ROWS = (
    ("CPUs in use", ("user_cores", "system_cores"), 1.0),
    ("runnable threads", ("runnable_threads",), 1.0),
    ("GPU use, %", ("gpu_share",), 100.0),
    ("network, MB/s", ("network_bytes_per_s",), 1e-6),
)

_DASHES = {"best": "solid", "baseline": "dash"}


def build(data: StudyView) -> Figure | None:
    """Draw the load over time of a launch of each side, a row of axes for each kind of load."""
    tracks: list[tuple[Side, LaunchRecord, Track]] = []
    for side in data.sides:
        record = median_run(data.records, side.setting)
        telemetry = None if record is None else record.outcome.telemetry
        hosts = [t for t in telemetry.tracks if t.rank is None and t.times_s] if telemetry else []
        if record is not None and hosts:
            tracks.append((side, record, hosts[0]))
    rows = []
    for title, columns, factor in _ROWS:
        lines = [
            (side, track.times_s, _values(track, columns, factor)) for side, _, track in tracks
        ]
        lines = [line for line in lines if any(value is not None for value in line[2])]
        rows += [(title, lines)] if lines else []
    if not rows:
        return None
    traces, cells, texts = [], [], list[str]()
    axes, names_in_legend = dict[str, JsonDict](), set[str]()
    for row, (title, lines) in enumerate(rows):
        number, top = "" if row == 0 else str(row + 1), 1 - row / len(rows)
        axes[f"yaxis{number}"] = {
            "domain": [top - 1 / len(rows) + 0.06, top],  # with a gap below
            "title": {"text": title},
            "rangemode": "tozero",
        }
        parts = []
        for side, times_s, values in lines:
            numbers = [value for value in values if value is not None]
            mean, most = f"{statistics.fmean(numbers):.3g}", f"{max(numbers):.3g}"
            cells.append((title, side.name, mean, most))
            parts.append(f"{side.name} {mean} (at most {most})")
            moments = style.thinned([*zip(times_s, values, strict=False)], _MOST_MOMENTS)
            traces.append(
                style.scatter(
                    "lines",
                    (time_s for time_s, _ in moments),
                    (value for _, value in moments),
                    None,
                    name=style.inert(side.name),
                    legendgroup=side.kind,
                    showlegend=side.name not in names_in_legend,
                    yaxis=f"y{number}",
                    line={"color": style.OF_SIDE[side.kind], "dash": _DASHES[side.kind]},
                )
            )
            names_in_legend.add(side.name)
        texts.append(f"{title}: {', '.join(parts)}")
    drawing = style.drawing(
        traces,
        80 + 170 * len(rows),
        **axes,
        xaxis={"title": {"text": "seconds since the launch"}, "anchor": f"y{number}"},
    )
    launches = [f"{side.name} (launch {record.number})" for side, record, _ in tracks]
    gaps = [gap for _, r, _ in tracks if r.outcome.telemetry for gap in r.outcome.telemetry.gaps]
    facts = [
        f"{wording.capital(', '.join(launches))} on {tracks[0][2].host}, which has"
        f" {wording.count(data.spec.machine.cores, 'core')}",
        *texts,
        *gaps,
    ]
    summary = " ".join(f"{wording.capital(fact).rstrip('.')}." for fact in dict.fromkeys(facts))
    table = Table(("", "", "mean", "most"), cells)
    return Figure("timeline", "What the machine did meanwhile", summary, drawing, table)


def _values(track: Track, columns: Sequence[str], factor: float) -> list[float | None]:
    """Return the sum of some columns at each moment; empty if one is missing."""
    if any(column not in track.columns for column in columns):
        return []
    rows = zip(*(track.columns[column] for column in columns), strict=False)
    return [
        None if None in values else factor * sum(value or 0.0 for value in values)
        for values in rows
    ]
