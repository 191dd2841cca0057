"""Draws a recorded surface: the time over one knob, a line for each value of another.

    python -m benchmarks.two_knobs benchmarks/surfaces/imagenet-2core-1rank.json \
        iterator_workers opencv_threads docs/images/imagenet-workers-opencv.png

A point is the median of its runs, the bar the middle half of them, the dotted line the median
of the defaults. Other knobs must have one value.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import pictures
from benchmarks.replay import surface_file
from benchmarks.replay.surface import Surface
from tuner.model import Setting, Value


def quartiles(times_s: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile."""
    if len(times_s) == 1:
        return times_s[0], times_s[0], times_s[0]
    low, middle, high = statistics.quantiles(times_s, n=4, method="inclusive")
    return low, middle, high


def line(job: Surface, across: str, value: Value, of: str) -> list[tuple[float, float, float]]:
    """The quartiles, s, at each value of ``across``, where the knob ``of`` has this value."""
    rest = {name: values[0] for name, values in job.knobs.items()}
    settings = [Setting.of({**rest, across: x, of: value}.items()) for x in job.knobs[across]]
    return [quartiles([run.elapsed_s for run in job.points[job.key(s)].runs]) for s in settings]


def figure(job: Surface, across: str, of: str, defaults_s: Sequence[float]) -> Any:
    """The plot; time starts at zero, so that heights compare."""
    import plotly.graph_objects as go

    made = go.Figure()
    for value in job.knobs[of]:
        low, middle, high = zip(*line(job, across, value, of), strict=True)
        made.add_scatter(
            x=[str(x) for x in job.knobs[across]],
            y=middle,
            name=f"{of} {value}",
            mode="lines+markers",
            error_y={
                "array": [top - y for top, y in zip(high, middle, strict=True)],
                "arrayminus": [y - bottom for y, bottom in zip(middle, low, strict=True)],
            },
        )
    if defaults_s:
        made.add_hline(
            y=statistics.median(defaults_s),
            line={"dash": "dot", "color": "black"},
            annotation_text="the libraries' defaults",
            annotation_position="top left",
        )
    made.update_layout(
        template="plotly_white",
        xaxis={"title": across, "type": "category"},
        yaxis={"title": f"seconds for {job.iterations} iterations", "rangemode": "tozero"},
        margin={"t": 20, "r": 20},
    )
    return made


def main() -> None:
    """Read the surface, print its medians, draw it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("surface", type=Path)
    parser.add_argument("across", help="the knob along the axis")
    parser.add_argument("of", help="the knob with a line for each value")
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    job = surface_file.load(options.surface)
    others = [n for n, values in job.knobs.items() if len(values) > 1 and n != options.across]
    if options.across not in job.knobs or others != [options.of]:
        parser.error(f"{options.surface}: its varied knobs are {', '.join(job.knobs)}")
    for value in job.knobs[options.of]:
        medians = (f"{y:.2f}" for _, y, _ in line(job, options.across, value, options.of))
        print(f"{options.of}={value}:", *medians, "s")
    defaults_s = json.loads(options.surface.read_text()).get("default_runs_s", [])
    drawn = figure(job, options.across, options.of, defaults_s)
    pictures.write(drawn, options.picture, width=900, height=520)


if __name__ == "__main__":
    main()
