"""Reads a number in a line of text, with its unit and its format. Pure.

A group of a pattern only points at a number. What is read is the whole number that stands there,
so that a group that holds a part of it is noticed. What a line alone does not tell (is ``1,204``
a little more than one, or more than a thousand?) is decided in
:mod:`tuner.study.believed_figures`, which sees all lines of a study.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.launch.objectives import MOST
from tuner.model import Mark, Reading
from tuner.model.errors import shown
from tuner.model.units import converted, unit_of


class CutError(ValueError):
    """The group of the pattern holds a ``part`` of the number that stands there, the ``whole``."""

    def __init__(self, part: Reading, whole: Reading) -> None:
        super().__init__("is a part of a number")
        self.part, self.whole = part, whole


#: What stands between groups of digits or before decimals. No-break spaces do; a blank does not.
_NUMBER = re.compile(
    r"(?:(?<![\w.)\]-])[+-])?(?:(?<!\w)\d{1,3}(?:_\d{3})+(?![\d_])(?:\.\d+)?"
    r"|\d+(?:[.,'\u2019\u00a0\u202f]\d+)*\.?|\.\d+)(?:[EeDd][+-]?\d+)?",
    re.ASCII,
)
#: ``0:01:25``, ``1 day, 2:03:04.5``.
_CLOCK = re.compile(r"(?:(\d+) days?, )?(\d+(?::\d\d){1,2}(?:[.,]\d+)?)(?![:\d])", re.ASCII)
#: What makes a time of day of the clock behind it: ``2026-11-26T12:00:05``.
_DATE_BEFORE = re.compile(r"\d{4}([-/.])\d\d?\1\d\d?[T ]$", re.ASCII)
#: ``1m 1.35s``, ``2 hours 3 minutes``; not ``1s 54ms/step``, which are two times.
_NAMED = re.compile(
    r"(?:(\d+) ?(?:d|days?)(?![A-Za-z/]),? *)?"
    r"(?:(\d+) ?(?:h|hrs?|hours?)(?![A-Za-z/]),? *)?"
    r"(?:(\d+) ?(?:m|mins?|minutes?)(?![A-Za-z/]),? *)?"
    r"(?:(\d+(?:[.,]\d+)?) ?(?:s|secs?|seconds?)(?![A-Za-z/]))?",
    re.ASCII,
)
_DIGIT = re.compile(r"[+-]?\.?\d", re.ASCII)
#: Digits in groups with blanks between them: only if the pattern's own group has the blanks.
_WITH_BLANKS = re.compile(r"\s*\d{1,3}(?: \d{3})+(?:[.,]\d+)?\s*", re.ASCII)
#: A mark between groups of digits that is no decimal mark anywhere.
_GROUPED = re.compile("(?<=\\d)['_\u2019\u00a0\u202f](?=\\d{3}(?!\\d))", re.ASCII)


def _form(
    form: str, by_point: str | None, by_comma: str | None, mark: Mark
) -> tuple[re.Pattern[str], str | None, str | None, Mark]:
    return re.compile(form, re.ASCII), by_point, by_comma, mark


#: A format, which letter begins its decimals (empty: it has none; ``None``: it is no number) if
#: the program's decimal mark is a point, and if it is a comma, and the mark that it shows.
_FORMATS = (
    _form(r"[1-9]\d{0,2}\.\d{3}", ".", "", Mark.UNKNOWN),
    _form(r"[1-9]\d{0,2},\d{3}", "", ",", Mark.EITHER),
    _form(r"\d+", "", "", Mark.UNKNOWN),
    _form(r"\d+\.\d*|\.\d+|[1-9]\d{0,2}(?:,\d{3})+\.\d+", ".", None, Mark.POINT),
    _form(r"\d+,\d+|[1-9]\d{0,2}(?:\.\d{3})+,\d+", None, ",", Mark.COMMA),
    _form(r"[1-9]\d{0,2}(?:,\d{3}){2,}", "", None, Mark.POINT),
    _form(r"[1-9]\d{0,2}(?:\.\d{3}){2,}", None, "", Mark.COMMA),
)
#: What makes of ``1`` the begin of ``1 204,5``.
_BLANK_AND_DIGITS = re.compile(r" \d{3}(?:[.,]\d+)?(?![\d:])", re.ASCII)

_NAME = "[A-Za-z\u00b5\u03bc]+"
_UNIT = re.compile(rf" ?({_NAME}(?:(?:/| per ){_NAME})*|%)(?!\w)")
_UNIT_IN_BRACKETS = re.compile(rf" ?[(\[]({_NAME}(?:/{_NAME})?)[)\]]")
_UNIT_BEFORE = re.compile(rf"[\s_(\[]({_NAME}(?:/{_NAME})?)[)\]\"']* *[:=]? *$")
#: What may stand beside the number in the group.
_QUOTES, _END = re.compile(r"[\s\"']*"), re.compile(r"[\s\"'.,;:)\]]*")


@dataclass(frozen=True)
class _Number:
    """A number in a line; ``by_point`` and ``by_comma`` are both ``None`` of a version: 1.2.3."""

    start: int
    end: int
    by_point: float | None
    by_comma: float | None
    mark: Mark = Mark.UNKNOWN
    unit: str = ""


def read(before: str, text: str, after: str, *, is_separated: bool = False) -> Reading:
    """Read the number that a text holds.

    Args:
        before: What stands before it in its line.
        text: What the group of a pattern holds.
        after: What stands after it.
        is_separated: The pattern names a comma or blank beside its group: no part of a number.

    Raises:
        CutError: The number goes on beyond the text.
        ValueError: There is no number in it; the message goes on after "the match".
    """
    if not text.strip():
        raise ValueError("has nothing in its group")
    plain = text.strip().replace(" ", "\u00a0") if _WITH_BLANKS.fullmatch(text) else text
    line = before + plain + after
    start = len(before) + len(plain) - len(plain.lstrip())
    end = len(before) + len(plain.rstrip())
    number = next((n for n in numbers(line, is_separated=is_separated) if n.end > start), None)
    no_number = ValueError(f"has {shown(text)} in its group, which is not a number")
    if number is None or number.start >= end:
        raise no_number
    first, last = number.start, number.end
    if _DATE_BEFORE.search(line[:first]) and _clock(line, first) is not None:
        raise ValueError(f"has {shown(text)} in its group, a time of day and no duration")
    more = _BLANK_AND_DIGITS.match(line, last)
    if more and not is_separated and re.fullmatch(r"\d{1,3}", line[first:last], re.ASCII):
        last = more.end()
    if _DIGIT.search(line[first:start]) or _DIGIT.search(line[max(end, first) : last]):
        whole = Reading(line[:first], line[first:last], line[last:])
        raise CutError(Reading(before, text, after), whole)
    unit = _UNIT.match(line, number.end)
    rest = min(unit.end(), max(end, number.end)) if unit else number.end
    is_alone = _QUOTES.fullmatch(line[start:first]) and _END.fullmatch(line[rest:end])
    if not is_alone or (number.by_point is None and number.by_comma is None):
        raise no_number
    named = number.unit or _unit_beside(line, first, number.end)
    values = number.by_point, number.by_comma
    return Reading(before, text, after, *values, number.mark, named)


def figure(reading: Reading, decimal: Mark, unit: str = "") -> float:
    """Return the figure of a reading in a unit, if the units go together.

    Raises:
        ValueError: It cannot be compared; the message goes on after "the match".
    """
    value = reading.by_comma if decimal is Mark.COMMA else reading.by_point
    if value is None:
        raise ValueError(f"is {shown(reading.text)}, no number with a decimal {decimal}")
    if value <= 0:
        raise ValueError(f"is {shown(value)}: a figure must be above 0")
    same = converted(value, reading.unit, unit)
    value = value if same is None else same
    if not 1 / MOST <= value <= MOST:
        raise ValueError(f"is {shown(value)}, beyond what is compared")
    return value


def _unit_beside(line: str, start: int, end: int) -> str:
    """Return the word after the number, else a unit of time or rate in brackets or before it.

    ``54 best``, ``54 (ms)``, ``Time (ms): 54``.
    """
    if after := _UNIT.match(line, end):
        return after[1].replace(" per ", "/")
    others = _UNIT_IN_BRACKETS.match(line, end), _UNIT_BEFORE.search(line[:start])
    return next((match[1] for match in others if match and unit_of(match[1])), "")


def numbers(line: str, *, is_separated: bool = False) -> Iterator[_Number]:
    """Yield the numbers in a line, from left to right."""
    end = 0
    while digit := _DIGIT.search(line, end):
        start = digit.start()
        if (time := _clock(line, start) or _named(line, start)) is not None:
            end, seconds = time
            yield _Number(start, end, seconds, seconds, unit="s")
        elif (match := _NUMBER.match(line, start)) is not None:
            end = match.end()
            yield from _split(match[0], start, is_separated)
        else:  # the sign belongs to the word before it
            end = start + 1


def _clock(line: str, start: int) -> tuple[int, float] | None:
    match = _CLOCK.match(line, start)
    if match is None:
        return None
    seconds = 86400.0 * int(match[1] or 0)
    for power, part in enumerate(reversed(match[2].replace(",", ".").split(":"))):
        seconds += float(part) * 60**power
    return match.end(), seconds


def _named(line: str, start: int) -> tuple[int, float] | None:
    match = _NAMED.match(line, start)
    parts = match.groups() if match else ()
    if match is None or sum(part is not None for part in parts) < 2:
        return None
    values = [float((part or "0").replace(",", ".")) for part in parts]
    seconds = sum(value * of for value, of in zip(values, (86400, 3600, 60, 1), strict=True))
    return start + len(match[0].rstrip(" ,")), seconds


def _split(run: str, start: int, is_separated: bool) -> Iterator[_Number]:
    """Yield the number that digits and marks in a row are, or those of a list with commas."""
    run = run.rstrip(".") if run.count(".") != 1 else run  # the end of a sentence
    values = _formatted(run)
    if "," in run and (is_separated or values is None):
        for part in run.split(","):
            yield _Number(start, start + len(part), *(_formatted(part) or (None, None)))
            start += len(part) + 1
    else:
        yield _Number(start, start + len(run), *(values or (None, None)))


def _formatted(run: str) -> tuple[float | None, float | None, Mark] | None:
    """Return a number by point and by comma, and the mark that it shows.

    ``None``: its format is not known.
    """
    match = re.fullmatch(r"([+-]?)([^EeDd]*)(?:[EeDd]([+-]?\d+))?", run, re.ASCII)
    if match is None:
        return None
    digits = _GROUPED.sub("", match[2])
    # A mark beside other marks, or before an exponent, can only be that of decimals.
    is_bare = digits == match[2] and match[3] is None

    def value(decimal: str | None) -> float | None:
        if decimal is None:
            return None
        plain = "".join(letter for letter in digits if letter.isdecimal() or letter == decimal)
        return float(f"{match[1]}{plain.replace(',', '.')}e{match[3] or 0}")

    for form, by_point, by_comma, mark in _FORMATS if is_bare else _FORMATS[2:]:
        if form.fullmatch(digits):
            return value(by_point), value(by_comma), mark
    return None
