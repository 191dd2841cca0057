"""``csv`` and ``md``: every setting of the study with its time, the fastest first."""

from __future__ import annotations

import csv as writer
import io
import re

from tuner.model import Value, figures, price, wording
from tuner.model.wording import one_line
from tuner.results.exporters import Export
from tuner.results.exporters.job import header
from tuner.results.study_view import StudyView, settings_table

_FIGURES = (
    *("elapsed_s", "runs", "launches", "ratio", "bound_s"),
    *("failure", "figure", "unit", "windows"),
)

#: The starts of a formula; some programs ignore a line break in front of one.
_FORMULA = ("=", "+", "-", "@", "\n")

#: Characters that are markup within a line of Markdown.
_MARKS = re.compile(r"[\\|`*\[\]~<&#$!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")

#: The places at which Markdown makes a link of a bare address, even behind backslashes.
_LINKS = re.compile(r":(?=//)|www(?=\.)|@", re.IGNORECASE)

#: This character is invisible, and keeps Markdown from making a link of what is around it.
_WORD_JOINER = "\u2060"


def csv(data: StudyView) -> Export:
    """Write a row of comma-separated values a setting: times in s, figures in their unit.

    Text that a spreadsheet would take for a formula gets a ``'`` in front.
    """
    spec, columns = data.spec, price.columns(data.spec)
    names = [knob.name for knob in spec.knobs]
    rows: list[list[object]] = [["kind", *map(_inert, names), *_FIGURES, *columns]]
    for measurement in data.measurements:
        values = measurement.setting.as_dict()
        ratio = data.speed_up(measurement)
        rows.append(
            [
                "baseline" if measurement.setting.is_baseline else "setting",
                *(_inert(values.get(name, "")) for name in names),
                _number(measurement.elapsed_s if spec.objective.is_time else None),
                len(measurement.samples),
                measurement.launches,
                "" if ratio is None else f"{ratio:.4f}",
                _number(None if measurement.stopped is None else measurement.stopped.bound_s),
                _inert(wording.failure(measurement.failure) if measurement.failure else ""),
                _number(figures.figure(spec.objective, measurement.elapsed_s)),
                _inert(figures.unit(spec.objective)),
                measurement.windows,
                *(_number(number_of(measurement.elapsed_s)) for number_of in columns.values()),
            ]
        )
    file = io.StringIO()
    writer.writer(file, lineterminator="\n").writerows(rows)
    return Export(text=file.getvalue())


def _number(value: float | None) -> str:
    """Write six significant digits: no clock is more exact."""
    return "" if value is None else f"{value:.6g}"


def markdown(data: StudyView) -> Export:
    """Write a table for a report or an issue, under a few lines that say what it is."""
    table = settings_table(data)
    head = ["against the defaults" if title == "faster" else title for title in table.head]
    text = "".join(f"- {markdown_text(line)}\n" for line in header(data))
    text += "\n| " + " | ".join(map(markdown_text, head)) + " |\n"
    text += "|" + " --- |" * len(head) + "\n"
    for measurement, row in zip(data.measurements, table.rows, strict=True):
        note = [row[-1], wording.failure(measurement.failure) if measurement.failure else ""]
        cells = *row[:-1], "; ".join(filter(None, note))
        text += "| " + " | ".join(map(markdown_text, cells)) + " |\n"
    return Export(text=text)


def _inert(value: Value) -> Value:
    """Make a cell that no spreadsheet works out (owasp.org, CSV injection); figures stay so.

    Control characters but line breaks become ``?``: a terminal would obey them.
    """
    if not isinstance(value, str):
        return value
    text = "\n".join(one_line(line, most=None) for line in value.split("\n"))
    return f"'{text}" if text.startswith(_FORMULA) else text


def markdown_text(text: str) -> str:
    """Escape a text so that Markdown shows it as it is: no markup, link, picture or tag."""
    escaped = _MARKS.sub(r"\\\g<0>", one_line(text, most=None))
    return _LINKS.sub(rf"\g<0>{_WORD_JOINER}", escaped)
