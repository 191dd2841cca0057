"""Reads a knob's domain as the user writes it, and checks that it makes sense. Pure."""

from __future__ import annotations

import re
from collections import Counter

from tuner.knobs import ROLES
from tuner.knobs.table import OTHER_ALLOCATOR
from tuner.model import (
    UNSET,
    Choice,
    Domain,
    Env,
    IntRange,
    Knob,
    LauncherOption,
    Prefix,
    Value,
)
from tuner.model.errors import UsageError, shown, suggestion

#: A domain with more values is a slip of the pen (``1..1000000``): no study could try them.
MAX_VALUES = 10_000

#: The largest whole number of a knob: a float, as the search and Optuna use, still holds it.
MAX_INT = 10**15 - 1

_INT = re.compile(r"[+-]?[0-9]{1,15}")
_FIX = "write a range such as 1..16, or a list such as 1,2,4 or naive,flat"


def parse_value(text: str) -> Value:
    """Return one value as written: an integer if it reads as one, else the text itself.

    A number with more than 15 digits is a text like any other: it reaches the program as it is.
    """
    text = text.strip()
    return int(text) if _INT.fullmatch(text) else text


def parse_domain(text: str, *, where: str) -> Domain:
    """Return a domain as written: ``1..16``, ``1..cores``, ``1,2,4``, ``naive,flat`` or ``4``."""
    text = text.strip()
    low, is_range, high = (part.strip() for part in text.partition(".."))
    if is_range:
        if not _INT.fullmatch(low) or not (_INT.fullmatch(high) or high == "cores"):
            raise UsageError(
                f"{where}: the ends of {shown(text)} are not whole numbers of up to 15 digits", _FIX
            )
        return check_domain(IntRange(int(low), high if high == "cores" else int(high)), where=where)
    if match := re.fullmatch(r"(\d+)\s*[-:]\s*(\d+)", text):
        raise UsageError(f"{where}: {text!r} is not a range", f"write {match[1]}..{match[2]}")
    parts = [part.strip() for part in text.split(",")]
    if "" in parts:
        what = "has an empty value" if text else "is empty"
        raise UsageError(f"{where}: {text!r} {what}", _FIX)
    return check_domain(Choice(tuple(parse_value(part) for part in parts)), where=where)


def check_domain(domain: Domain, *, where: str) -> Domain:
    """Return the domain itself, once it is neither empty, reversed, repeated nor too large."""
    if isinstance(domain, Choice):
        if not domain.values:
            raise UsageError(f"{where}: the list of values is empty", _FIX)
        ((value, count),) = Counter(domain.values).most_common(1)
        if count > 1:
            raise UsageError(f"{where}: {shown(value)} is there twice", "name each value once")
        return domain
    if isinstance(domain.high, int):
        written = f"{where}: the range {domain.low}..{domain.high}"
        if domain.high < domain.low:
            raise UsageError(f"{written} is reversed", f"write {domain.high}..{domain.low}")
        if domain.high - domain.low >= MAX_VALUES:
            raise UsageError(
                f"{written} has more than {MAX_VALUES} values",
                "list the values worth trying, such as 1,10,100",
            )
    return domain


def check_against(knob: Knob, domain: Domain, *, where: str) -> Domain:
    """Return the user's domain for a knob, once its values make sense for that knob.

    A counting knob takes whole numbers from its own lowest upwards (the user's upper end is never
    cut), a knob of the environment or the launcher also ``unset``; a choice takes its own names
    only.
    """
    for value in (domain.low,) if isinstance(domain, IntRange) else domain.values:
        if value == UNSET and isinstance(knob.route, Env | LauncherOption):
            continue
        if knob.name == "cores_per_rank" and isinstance(value, int) and value > 0:
            continue
        if isinstance(knob.domain, Choice):
            # Only the hosts show which network interfaces there are.
            if value not in knob.domain.values and knob.name != "interface":
                near = suggestion(str(value), map(str, knob.domain.values))
                fix = f"other values go into a study file: [knobs.{knob.name}] values = [...]"
                if knob.name == "allocator":
                    fix = OTHER_ALLOCATOR
                elif isinstance(knob.route, Prefix):
                    fix = f"it can be {', '.join(map(str, knob.domain.values))}"
                raise UsageError(f"{where}: {knob.name} cannot be {value!r}", f"{near} {fix}")
            continue
        # Some programs, such as PyTorch's, load in the rank itself if there are no workers.
        least = 0 if ROLES.get(knob.name) == "workers" else knob.domain.low
        if not isinstance(value, int) or value < least:
            raise UsageError(
                f"{where}: {knob.name} cannot be {value!r}: it counts from {least}",
                f"write whole numbers from {least} on",
            )
    return domain
