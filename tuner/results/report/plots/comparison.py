"""Figures of the comparison: what the pairs of launches show, and one pair slice by slice."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from tuner.model import JsonDict, LaunchRecord, figures, wording
from tuner.results.claims import how_compared
from tuner.results.report.plots import runs, style
from tuner.results.report.plots.runs import Side
from tuner.results.report.plots.style import Figure, Table
from tuner.results.study_view import StudyView
from tuner.study import pairing
from tuner.study.history import History

#: A slice shows a pace if the log covers this share of it.
_LEAST_SHARE = 0.2


def build(data: StudyView) -> list[Figure]:
    """Return what the pairs show after each, and one pair side by side, as far as there are any."""
    history = History.judged(data.spec, data.records)
    drawn = [_narrowing(data, history), _slices(data, history)]
    return [figure for figure in drawn if figure is not None]


# --- the ratio, pair by pair -----------------------------------------------------------------


def _narrowing(data: StudyView, history: History) -> Figure | None:
    """Return the figure of the ratio after each pair; ``None`` with one pair, which proves nothing.

    The exact rule says nothing of fewer pairs than it asks for.
    """
    best, reference = data.result.candidate, data.result.reference
    if best is None or reference is None or data.spec.confirm == "exact":
        return None
    compared = best.setting, reference.setting
    is_in_turn = pairing.why_in_turn(history, *compared) is not None
    ratios = pairing.ratios(history, *compared, in_turn=is_in_turn)
    singles = [math.exp(log) for log in ratios.logs]
    numbers = range(2, len(singles) + 1)
    so_far = [ratios.first(n).judge(data.spec.precision, is_last=True) for n in numbers]
    findings = [finding for finding in so_far if finding is not None]
    if not findings:
        return None
    highs = [finding.high for finding in findings]
    spans = [
        f"{f.low:.2f} or more" if f.high is None else f"{f.low:.2f} to {f.high:.2f}"
        for f in findings
    ]
    word, last = figures.words(data.spec.objective).better, findings[-1]
    how = how_compared(last)
    marks = [
        style.scatter(
            "markers",
            [number - 0.15 for number in range(1, len(singles) + 1)],
            singles,
            (f"pair {n}: {ratio:.2f} times" for n, ratio in enumerate(singles, start=1)),
            name="a pair",
            marker=style.marker(style.INK, "circle-open", 8),
        ),
        style.scatter(
            "markers",
            numbers,
            [finding.ratio for finding in findings],
            (
                f"{wording.count(n, 'pair')}: {f.ratio:.2f} times ({span})"
                for n, f, span in zip(numbers, findings, spans, strict=True)
            ),
            name="all pairs so far, with the 95 % interval",
            marker=style.marker(style.BEST, "diamond", 10),
            error_y={
                "array": [0.0 if f.high is None else f.high - f.ratio for f in findings],
                "arrayminus": [f.ratio - f.low for f in findings],
                "color": style.BEST,
                "thickness": 2,
                "width": 6,
            },
        ),
        style.scatter(
            "lines",
            [0.5, len(singles) + 0.5],
            [1.0, 1.0],
            None,
            name="no difference",
            line={"color": style.OTHER, "dash": "dash", "width": 1.5},
        ),
    ]
    drawing = style.drawing(
        marks,
        340,
        xaxis={"title": {"text": "pair"}, "dtick": max(1, len(singles) // 12), "zeroline": False},
        yaxis=style.ratio_axis([*singles, *filter(None, highs)], f"times {word}"),
    )
    summary = (
        f"{wording.count(len(singles), 'pair')} {how}: {last.ratio:.2f} times {word} ({spans[-1]});"
        f" each by itself shows {min(singles):.2f} to {max(singles):.2f}."
    )
    rows = [("1", f"{singles[0]:.3f}", "", "")]
    rows += [
        (str(n), f"{singles[n - 1]:.3f}", f"{f.ratio:.3f}", span)
        for n, f, span in zip(numbers, findings, spans, strict=True)
    ]
    table = Table.of(("pair", "ratio", "all so far", "95 % interval"), rows)
    return Figure("narrowing", "What the pairs show, one after the other", summary, drawing, table)


# --- a pair, slice by slice ------------------------------------------------------------------


@dataclass(frozen=True)
class _Slice:
    """A turn of one launch of a pair, s after the pair began.

    ``pace`` is in iterations a second; ``None``: the program's log does not cover it.
    ``neighbours`` are the threads of others that wanted a CPU at its end.
    """

    begin_s: float
    end_s: float
    pace: float | None
    neighbours: int


@dataclass(frozen=True)
class _Launch:
    """One launch of a pair, with its turns."""

    side: Side
    number: int
    slices: tuple[_Slice, ...]

    @property
    def paces(self) -> list[float]:
        return [piece.pace for piece in self.slices if piece.pace is not None]

    @property
    def unsteadiness(self) -> float:
        """How much the pace changes from slice to slice; 0.0 if it is not known."""
        logs = [math.log(pace) for pace in self.paces]
        return statistics.stdev(logs) if len(logs) > 1 else 0.0


def _slices(data: StudyView, history: History) -> Figure | None:
    """Return the figure of the pair beside which the machine changed most; ``None`` without one."""
    sides = {side.setting: side for side in runs.sides(data)}
    drawn = []
    for pair in pairing.side_by_side(history):
        settings = [data.pooling.canonical(record.setting) for record in pair]
        if all(sides.get(setting) for setting in settings):
            launches = [_launch(sides[s], r) for s, r in zip(settings, pair, strict=True)]
            if all(launch.slices for launch in launches):
                drawn.append(sorted(launches, key=lambda launch: launch.side.colour))
    if not drawn:
        return None
    chosen = max(drawn, key=lambda launches: min(launch.unsteadiness for launch in launches))
    parts = []
    for launch in chosen:
        run_s = sum(piece.end_s - piece.begin_s for piece in launch.slices)
        turns = f"{wording.count(len(launch.slices), 'slice')}, {_three(run_s)} s"
        pace = f", median pace {_three(statistics.median(launch.paces))}" if launch.paces else ""
        parts.append(
            f"{wording.capital(launch.side.name)} (launch {launch.number}): {turns}{pace}."
        )
    rows = [
        (
            str(launch.number),
            launch.side.name,
            f"{piece.begin_s:.2f}",
            f"{piece.end_s:.2f}",
            "" if piece.pace is None else _three(piece.pace),
            str(piece.neighbours),
        )
        for launch in chosen
        for piece in launch.slices
    ]
    table = Table.of(
        ("launch", "", "from, s", "to, s", "iterations/s", "threads of others"),
        sorted(rows, key=lambda row: float(row[2])),
    )
    slices = [piece for launch in chosen for piece in launch.slices]
    if busy := [piece.neighbours for piece in slices if piece.neighbours]:
        threads = (
            f"in {len(busy)} of {len(slices)} slices, at most {wording.count(max(busy), 'thread')}"
        )
        parts.append(f"Grey: others wanted a CPU as well ({threads}).")
    summary = f"At any moment one of the two ran. {' '.join(parts)}"
    more = "" if len(drawn) == 1 else f" (one of {len(drawn)} pairs)"
    return Figure(
        "slices", f"Side by side, slice by slice{more}", summary, _slices_drawing(chosen), table
    )


def _three(value: float) -> str:
    """Write a number with three figures."""
    return f"{value:.3g}"


def _launch(side: Side, record: LaunchRecord) -> _Launch:
    """Return the turns of a launch, with the pace in each as far as its log tells."""
    together = record.outcome.side_by_side
    turns = () if together is None else together.slices
    ends_s = list(accumulate(end_s - begin_s for begin_s, end_s in turns))
    clock = _clock(record)
    paced = []
    neighbours = () if together is None else together.neighbours
    for (begin_s, end_s), ran_s, others in zip_longest(turns, ends_s, neighbours):
        pace = _pace(clock, ran_s - (end_s - begin_s), ran_s)
        paced.append(_Slice(begin_s, end_s, pace, others or 0))
    return _Launch(side, record.number, tuple(paced))


def _clock(record: LaunchRecord) -> list[tuple[float, int]]:
    """Return what a launch had done when, in s of its running time: its log begins later.

    The last entry of a whole run is left out: what comes at the end of a run is no iteration.
    """
    progress = record.outcome.progress
    late = [entry.seen_s - entry.elapsed_s for entry in progress if entry.seen_s is not None]
    start_s = max(0.0, min(late, default=0.0))
    shown = progress[:-1] if record.outcome.samples else progress
    return [(start_s + entry.elapsed_s, entry.iteration) for entry in shown]


def _pace(clock: Sequence[tuple[float, int]], begin_s: float, end_s: float) -> float | None:
    """Return the iterations a second between two moments; ``None`` if the log tells too little."""
    if len(clock) < 2:
        return None
    since_s, until_s = max(begin_s, clock[0][0]), min(end_s, clock[-1][0])
    if until_s - since_s < _LEAST_SHARE * (end_s - begin_s):
        return None
    pace = (_done(clock, until_s) - _done(clock, since_s)) / (until_s - since_s)
    return pace if pace > 0 else None


def _done(clock: Sequence[tuple[float, int]], at_s: float) -> float:
    """Return how many iterations were done at a moment that the log covers."""
    place = max(1, bisect_left(clock, at_s, key=lambda entry: entry[0]))
    (before_s, before), (after_s, after) = clock[place - 1 : place + 1]
    share = (at_s - before_s) / (after_s - before_s) if after_s > before_s else 1.0
    return before + share * (after - before)


def _slices_drawing(pair: Sequence[_Launch]) -> JsonDict:
    """Draw the pace in each slice above, and who ran when below, over the time of the pair."""
    traces: list[JsonDict] = []
    for row, launch in enumerate(pair):
        paced = [piece for piece in launch.slices if piece.pace is not None]
        name, symbol = style.inert(launch.side.name), ("circle", "square")[row]
        traces.append(
            style.scatter(
                "lines+markers",
                [(piece.begin_s + piece.end_s) / 2 for piece in paced],
                [piece.pace for piece in paced],
                (f"{name}: {_three(piece.pace or 0.0)} iterations a second" for piece in paced),
                name=name,
                line={"color": launch.side.colour, "width": 1.2},
                marker=style.marker(launch.side.colour, symbol, 7),
                yaxis="y2",
            )
        )
        ends = [(piece.begin_s, piece.end_s, None) for piece in launch.slices]
        traces.append(
            style.scatter(
                "lines",
                [at for end in ends for at in end],
                [row] * (3 * len(ends)),
                None,
                showlegend=False,
                line={"color": launch.side.colour, "width": 12},
            )
        )
    paces = [pace for launch in pair for pace in launch.paces]
    names = [style.inert(launch.side.name) for launch in pair]
    rows = style.row_axis(names)
    if not paces:
        return style.drawing(
            traces, 170, xaxis=_TIME, yaxis=rows, showlegend=False, shapes=_shades(pair)
        )
    ends_log = [math.log10(least_or_most) for least_or_most in (min(paces), max(paces))]
    axis = {
        "type": "log",
        "title": {"text": "iterations a second (logarithmic)"},
        "range": [ends_log[0] - 0.1, ends_log[1] + 0.1],
        "domain": [0.24, 1],
    }
    return style.drawing(
        traces,
        420,
        xaxis={**_TIME, "anchor": "y"},
        yaxis={**rows, "domain": [0, 0.16]},
        yaxis2=axis,
        shapes=_shades(pair),
    )


def _shades(pair: Sequence[_Launch]) -> list[JsonDict]:
    """Return a shade behind each slice at whose end others wanted a CPU, darker for more."""
    return [
        {
            "type": "rect",
            "yref": "paper",
            "x0": piece.begin_s,
            "x1": piece.end_s,
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "fillcolor": style.OTHER,
            "opacity": min(0.4, 0.15 * piece.neighbours),
            "layer": "below",
        }
        for launch in pair
        for piece in launch.slices
        if piece.neighbours
    ]


_TIME = {"title": {"text": "seconds since the pair began"}, "rangemode": "tozero"}
