"""The escape sequences of a terminal in what a program printed. Pure."""

from __future__ import annotations

import re

#: What colours a terminal, moves its cursor or names its window (ECMA-48: CSI, OSC and others).
_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])"
)


def without_escapes(text: str) -> str:
    """Return the text as a terminal shows it: without sequences that only steer the terminal."""
    return _SEQUENCE.sub("", text) if "\x1b" in text else text
