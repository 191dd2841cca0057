"""``csv`` and ``md``: every setting of the study with its time, the fastest first."""

from __future__ import annotations

import csv as writer
import io

from tuner import wording
from tuner.exporters import Export, ExportInput, header
from tuner.model import Measurement


def csv(data: ExportInput) -> Export:
    """Comma-separated values: one row a setting, times in seconds."""
    names = [knob.name for knob in data.spec.knobs]
    file = io.StringIO()
    table = writer.writer(file, lineterminator="\n")
    table.writerow(["kind", *names, "elapsed_s", "runs", "launches", "ratio", "bound_s", "failure"])
    for measurement in data.measurements:
        values = measurement.setting.as_dict()
        ratio = speed_up(data, measurement)
        table.writerow(
            [
                "baseline" if measurement.setting.is_baseline else "setting",
                *(values.get(name, "") for name in names),
                "" if measurement.elapsed_s is None else measurement.elapsed_s,
                len(measurement.samples),
                measurement.launches,
                "" if ratio is None else f"{ratio:.4f}",
                "" if measurement.stopped is None else measurement.stopped.bound_s,
                wording.failure(measurement.failure) if measurement.failure else "",
            ]
        )
    return Export(text=file.getvalue())


def markdown(data: ExportInput) -> Export:
    """A table for a report or an issue, under two lines that say what it is."""
    names = [knob.name for knob in data.spec.knobs]
    text = "".join(f"- {_cell(line)}\n" for line in header.lines(data))
    titles = [*names, "time", "runs", _against(data), ""]
    text += "\n| " + " | ".join(_cell(title) for title in titles) + " |\n"
    text += "|" + " --- |" * len(titles) + "\n"
    for measurement in data.measurements:
        text += "| " + " | ".join(_cell(cell) for cell in _row(data, measurement)) + " |\n"
    return Export(text=text)


def _against(data: ExportInput) -> str:
    """What the speed-ups of the table are against."""
    reference = data.result.reference
    if reference is None or reference.setting.is_baseline:
        return "against the defaults"
    return "against the first that worked"


def _row(data: ExportInput, measurement: Measurement) -> list[str]:
    values = measurement.setting.as_dict()
    note = wording.failure(measurement.failure) if measurement.failure else ""
    if measurement.stopped is not None:
        note = wording.stopped(measurement.stopped)
    if measurement.setting.is_baseline:
        note = ("your defaults " + note).strip()
    return [
        *(str(values.get(knob.name, "")) for knob in data.spec.knobs),
        "" if measurement.elapsed_s is None else wording.seconds(measurement.elapsed_s),
        str(len(measurement.samples)),
        wording.times(speed_up(data, measurement)),
        note,
    ]


def speed_up(data: ExportInput, measurement: Measurement) -> float | None:
    """How many times faster a setting is than the reference; ``None`` where one has no time."""
    reference = data.result.reference
    if reference is None or reference.elapsed_s is None or measurement.elapsed_s is None:
        return None
    return reference.elapsed_s / measurement.elapsed_s


def _cell(text: str) -> str:
    """Text inside a Markdown table: a bar or a newline would break the row."""
    return header.one_line(text).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
