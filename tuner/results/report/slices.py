"""One pair side by side, slice by slice: who ran when, how fast, and who else wanted a CPU."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, zip_longest

from tuner.model import JsonDict, LaunchRecord, wording
from tuner.results.report import style
from tuner.results.report.style import Figure
from tuner.results.study_view import Side, StudyView, Table

#: A slice shows a pace if the log covers this share of it.
_LEAST_SHARE = 0.2


@dataclass(frozen=True)
class _Slice:
    """One turn of a launch: its ends in s after the pair began, its pace in iterations a second."""

    side: Side
    begin_s: float
    end_s: float
    pace: float | None
    neighbours: int


def build(data: StudyView) -> Figure | None:
    """Return the figure of one pair; ``None`` if no pair ran side by side.

    It shows the pace of both launches in each slice, a bar where one ran, and a shade where others
    wanted a CPU. Of several pairs it is the one beside which they wanted one most often.
    """
    if data.pairs is None:
        return None
    sides = {side.setting: side for side in data.sides}
    pairs = []
    for pair in data.pairs.launches:
        turns = [_slices(sides[r.canonical], r) for r in pair]
        pairs += [[*turns[0], *turns[1]]] if all(turns) else []
    if not pairs:
        return None
    slices = max(pairs, key=lambda pair: sum(piece.neighbours > 0 for piece in pair))
    slices.sort(key=lambda piece: piece.begin_s)
    rows = [
        (
            piece.side.name,
            f"{piece.begin_s:.2f}",
            f"{piece.end_s:.2f}",
            "" if piece.pace is None else f"{piece.pace:.3g}",
            str(piece.neighbours),
        )
        for piece in slices
    ]
    table = Table(("", "from, s", "to, s", "iterations/s", "threads of others"), rows)
    which = "" if len(pairs) == 1 else f" (one of {len(pairs)} pairs)"
    title = f"Side by side, slice by slice{which}"
    return Figure("slices", title, _summary(slices), _drawing(slices), table)


def _slices(side: Side, record: LaunchRecord) -> list[_Slice]:
    """Return the turns of a launch, with the pace in each as far as its log shows it."""
    side_by_side = record.outcome.side_by_side
    if side_by_side is None:
        return []
    log = _log(record)
    ends_s = list(accumulate(end_s - begin_s for begin_s, end_s in side_by_side.slices))
    turns = []
    for (begin_s, end_s), running_s, neighbours in zip_longest(
        side_by_side.slices, ends_s, side_by_side.neighbours
    ):
        pace = None
        if len(log) > 1:
            since_s = max(running_s - (end_s - begin_s), log[0][0])
            until_s = min(running_s, log[-1][0])
            if until_s - since_s > _LEAST_SHARE * (end_s - begin_s):
                iterations = _iterations_done(log, until_s) - _iterations_done(log, since_s)
                pace = iterations / (until_s - since_s) or None
        turns.append(_Slice(side, begin_s, end_s, pace, neighbours or 0))
    return turns


def _log(record: LaunchRecord) -> list[tuple[float, int]]:
    """Return each logged iteration with the running time of the launch then, s.

    The last entry of a whole run is left out: what comes at the end of a run is no iteration.
    """
    progress = record.outcome.progress
    offsets_s = [entry.seen_s - entry.elapsed_s for entry in progress if entry.seen_s is not None]
    start_s = max(0.0, min(offsets_s, default=0.0))  # when the program's clock began
    entries = progress[:-1] if record.outcome.samples else progress
    return [(start_s + entry.elapsed_s, entry.iteration) for entry in entries]


def _iterations_done(log: Sequence[tuple[float, int]], at_s: float) -> float:
    """Return how many iterations were done at a moment that lies within the log."""
    place = max(1, bisect_left(log, at_s, key=lambda entry: entry[0]))
    (before_s, before), (after_s, after) = log[place - 1 : place + 1]
    share = (at_s - before_s) / (after_s - before_s) if after_s > before_s else 1.0
    return before + share * (after - before)


def _summary(slices: Sequence[_Slice]) -> str:
    texts = ["At any moment one of the two ran."]
    for name in dict.fromkeys(piece.side.name for piece in slices):
        side_slices = [piece for piece in slices if piece.side.name == name]
        paces = [piece.pace for piece in side_slices if piece.pace is not None]
        run_s = sum(piece.end_s - piece.begin_s for piece in side_slices)
        pace = f", median pace {statistics.median(paces):.3g} iterations a second" if paces else ""
        turns = wording.count(len(side_slices), "slice")
        texts.append(f"{wording.capital(name)}: {turns}, {run_s:.3g} s{pace}.")
    if busy := [piece.neighbours for piece in slices if piece.neighbours]:
        most = wording.count(max(busy), "thread")
        texts.append(
            "Grey: others wanted a CPU as well"
            f" (in {len(busy)} of {len(slices)} slices, at most {most})."
        )
    return " ".join(texts)


def _drawing(slices: Sequence[_Slice]) -> JsonDict:
    """Draw the pace in each slice, and below it who ran when, over the time of the pair."""
    traces: list[JsonDict] = []
    sides = sorted({piece.side.name: piece.side for piece in slices}.items())
    for row, (name, side) in enumerate(sides):
        side_slices = [piece for piece in slices if piece.side.name == name]
        timed = [piece for piece in side_slices if piece.pace is not None]
        colour = style.OF_SIDE[side.kind]
        middles = ((piece.begin_s + piece.end_s) / 2 for piece in timed)
        hover = (f"{style.inert(name)}: {piece.pace:.3g} iterations a second" for piece in timed)
        traces.append(
            style.scatter(
                "lines+markers",
                middles,
                (piece.pace for piece in timed),
                hover,
                name=style.inert(name),
                line={"color": colour, "width": 1.2},
                marker=style.marker(colour, ("circle", "square")[row], 7),
                yaxis="y2",
            )
        )
        turns = [end_s for piece in side_slices for end_s in (piece.begin_s, piece.end_s, None)]
        line = {"color": colour, "width": 12}
        rows = [row] * len(turns)
        traces.append(style.scatter("lines", turns, rows, None, showlegend=False, line=line))
    shades = [
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
        for piece in slices
        if piece.neighbours
    ]
    names = style.names_axis([name for name, _ in sides])
    paces = [piece.pace for piece in slices if piece.pace is not None]
    axes: JsonDict = {"yaxis": names}
    if paces:
        axes = {
            "yaxis": {**names, "domain": [0, 0.16]},
            "yaxis2": {**style.axis("iterations a second", paces), "domain": [0.24, 1]},
        }
    return style.drawing(
        traces,
        400 if paces else 170,
        xaxis={"title": {"text": "seconds since the pair began"}, "rangemode": "tozero"},
        shapes=shades,
        **axes,
    )
