"""Propose another pattern for one that matches nothing, or reads a part of a number. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import regex

from tuner.launch.objectives.number import numbers, read
from tuner.model import Reading

#: What may take the place of a group so that it reads a whole number, the simplest first.
_WHOLE = (
    "[0-9.]+",
    "[0-9.eEdD+-]+",
    "[0-9.,]+",
    r"[0-9.,_\x27]+",
    r"[0-9.,\u2019\u00a0\u202f]+",
    "[0-9:.]+",
    "(?:[0-9]+[dhm] *)*[0-9.]+",
    "(?:[0-9]+ *[a-z]+,? *)+[0-9.]+(?: *[a-z]+)?",
    "(?:[0-9]+ days?, )?[0-9:.]+",
    "[0-9]+(?: [0-9]{3})*(?:[.,][0-9]+)?",
)
#: Of many lines so many at the end are looked at.
_LINES = 2000
#: One search of a line for a proposed pattern may take this long, s.
_LIMIT_S = 0.1
_CAPTURES = re.compile(r"\((?!\?)|\(\?P?<(?![=!])")
_WORD = re.compile(r"[^\W\d_]+|%")


def parentheses(pattern: str, group: int) -> tuple[int, int]:
    """Return the places of the parentheses of a pattern's group, by the number of the group."""
    count, is_class, stack, place = 0, False, list[tuple[int, int]](), 0
    while place < len(pattern):
        letter = pattern[place]
        if letter == "\\":
            place += 1
        elif is_class:
            is_class = letter != "]"
        elif letter == "[":
            is_class = True
        elif letter == "(":
            captures = _CAPTURES.match(pattern, place) is not None
            count += captures
            stack.append((place, count if captures else 0))
        elif letter == ")" and stack:
            start, number = stack.pop()
            if number == group:
                return start, place
        place += 1
    return 0, len(pattern) - 1  # a way to write groups that is not known here


def is_separated(pattern: str, group: int) -> bool:
    """Return whether the pattern names a comma or a blank beside its group: no number has it."""
    start, end = parentheses(pattern, group)
    return pattern[:start].endswith(",") or pattern[end + 1 :].startswith((",", " ", "\\s", "[ "))


def for_whole_number(pattern: str, group: int, whole: Reading) -> str:
    """Return a pattern that reads the whole number of a line; empty if there is none.

    It is the user's own with another group, or else one of the words beside the number.
    """
    start, end = parentheses(pattern, group)
    name = re.match(r"\(\?P?<\w+>", pattern[start:])
    opened, closed = pattern[: start + (len(name[0]) if name else 1)], pattern[end:]
    # The words before it, without the rest of another number's unit: `58.90s CPU   `.
    label = re.search(r"(?:^|(?<=\s))[^\d\s][^\d]*$|$", whole.before)
    space = "\\s" if "\t" in whole.before else " "
    words = f"{space}+".join(re.escape(word) for word in label[0].split()) if label else ""
    blank = f"{space}*" if whole.before[-1:].isspace() else ""
    unit = re.match(r" ?[^\W\d][^\s\d,;)\]]*", whole.after)
    patterns = [(opened, closed)]
    patterns += [(f"{words}{blank}(", ")")] if words else []
    patterns += [("(", ")" + re.escape(unit[0]).replace("\\ ", " "))] if unit else []
    patterns += [] if words else [(f"^{blank}(", ")")]
    return next(
        (before + of + after for before, after in patterns for of in _WHOLE
         if _reads(before + of + after, whole)),
        "",
    )  # fmt: skip


def _reads(pattern: str, whole: Reading) -> bool:
    line = whole.before + whole.text + whole.after
    try:
        compiled = regex.compile(pattern)
        matches = [*compiled.finditer(line, timeout=_LIMIT_S)]
    except (regex.error, TimeoutError):  # the next pattern is simpler
        return False
    group = min(compiled.groupindex.values(), default=1)
    if not matches or matches[-1][group] is None:
        return False
    start, end = map(int, matches[-1].span(group))
    try:
        read(line[:start], line[start:end], line[end:])
    except ValueError:
        return False
    return start < len(whole.before) + len(whole.text) and end > len(whole.before)


def nearest_line(pattern: str, lines: Sequence[str]) -> str:
    """Return the line with the most words of a pattern, the last of several."""

    def likeness(line: str) -> tuple[int, bool]:
        return _likeness(pattern, line[:1000]), any(letter.isdigit() for letter in line)

    some = [line.strip() for line in lines[-_LINES:] if line.strip()]
    return max(reversed(some), key=likeness, default="")


def for_nearest(pattern: str, group: int, line: str) -> str:
    """Return a pattern that reads the number in a line whose words are most like the pattern's.

    Empty: no number in the line stands beside a word of the pattern.
    """
    opens, closes = parentheses(pattern, group)
    spans = [(number.start, number.end) for number in numbers(line)]
    ends, starts = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(line)]
    likeness = [
        _likeness(pattern[:opens], line[ends[at] : start])
        + _likeness(pattern[closes:], line[end : starts[at + 1]])
        for at, (start, end) in enumerate(spans)
    ]
    if not any(likeness):
        return ""
    start, end = spans[likeness.index(max(likeness))]
    return for_whole_number(pattern, group, Reading(line[:start], line[start:end], line[end:]))


def _likeness(pattern: str, text: str) -> int:
    """Return how many letters the words have that a pattern and a text have in common."""
    literal = re.sub(r"\[[^]]*\]|\\.", " ", pattern)
    words, others = ({w.lower() for w in _WORD.findall(part)} for part in (literal, text))
    return sum(map(len, words & others))
