"""Times and shares as a user writes them."""

from __future__ import annotations

import math
import re

_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_TIME = re.compile(_NUMBER + r"\s*(s|m|min|h|)", re.ASCII)
_SHARE = re.compile(_NUMBER + r"\s*%", re.ASCII)


def parse_time_s(text: str) -> float:
    """``90``, ``90s``, ``2m`` (or ``2min``), ``1.5h``, ``.5s``, in seconds.

    Raises:
        ValueError: It is no time, or not above 0; the text says what one looks like. Who
            knows the place (an option, a key) makes the user's error of it.
    """
    match = _TIME.fullmatch(text.strip())
    time_s = float(match[1]) * _UNITS_S[match[2]] if match else math.nan
    if not (time_s > 0 and math.isfinite(time_s)):
        raise ValueError("must be a time above 0, such as 90, 90s, 1.5m or 2h")
    return time_s


def parse_share(text: str) -> float:
    """A percentage as a share of 1: ``2%``, ``0.5 %``; the sign is needed, as 0.5 may mean either.

    Raises:
        ValueError: It is none, or not above 0 % and below 100 %.
    """
    match = _SHARE.fullmatch(text.strip())
    share = float(match[1]) / 100 if match else math.nan
    if not 0 < share < 1:
        raise ValueError(text)
    return share
