"""Units of time and rate as programs print them. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The names that people and programs give units of time, in seconds.
SECONDS = {
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanosecond", "nanoseconds"), 1e-9),
    **dict.fromkeys(
        ("us", "\u00b5s", "\u03bcs", "usec", "usecs", "microsecond", "microseconds"), 1e-6
    ),
    **dict.fromkeys(("ms", "msec", "msecs", "millis", "millisecond", "milliseconds"), 1e-3),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
#: Marks that multiply a number whatever its unit is: ``1.2k img/s``. ``2m`` may be minutes.
MULTIPLES = frozenset("kKMGTPm%")
#: Rates whose name has no slash.
_RATE = re.compile(r"[kMGTPE]?(?:flops|lups|teps|iops|bps)|fps|qps|tps", re.IGNORECASE)


@dataclass(frozen=True)
class Unit:
    """A time (``ms``), a time for a unit of work (``s/it``), or work for a unit of time (``it/s``).

    ``seconds`` are those of the unit of time; ``work`` is empty for a plain time.
    """

    seconds: float
    work: str = ""
    is_rate: bool = False


def unit_of(text: str) -> Unit | None:
    """Return the unit of time or rate that a text names; ``None``: it names none."""
    over, slash, under = text.rpartition("/")
    if _RATE.fullmatch(text):
        return Unit(1.0, text.lower(), is_rate=True)
    if not slash:
        seconds = SECONDS.get(text.lower())
        return None if seconds is None else Unit(seconds)
    if under.lower() in SECONDS and under != "ns":  # ns/day is a rate, but hour/ns a time
        return Unit(SECONDS[under.lower()], over, is_rate=True)
    return Unit(SECONDS[over.lower()], under) if over.lower() in SECONDS else None


def converted(value: float, unit: str, to: str) -> float | None:
    """Return the value in another unit, ``s/it`` in ``it/s`` too; ``None``: they do not fit.

    A time without work fits any work: ``--unit s`` is often short for ``s/it``.
    """
    if unit == to:
        return value
    old, new = unit_of(unit), unit_of(to)
    if old is None or new is None or (old.work and new.work and old.work != new.work):
        return None
    time_s = old.seconds / value if old.is_rate else value * old.seconds
    return new.seconds / time_s if new.is_rate else time_s / new.seconds
