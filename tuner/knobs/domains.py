"""A knob's domain as it is written, and whether it makes sense (pure)."""

from __future__ import annotations

import re

from tuner.knobs import ROLES
from tuner.knobs.table import OTHER_ALLOCATOR
from tuner.model import UNSET, Choice, Domain, Env, IntRange, Knob, Value
from tuner.model.errors import UsageError, shown, suggestion

#: More values than any study could try: a slip of the pen (``1..1000000``).
MAX_VALUES = 10_000

#: The largest whole number of a knob: a float, as the search and Optuna use, still holds it.
MAX_INT = 10**15 - 1

_INT = re.compile(r"[+-]?[0-9]{1,15}")
_HOW = "Write a range such as 1..16, or a list such as 1,2,4 or naive,flat."


def parse_value(text: str) -> Value:
    """One value as written: an integer where it reads as one, else the text itself.

    What has more than 15 digits is a name like any other: it reaches the program as it is.
    """
    text = text.strip()
    return int(text) if _INT.fullmatch(text) else text


def parse_domain(text: str, *, where: str) -> Domain:
    """A domain as written: ``1..16``, ``1..cores``, ``1,2,4``, ``naive,flat`` or ``4``.

    Raises:
        UsageError: It is empty, reversed, not a number where one belongs, holds a value
            twice, or is too large. ``where`` names the place (an option, a key).
    """
    stripped = text.strip()
    if not stripped:
        raise UsageError(f"{where}: the range is empty.", _HOW)
    if ".." in stripped:
        return _parse_range(stripped, where)
    if re.fullmatch(r"\d+\s*[-:]\s*\d+", stripped):
        low, high = re.findall(r"\d+", stripped)
        raise UsageError(f"{where}: {stripped!r} is not a range.", f"Write {low}..{high}.")
    parts = [part.strip() for part in stripped.split(",")]
    if "" in parts:
        raise UsageError(f"{where}: {stripped!r} has an empty value.", _HOW)
    return check_domain(Choice(tuple(parse_value(part) for part in parts)), where=where)


def _parse_range(text: str, where: str) -> Domain:
    low, _, high = (part.strip() for part in text.partition(".."))
    for end, name in ((low, "lower"), (high, "upper")):
        if not end:
            raise UsageError(f"{where}: {text!r} has no {name} end.", _HOW)
    if not _INT.fullmatch(low) or not (_INT.fullmatch(high) or high == "cores"):
        message = f"{where}: the ends of {shown(text)} are not whole numbers"
        if low.lstrip("+-").isdecimal() and high.lstrip("+-").isdecimal():
            message += " of up to 15 digits"
        raise UsageError(f"{message}.", _HOW)
    return check_domain(IntRange(int(low), high if high == "cores" else int(high)), where=where)


def check_domain(domain: Domain, *, where: str) -> Domain:
    """The domain itself, once it is neither empty, reversed, repeated nor too large."""
    if isinstance(domain, Choice):
        if not domain.values:
            raise UsageError(f"{where}: the list of values is empty.", _HOW)
        seen: set[Value] = set()
        for value in domain.values:
            if value in seen:
                raise UsageError(f"{where}: {shown(value)} stands twice.", "Name each value once.")
            seen.add(value)
        return domain
    if isinstance(domain.high, int):
        if domain.high < domain.low:
            raise UsageError(
                f"{where}: the range {domain.low}..{domain.high} is reversed.",
                f"Write {domain.high}..{domain.low}.",
            )
        if domain.high - domain.low >= MAX_VALUES:
            raise UsageError(
                f"{where}: the range {domain.low}..{domain.high} has more than "
                f"{MAX_VALUES} values.",
                "List the values worth trying, such as 1,10,100.",
            )
    return domain


def check_against(known: Knob, domain: Domain, *, where: str) -> Domain:
    """The user's domain for a knob, once its values make sense for that knob.

    A counting knob takes whole numbers from its own lowest upwards (a user's upper end is
    never cut), an environment knob also ``unset``; a choice takes its own names only.

    Raises:
        UsageError: A value makes no sense for the knob.
    """
    if isinstance(domain, IntRange):
        listed: tuple[Value, ...] = (domain.low,)
    else:
        listed = domain.values
    for value in listed:
        _check_value(known, value, where)
    return domain


def _check_value(known: Knob, value: Value, where: str) -> None:
    if value == UNSET and isinstance(known.route, Env):
        return
    if isinstance(known.domain, Choice):
        if value not in known.domain.values:
            raise UsageError(
                f"{where}: {known.name} cannot be {value!r}.",
                suggestion(str(value), map(str, known.domain.values))
                + f" {_elsewhere(known.name)}",
            )
        return
    # Some programs, such as PyTorch's, load in the rank itself if there are no workers.
    least = 0 if ROLES.get(known.name) == "workers" else known.domain.low
    if not isinstance(value, int):
        raise UsageError(
            f"{where}: {value!r} is not a whole number.", f"{known.name} counts from {least}."
        )
    if value < least:
        raise UsageError(
            f"{where}: {known.name} cannot be {value}: it counts from {least}.",
            f"Write {least} or more.",
        )


def _elsewhere(name: str) -> str:
    """Where a value goes that the table does not name."""
    if name == "allocator":
        return OTHER_ALLOCATOR
    values = (
        "Another interface of this host goes" if name == "nccl_interface" else "Other values go"
    )
    return f"{values} into a study file: [knobs.{name}] values = [...]."
