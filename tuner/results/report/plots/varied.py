"""Which knobs were varied, and what was found at each of their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from tuner.model import Measurement, Value
from tuner.results.study_view import StudyView

Values = TypeVar("Values", bound=tuple[Value, ...])


def knobs(data: StudyView, weights: Mapping[str, float]) -> list[str]:
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


def timed(data: StudyView) -> list[Measurement]:
    """The settings with a time, or with where they were going; the defaults left out."""
    return [
        found
        for found in data.measurements
        if found.typical_s is not None and not found.setting.is_baseline
    ]


def fastest(data: StudyView, *names: str) -> dict[tuple[Value, ...], Measurement]:
    """By the values of these knobs the fastest setting that has them: measured before stopped.

    Of its own values the study's best stands first: what looks faster has not been proven so.
    """
    found: dict[tuple[Value, ...], Measurement] = {}
    best = data.result.candidate
    for measurement in sorted(timed(data), key=lambda each: best is None or not _is(each, best)):
        values = measurement.setting.as_dict()
        if all(name in values for name in names):
            found.setdefault(tuple(values[name] for name in names), measurement)
    return found


def _is(found: Measurement, best: Measurement) -> bool:
    return found.elapsed_s is not None and found.setting == best.setting


def first(data: StudyView, found: Mapping[Values, Measurement]) -> Values | None:
    """Where the study's best stands among these; ``None`` where it does not."""
    best = data.result.candidate
    places = [values for values, each in found.items() if best is not None and _is(each, best)]
    return places[0] if places else None


def caution(data: StudyView, found: Iterable[Measurement]) -> str:
    """A sentence where one of these looks faster than the study's best; else empty."""
    best = data.result.candidate
    if best is None or best.elapsed_s is None:
        return ""
    faster = [each for each in found if each.elapsed_s and each.elapsed_s < best.elapsed_s]
    if not faster:
        return ""
    if all(len(each.samples) < len(best.samples) for each in faster):
        return " What looks faster than the best was launched less often."
    return " What looks faster than the best was not so when both were launched in turn."


def rank(found: Measurement) -> tuple[bool, float]:
    """What settings are sorted by: the fastest first, then those that were only stopped."""
    return found.elapsed_s is None, found.typical_s or 0.0
