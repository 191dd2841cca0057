"""``csv`` and ``md``: every setting of the study with its time, the fastest first."""

from __future__ import annotations

import csv as writer
import io
import re
from collections.abc import Sequence

from tuner.model import Measurement, StudySpec, Value, figures, price, wording
from tuner.results.exporters import Export, header
from tuner.results.study_view import StudyView

_FIGURES = (
    "elapsed_s",
    "runs",
    "launches",
    "ratio",
    "bound_s",
    "failure",
    "figure",
    "unit",
    "windows",
)

#: What begins a formula; a line break in front is passed over by some programs.
_FORMULA = ("=", "+", "-", "@", "\n")

#: What means something in Markdown; an underscore inside a name does not.
_MARKS = re.compile(r"[\\|`*\[\]~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<=:)(?=//)")


def csv(data: StudyView) -> Export:
    """Comma-separated values: one row a setting, times in seconds, figures in their unit.

    Text that a spreadsheet would take for a formula gets a ``'`` in front.
    """
    names = [knob.name for knob in data.spec.knobs]
    spec = data.spec
    text = _line(["kind", *map(_inert, names), *_FIGURES, *extra_titles(spec)])
    for measurement in data.measurements:
        values = measurement.setting.as_dict()
        ratio = speed_up(data, measurement)
        text += _line(
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
                *map(_number, _extra(spec, measurement)),
            ]
        )
    return Export(text=text)


def _number(value: float | None) -> str:
    """Six significant digits: a clock tells no more."""
    return "" if value is None else f"{value:.6g}"


def extra_titles(spec: StudySpec) -> list[str]:
    """What is asked for beside the figure: items a second, what a run (or the like) costs."""
    timed = price.timed(spec.objective)
    titles = [] if spec.items is None else ["items/s"]
    if spec.price_per_hour is not None and timed is not None:
        titles.append(f"cost per {timed.what}")
    return titles


def extra_cells(spec: StudySpec, measurement: Measurement) -> list[str]:
    """The same of a setting; empty cells where it has no figure."""
    found = _extra(spec, measurement)
    return ["" if value is None else figures.number(value) for value in found]


def _extra(spec: StudySpec, measurement: Measurement) -> list[float | None]:
    cost, found = measurement.elapsed_s, []
    if spec.items is not None:
        found.append(price.items_per_s(spec, cost))
    if spec.price_per_hour is not None and price.timed(spec.objective) is not None:
        found.append(price.price(spec, cost))
    return found


def markdown(data: StudyView) -> Export:
    """A table for a report or an issue, under two lines that say what it is."""
    names = [knob.name for knob in data.spec.knobs]
    text = "".join(f"- {_cell(line)}\n" for line in header.lines(data))
    titles = [
        *names,
        figures.title(data.spec.objective),
        "runs",
        *window_titles(data),
        _against(data),
    ]
    titles += [*extra_titles(data.spec), ""]
    text += "\n| " + " | ".join(_cell(title) for title in titles) + " |\n"
    text += "|" + " --- |" * len(titles) + "\n"
    for measurement in data.measurements:
        text += "| " + " | ".join(_cell(cell) for cell in _row(data, measurement)) + " |\n"
    return Export(text=text)


def window_titles(data: StudyView) -> list[str]:
    """How many of a setting's runs were windows of a running job, where any was."""
    return ["windows"] if data.result.windows else []


def window_cells(data: StudyView, measurement: Measurement) -> list[str]:
    """The same of a setting."""
    return [str(measurement.windows)] if data.result.windows else []


def _against(data: StudyView) -> str:
    """What the speed-ups of the table are against."""
    reference = data.result.reference
    if reference is None or reference.setting.is_baseline:
        return "against the defaults"
    return "against the first that worked"


def _row(data: StudyView, measurement: Measurement) -> list[str]:
    values, objective = measurement.setting.as_dict(), data.spec.objective
    note = wording.failure(measurement.failure) if measurement.failure else ""
    if measurement.stopped is not None:
        note = figures.stopped(objective, measurement.stopped)
    if measurement.setting.is_baseline:
        note = ("your defaults " + note).strip()
    return [
        *(str(values.get(knob.name, "")) for knob in data.spec.knobs),
        "" if measurement.elapsed_s is None else figures.shown(objective, measurement.elapsed_s),
        str(len(measurement.samples)),
        *window_cells(data, measurement),
        wording.times(speed_up(data, measurement)),
        *extra_cells(data.spec, measurement),
        note,
    ]


def speed_up(data: StudyView, measurement: Measurement) -> float | None:
    """How many times faster a setting is than the reference; ``None`` where one has no time."""
    reference = data.result.reference
    if reference is None or reference.elapsed_s is None or measurement.elapsed_s is None:
        return None
    return reference.elapsed_s / measurement.elapsed_s


def _line(cells: Sequence[object]) -> str:
    """One row; the writer would leave a lone ``\\r`` unquoted if it ended lines with ``\\n``."""
    file = io.StringIO()
    writer.writer(file, lineterminator="\r\n").writerow(cells)
    return file.getvalue().removesuffix("\r\n") + "\n"


def _inert(value: Value) -> Value:
    """A cell that no spreadsheet works out (owasp.org, CSV injection); figures stay figures.

    Control characters but line breaks become ``?``: a terminal would obey them.
    """
    if not isinstance(value, str):
        return value
    text = "\n".join(map(header.one_line, value.split("\n")))
    return f"'{text}" if text.startswith(_FORMULA) else text


def _cell(text: str) -> str:
    """Text inside a Markdown table: nothing of it breaks the row, or is a link or a picture."""
    plain = header.one_line(text).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKS.sub(r"\\\g<0>", plain)
