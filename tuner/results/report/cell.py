"""A study in the output of a notebook's cell, without script and style sheet.

The plot is an image: code hosts and notebooks that are not trusted take a drawing out of HTML, and
leave its words. It has no background, and colours that can be read on a light and a dark one.
"""

from __future__ import annotations

from base64 import b64encode
from html import escape

from tuner.model import figures
from tuner.results.report import page, words
from tuner.results.report.plots import launches, runs, style
from tuner.results.study_view import StudyView

#: Of the plot: its size, where its axes cross, and a grey for light and dark pages.
WIDTH, HEIGHT, LEFT, FLOOR, INK = 680, 230, 70, 205, "#767676"


def html(data: StudyView) -> str:
    """The verdict, the times with their intervals, each launch; the same study gives the same."""
    left = 'style="text-align:left"'
    rows = "".join(
        f"<tr><th {left}>{_text(name)}</th><td {left}>{_text(value)}</td></tr>"
        for name, value in words.summary(data)
    )
    drawn = b64encode(plot(data).encode()).decode()
    (figure,) = launches.history(data)
    return (
        f"<div><p><strong>{_text(data.spec.name)}: {_text(words.verdict(data))}</strong></p>"
        f"<table>{rows}</table>"
        f'<img src="data:image/svg+xml;base64,{drawn}" alt="{_text(figure.summary)}"/></div>'
    )


def plot(data: StudyView) -> str:
    """Each launch that came to something, or was going to; what is off the scale is at its end."""
    objective, shown = data.spec.objective, [run for run in runs.counted(data) if run.going]
    most = max((objective.figure(run.cost) for run in shown if run.cost), default=1.0)
    last = max((run.number for run in shown), default=1)
    marks = []
    for run in style.thinned(shown):
        colour = style.BASELINE if run.is_default else style.BEST
        x = LEFT + (WIDTH - LEFT - 20) * run.number / last
        y = FLOOR - (FLOOR - 40) * min(1.0, objective.figure(run.going or most) / most)
        marks.append(
            f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" stroke="{colour}"'
            f' rx="{0 if run.is_default else 4}" fill="{"none" if run.stopped else colour}"/>'
        )
    legend = "■ your defaults, ● another setting, □ ○ stopped early: projected, or at least"
    texts = (
        (LEFT, 16, "start", legend),
        (LEFT - 8, 44, "end", figures.number(most)),
        (LEFT - 8, FLOOR + 4, "end", "0"),
        (LEFT - 8, 125, "end", figures.axis(objective)),
        (WIDTH - 20, FLOOR + 20, "end", f"launch {last}"),
    )
    written = "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="{INK}">{_text(text)}</text>'
        for x, y, anchor, text in texts
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}"'
        f' font-family="sans-serif" font-size="12"><path d="M{LEFT} 40V{FLOOR}H{WIDTH}"'
        f' fill="none" stroke="{INK}"/>{written}{"".join(marks)}</svg>'
    )


def _text(value: str) -> str:
    return escape(page.plain(value))
