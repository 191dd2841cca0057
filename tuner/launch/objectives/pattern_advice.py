"""What to do about a pattern that matches nothing, or reads a part of a number. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tuner.launch.objectives.number import read
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
_CAPTURES = re.compile(r"\((?!\?)|\(\?P?<(?![=!])")
_WORD = re.compile(r"[^\W\d_]+|%")


def parentheses(pattern: str, group: int) -> tuple[int, int]:
    """Where the group of that number begins and ends in a pattern: at its parentheses."""
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
    """Whether the pattern names a comma or a blank beside its group: then it is of no number."""
    start, end = parentheses(pattern, group)
    return pattern[:start].endswith(",") or pattern[end + 1 :].startswith((",", " ", "\\s", "[ "))


def for_whole_number(pattern: str, group: int, whole: Reading) -> str:
    """A pattern that reads the whole number of a line; empty if none is found.

    It is the user's own with another group, or else one of the words before the number.
    """
    start, end = parentheses(pattern, group)
    name = re.match(r"\(\?P?<\w+>", pattern[start:])
    opened, closed = pattern[: start + (len(name[0]) if name else 1)], pattern[end:]
    # The words before it, without the rest of another number's unit: `58.90s CPU   `.
    label = re.search(r"(?:^|(?<=\s))[^\d\s][^\d]*$|$", whole.before)
    words = " +".join(re.escape(word) for word in label[0].split()) if label else ""
    blank = " *" if whole.before[-1:].isspace() else ""
    patterns = [(opened, closed), (f"{words}{blank}(" if words else f"^{blank}(", ")")]
    return next(
        (before + of + after for before, after in patterns for of in _WHOLE
         if _reads(before + of + after, whole)),
        "",
    )  # fmt: skip


def _reads(pattern: str, whole: Reading) -> bool:
    try:
        compiled = re.compile(pattern)
    except re.error:  # regex knows more than re: the next pattern is simpler
        return False
    line = whole.before + whole.text + whole.after
    group = min(compiled.groupindex.values(), default=1)
    matches = [*compiled.finditer(line)]
    if not matches or matches[-1][group] is None:
        return False
    start, end = matches[-1].span(group)
    try:
        read(line[:start], line[start:end], line[end:])
    except ValueError:
        return False
    return start < len(whole.before) + len(whole.text) and end > len(whole.before)


def nearest_line(pattern: str, lines: Sequence[str]) -> str:
    """The line that has the most words of a pattern, of several the last; empty without lines."""
    words = {word.lower() for word in _WORD.findall(re.sub(r"\[[^]]*\]|\\.", " ", pattern))}

    def likeness(line: str) -> tuple[int, bool]:
        common = words & {word.lower() for word in _WORD.findall(line[:1000])}
        return sum(map(len, common)), any(letter.isdigit() for letter in line)

    some = [line.strip() for line in lines[-_LINES:] if line.strip()]
    return max(reversed(some), key=likeness, default="")
