"""Which knobs were varied, and what was found at each of their values."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.exporters import ExportInput
from tuner.model import Measurement, Value


def knobs(data: ExportInput, weights: Mapping[str, float]) -> list[str]:
    """The knobs with more than one value among the settings with a time, the weightiest first.

    Args:
        data: The study.
        weights: The importance of each, where it is known; of others those with more values
            come first.
    """
    values: dict[str, set[Value]] = {}
    for found in timed(data):
        for name, value in found.setting.items:
            values.setdefault(name, set()).add(value)
    order = [knob.name for knob in data.spec.knobs]
    names = [name for name in order if len(values.get(name, ())) > 1]
    return sorted(names, key=lambda n: (-weights.get(n, 0.0), -len(values[n]), order.index(n)))


def timed(data: ExportInput) -> list[Measurement]:
    """The settings with a time, or with where they were going; the defaults left out."""
    return [
        found
        for found in data.measurements
        if found.typical_s is not None and not found.setting.is_baseline
    ]


def fastest(data: ExportInput, *names: str) -> dict[tuple[Value, ...], Measurement]:
    """By the values of these knobs the fastest setting that has them: measured before stopped."""
    found: dict[tuple[Value, ...], Measurement] = {}
    for measurement in timed(data):  # the fastest first, then the stopped ones
        values = measurement.setting.as_dict()
        if all(name in values for name in names):
            found.setdefault(tuple(values[name] for name in names), measurement)
    return found


def rank(found: Measurement) -> tuple[bool, float]:
    """What settings are sorted by: the fastest first, then those that were only stopped."""
    return found.elapsed_s is None, found.typical_s or 0.0
