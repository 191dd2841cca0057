"""A study in the output of a notebook's cell, without script and style sheet.

The plot is an image: code hosts and notebooks that are not trusted take a drawing out of HTML, and
leave its words. It has no background, and colours that can be read on a light and a dark one.
"""

from __future__ import annotations

from base64 import b64encode
from html import escape

from tuner.results.report import page, words
from tuner.results.report.plots import launches, svg
from tuner.results.report.plots.style import Figure
from tuner.results.study_view import StudyView


def html(data: StudyView) -> str:
    """The verdict, the times with their intervals, each launch; the same study gives the same."""
    rows = "".join(
        f'<tr><th style="text-align:left">{_text(name)}</th>'
        f'<td style="text-align:left">{_text(value)}</td></tr>'
        for name, value in words.summary(data)
    )
    warning = f"<p>{_text(words.state(data))}</p>" if words.state(data) else ""
    drawn = "".join(_image(figure) for figure in launches.history(data) if figure.drawing)
    return (
        f"<div><p><strong>{_text(data.spec.name)}: {_text(words.verdict(data))}</strong></p>"
        f"{warning}<table>{rows}</table>{drawn}</div>"
    )


def _image(figure: Figure) -> str:
    drawn = b64encode(svg.svg(figure).encode()).decode()
    return f'<img src="data:image/svg+xml;base64,{drawn}" alt="{_text(figure.summary)}"/>'


def _text(value: str) -> str:
    return escape(page.plain(value))
