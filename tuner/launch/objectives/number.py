"""Reads a number in a line of text, with its unit. Pure.

A group of a pattern only points at a number. What is read is the whole number that stands there,
so that a group that holds a part of it is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tuner.launch.objectives import MOST_FIGURE
from tuner.model import Reading
from tuner.model.errors import shown
from tuner.model.units import converted, unit_of


class CutError(ValueError):
    """The group of the pattern holds a ``part`` of the number that stands there, the ``whole``."""

    def __init__(self, part: Reading, whole: Reading) -> None:
        super().__init__("is a part of a number")
        self.part, self.whole = part, whole


_SIGN, _EXPONENT = r"(?:(?<![\w.)\]-])[+-])?", r"(?:[EeDd][+-]?\d+)?"
#: What may be one number: digits, with marks of any language between groups of them or before
#: decimals. A blank is no such mark: see ``_WITH_BLANKS``.
_RUN = re.compile(
    rf"{_SIGN}(?:(?<!\w)\d{{1,3}}(?:_\d{{3}})+(?![\d_])(?:\.\d+)?"
    rf"|\d+(?:[.,'\u2019\u00a0\u202f]\d+)*\.?|\.\d+){_EXPONENT}",
    re.ASCII,
)
#: What is one number: ``12.5``, ``.5``, ``1.5D+02``, ``1,204.5``, ``1_204``. A decimal comma is not
#: read: nobody could tell ``1,204`` from a thousand and more.
_VALUE = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+|[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:_\d{3})+(?:\.\d+)?)"
    + _EXPONENT,
    re.ASCII,
)
#: ``12,48``, ``1.204,5``: one number with a decimal comma, and no list of numbers.
_DECIMAL_COMMA = re.compile(
    rf"[+-]?\d+(?:[._'\u2019\u00a0\u202f]\d{{3}})*,\d+\.?{_EXPONENT}", re.ASCII
)
#: ``0:01:25``, ``1 day, 2:03:04.5``.
_CLOCK = re.compile(r"(?:(\d+) days?, )?(\d+(?::\d\d){1,2}(?:[.,]\d+)?)(?![:\d])", re.ASCII)
#: A date, after which ``12:00:05`` is a time of day: ``2026-11-26T12:00:05``.
_DATE_BEFORE = re.compile(r"\d{4}([-/.])\d\d?\1\d\d?[T ]$", re.ASCII)
#: ``1m 1.35s``, ``2 hours 3 minutes``; not ``1s 54ms/step``, which are two times.
_DURATION = re.compile(
    r"(?:(\d+) ?(?:d|days?)(?![A-Za-z/]),? *)?"
    r"(?:(\d+) ?(?:h|hrs?|hours?)(?![A-Za-z/]),? *)?"
    r"(?:(\d+) ?(?:m|mins?|minutes?)(?![A-Za-z/]),? *)?"
    r"(?:(\d+(?:[.,]\d+)?) ?(?:s|secs?|seconds?)(?![A-Za-z/]))?",
    re.ASCII,
)
_DIGIT = re.compile(r"[+-]?\.?\d", re.ASCII)
#: ``1 204.5``: digits in groups with blanks between them.
_WITH_BLANKS = re.compile(r"[1-9]\d{0,2}(?: \d{3})+(?:\.\d+)?(?![\d:])", re.ASCII)

_NAME = "[A-Za-z\u00b5\u03bc]+"
_UNIT = re.compile(rf" ?({_NAME}(?:(?:/| per ){_NAME})*|%)(?!\w)")
_UNIT_IN_BRACKETS = re.compile(rf" ?[(\[]({_NAME}(?:/{_NAME})?)[)\]]")
_UNIT_BEFORE = re.compile(rf"[\s_(\[]({_NAME}(?:/{_NAME})?)[)\]\"']* *[:=]? *$")
#: What may stand before the number in the group, and after it.
_BEFORE, _AFTER = re.compile(r"[\s\"']*"), re.compile(r"[\s\"'.,;:)\]]*")


class _Number(NamedTuple):
    """A number in a line; its value is ``None`` of a version, such as 1.2.3."""

    start: int
    end: int
    value: float | None
    unit: str = ""


def read(before: str, text: str, after: str, *, separators: str = "") -> Reading:
    """Read the number in the `text` of a pattern's group, between the rest of its line.

    ``separators`` are a comma, a blank or both, if the pattern has them beside its group: they are
    no part of a number then.

    Raises:
        CutError: The number goes on beyond the text.
        ValueError: There is no number in it; the message goes on after "the match".
    """
    if not text.strip():
        raise ValueError("has nothing in its group")
    line = before + text + after
    start = len(before) + len(text) - len(text.lstrip())
    end = len(before) + len(text.rstrip())
    numbers = _numbers(line, splits_commas="," in separators)
    number = next((number for number in numbers if number.end > start), None)
    no_number = ValueError(f"has {shown(text)} in its group, which is not a number")
    if number is None or number.start >= end:
        raise no_number
    first, last, value = number.start, number.end, number.value  # start and end are the group's
    if _DATE_BEFORE.search(line[:first]) and _clock(line, first) is not None:
        raise ValueError(f"has {shown(text)} in its group, a time of day and no duration")
    if " " not in separators and (grouped := _WITH_BLANKS.match(line, first)):
        last, value = grouped.end(), float(grouped[0].replace(" ", ""))
    if _DIGIT.search(line[first:start]) or _DIGIT.search(line[max(end, first) : last]):
        whole = Reading(line[:first], line[first:last], line[last:])
        raise CutError(Reading(before, text, after), whole)
    unit = _UNIT.match(line, last)
    unit_end = min(unit.end(), max(end, last)) if unit else last
    is_alone = _BEFORE.fullmatch(line[start:first]) and _AFTER.fullmatch(line[unit_end:end])
    if not is_alone or value is None:
        raise no_number
    return Reading(before, text, after, value, number.unit or _unit_beside(line, first, last))


def figure(reading: Reading, unit: str = "") -> float:
    """Return the figure of a reading in a unit, if the units go together.

    ``ValueError``: it cannot be compared; the message goes on after "the match".
    """
    value = reading.value
    if value is None or value <= 0:
        raise ValueError(f"is {shown(value)}: a figure must be above 0")
    in_unit = converted(value, reading.unit, unit)
    value = value if in_unit is None else in_unit
    if not 1 / MOST_FIGURE <= value <= MOST_FIGURE:
        raise ValueError(f"is {shown(value)}, beyond what is compared")
    return value


def _unit_beside(line: str, start: int, end: int) -> str:
    """Return the unit beside a number: ``54 best``, ``54 (ms)``, ``Time (ms): 54``."""
    if after := _UNIT.match(line, end):
        return after[1].replace(" per ", "/")
    matches = _UNIT_IN_BRACKETS.match(line, end), _UNIT_BEFORE.search(line[:start])
    return next((match[1] for match in matches if match and unit_of(match[1])), "")


def _numbers(line: str, *, splits_commas: bool) -> Iterator[_Number]:
    """Yield the numbers in a line, from left to right."""
    end = 0
    while digit := _DIGIT.search(line, end):
        start = digit.start()
        if (time := _clock(line, start) or _duration(line, start)) is not None:
            end, seconds = time
            yield _Number(start, end, seconds, "s")
        elif match := _RUN.match(line, start):
            end, run = match.end(), match[0]
            run = run.rstrip(".") if run.count(".") != 1 else run  # the end of a sentence
            is_list = splits_commas or not (_VALUE.fullmatch(run) or _DECIMAL_COMMA.fullmatch(run))
            for part in run.split(",") if is_list else [run]:
                literal = re.sub("[Dd]", "e", part.replace(",", "").replace("_", ""))
                value = float(literal) if _VALUE.fullmatch(part) else None
                yield _Number(start, start + len(part), value)
                start += len(part) + 1  # and the comma
        else:  # the sign belongs to the word before it
            end = start + 1


def _clock(line: str, start: int) -> tuple[int, float] | None:
    """Return the end of a time as ``0:01:25``, and its seconds."""
    match = _CLOCK.match(line, start)
    if match is None:
        return None
    seconds = 86400.0 * int(match[1] or 0)
    for power, part in enumerate(reversed(match[2].replace(",", ".").split(":"))):
        seconds += float(part) * 60**power
    return match.end(), seconds


def _duration(line: str, start: int) -> tuple[int, float] | None:
    """Return the end of a time as ``1m 1.35s``, and its seconds; it has two parts or more."""
    match = _DURATION.match(line, start)
    parts = match.groups() if match else ()
    if match is None or sum(part is not None for part in parts) < 2:
        return None
    values = [float((part or "0").replace(",", ".")) for part in parts]
    seconds = sum(value * s for value, s in zip(values, (86400, 3600, 60, 1), strict=True))
    return start + len(match[0].rstrip(" ,")), seconds
