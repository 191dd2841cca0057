"""What the ranks' own profiles say: where the time went, and what changed between two runs.

A profile is what ``cProfile`` keeps of a rank's main thread: seconds in each function, without
those that it called. A function that waits has its waiting time, so a starved loader shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from tuner.hosts.untrusted_files import read_untrusted

#: Where the ranks leave their profiles (the variable that the probe reads).
VARIABLE = "TUNE_PROFILE_DIR"
#: No profile of a rank comes near this size, bytes.
MOST_BYTES = 32 << 20

_NAME = re.compile(r"rank-([0-9]{1,9})\.[0-9]{1,10}\.json")

#: Below this folder lie installed packages: what is above it says nothing.
_PACKAGES = ("site-packages", "dist-packages")
#: What looks from inside a rank lies here: none of it is the program's.
_PROBE = ("wrappers", "probe")


@dataclass(frozen=True)
class Profile:
    """The mean of all ranks: seconds in each function itself.

    A function is named ``chainer/iterators/multiprocess_iterator.py:258 get``.
    """

    ranks: int
    own_s: Mapping[str, float]

    @property
    def total_s(self) -> float:
        """Seconds of a rank in all its functions."""
        return sum(self.own_s.values())


class FunctionChange(NamedTuple):
    """One function in two profiles: its share of the time, and its seconds a rank."""

    function: str
    before_share: float
    after_share: float
    before_s: float
    after_s: float
    points: float  # by how much its share rose (negative: fell), as a share


def read(folder: Path) -> Profile | None:
    """Return the mean of the profiles that the ranks of one launch left; ``None`` without any.

    Of several Pythons in a rank the one with most seconds counts. What is no profile is passed
    over.
    """
    ranks: dict[int, dict[str, float]] = {}
    for path in sorted(folder.glob("rank-*.json")):
        if (match := _NAME.fullmatch(path.name)) is None:
            continue
        rank, own_s = int(match[1]), _own_s(path)
        if sum(own_s.values()) > sum(ranks.get(rank, {}).values()):
            ranks[rank] = own_s
    names = {name for own_s in ranks.values() for name in own_s}
    mean = {name: sum(o.get(name, 0.0) for o in ranks.values()) / len(ranks) for name in names}
    return Profile(len(ranks), mean) if ranks else None


def changes(before: Profile, after: Profile) -> list[FunctionChange]:
    """Return every function of either profile, the one whose share changed most first."""
    changes = []
    totals_s = before.total_s or 1.0, after.total_s or 1.0
    for name in {*before.own_s, *after.own_s}:
        seconds = before.own_s.get(name, 0.0), after.own_s.get(name, 0.0)
        shares = seconds[0] / totals_s[0], seconds[1] / totals_s[1]
        changes.append(FunctionChange(name, *shares, *seconds, shares[1] - shares[0]))
    return sorted(changes, key=lambda change: (-abs(change.points), change.function))


def _own_s(path: Path) -> dict[str, float]:
    """Return the seconds in each function itself, as the probe wrote them."""
    own_s: dict[str, float] = {}
    try:
        for file, line, name, seconds in json.loads(read_untrusted(path, MOST_BYTES)):
            if seconds > 0 and PurePath(str(file)).parts[-3:-1] != _PROBE:
                key = _label(str(file), line, str(name))
                own_s[key] = own_s.get(key, 0.0) + seconds
    except (OSError, ValueError, TypeError, RecursionError):
        return {}
    return own_s


def _label(file: str, line: Any, name: str) -> str:
    """Return the name of a built-in function, or file, line and name of another."""
    if file in {"~", ""}:
        return name.strip("<>").removeprefix("built-in method ")
    parts = PurePath(file).parts
    package = next((i for i, part in enumerate(parts) if part in _PACKAGES), None)
    shown = parts[-2:] if package is None else parts[package + 1 :]
    return f"{'/'.join(shown)}:{line} {name}"
