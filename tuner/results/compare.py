"""Two studies of one job side by side: what is faster in which, and what else differs. Pure.

Both are given as their export (``tuner.export/1``), which a file holds or a database gives.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tuner.model import JsonDict
from tuner.model.errors import UsageError
from tuner.model.wording import count
from tuner.stats.scaling import SpeedUp, speed_up

#: The rows that are of no single setting.
BEST, DEFAULTS = "best", "your defaults"

#: Of a study, what bears on its times beside the settings.
_BEARS = ("command", "prepare", "launcher", "layout", "machine", "fixed", "environment")
#: More launches of one setting are never made.
MOST_RUNS = 100
#: The launcher's own paths say nothing that its version does not.
_SILENT = {"launcher.libmpi", "launcher.mpirun"}


@dataclass(frozen=True)
class Row:
    """One setting in both studies, or the best of each: the figures of its launches."""

    what: str
    before: Sequence[float]
    after: Sequence[float]
    gain: SpeedUp  # how many times better the second is

    def cannot_tell(self, share: float) -> str:
        """Why it is open whether the second is worse by more than a share; empty: it is not."""
        worst = -math.log1p(share)
        center, low, high = (math.log(each) if each else -math.inf for each in self.gain)
        if high < worst or low >= worst:
            return ""
        if low == -math.inf:
            return "launches of one setting disagree: measure both studies again"
        runs, room = min(len(self.before), len(self.after)), abs(center - worst)
        half = max(high - center, center - low)
        needed = runs * (half / room) ** 2 if room else math.inf
        if needed > MOST_RUNS:
            return "no number of launches that anyone makes would tell"
        more = max(1, math.ceil(needed) - runs)
        return f"about {count(more, 'more launch', 'more launches')} of each would tell"


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare` gives."""

    unit: str
    rows: Sequence[Row]  # the best of each first
    differences: Sequence[str]

    @property
    def best(self) -> Row:
        """The best setting of each."""
        return self.rows[0]

    def is_worse(self, share: float) -> bool:
        """Whether the second one's best is proven to be worse by more than this share."""
        return self.best.gain.high < 1 / (1 + share)

    def verdict(self, share: float) -> str:
        """In one line, what the best of the second is to that of the first."""
        gain = self.best.gain
        if gain.low > 1:
            said = f"better: {_span(gain)} times as fast"
        elif gain.high < 1:
            said = f"worse: it takes {_span(_inverse(gain))} times as long"
        else:
            said = f"no difference is proven: {_span(gain)} times as fast"
        why = self.best.cannot_tell(share)
        return f"{said}; whether it is worse by {100 * share:.3g} % is open: {why}" if why else said

    def json(self, share: float) -> JsonDict:
        """See docs/export-schema.md."""
        rows = [
            {
                "what": row.what,
                "before": list(row.before),
                "after": list(row.after),
                "gain": {name: _finite(each) for name, each in row.gain._asdict().items()},
            }
            for row in self.rows
        ]
        return {
            "schema": "tuner.compare/1",
            "verdict": self.verdict(share),
            "is_worse": self.is_worse(share),
            "share": share,
            "unit": self.unit,
            "rows": rows,
            "differences": list(self.differences),
        }

    def table(self) -> list[list[str]]:
        """A row each: what, median and number of launches before and after, the gain."""
        return [
            [row.what, *map(_typical, (row.before, row.after)), _span(row.gain)]
            for row in self.rows
        ]


def compare(before: JsonDict, after: JsonDict) -> Comparison:
    """The settings that both have measured, and the best of each.

    Raises:
        UsageError: They do not measure the same, or one has measured nothing.
    """
    units = [(each["result"]["unit"], each["result"]["direction"]) for each in (before, after)]
    if units[0] != units[1]:
        said = " and ".join(f"{direction} {unit or 'a number'}" for unit, direction in units)
        raise UsageError(f"the studies {said}", "compare studies with one objective")
    is_rate = units[0][1] == "maximize"

    def row(what: str, one: Sequence[float], other: Sequence[float]) -> Row:
        costs = ([1 / each if is_rate else each for each in side] for side in (one, other))
        return Row(what, one, other, speed_up(*costs))

    rows = [row(BEST, *(_best(each) for each in (before, after)))]
    measured, others = _measured(before), _measured(after)
    rows += [row(what, found, others[what]) for what, found in measured.items() if what in others]
    return Comparison(units[0][0], rows, list(_differences(before, after)))


def _best(document: JsonDict) -> list[float]:
    """The figures of the setting that is handed over."""
    found = document["result"]["best"]
    if found is None or not (costs := _figures(found)):
        raise UsageError(
            f"the study {document['result']['study']} has measured nothing", "tune show says why"
        )
    return costs


def _measured(document: JsonDict) -> dict[str, list[float]]:
    """The figures of each setting, the fastest first."""
    found = {_setting(each["setting"]): _figures(each) for each in document["measurements"]}
    return {what: costs for what, costs in found.items() if costs}


def _figures(measurement: JsonDict) -> list[float]:
    return [sample["figure"] for sample in measurement["samples"] if sample["figure"]]


def _setting(values: JsonDict) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(values.items())) or DEFAULTS


def _differences(before: JsonDict, after: JsonDict) -> Iterator[str]:
    """What else differs, a line each."""
    studies = [each["study"] for each in (before, after)]
    texts = ({key: study[key] for key in _BEARS} for study in studies)
    sides = [_flat(each | {"environment": dict(each["environment"])}) for each in texts]
    for key in dict.fromkeys((*sides[0], *sides[1])):
        was, now = (side.get(key, "none") for side in sides)
        if was != now and key not in _SILENT:
            yield f"{key}: {was} -> {now}"


def _flat(document: Any, path: str = "") -> dict[str, str]:
    if isinstance(document, dict):
        parts = (_flat(value, f"{path}.{key}" if path else key) for key, value in document.items())
        return {key: value for part in parts for key, value in part.items()}
    is_words = isinstance(document, list) and all(isinstance(each, str) for each in document)
    return {path: " ".join(document) if is_words else json.dumps(document).strip('"')}


def _typical(figures: Sequence[float]) -> str:
    return f"{statistics.median(figures):.4g} ({count(len(figures), 'run')})"


def _span(gain: SpeedUp) -> str:
    interval = f"{gain.low:.3g} to {gain.high:.3g}" if math.isfinite(gain.high) else "runs disagree"
    return f"{gain.ratio:.3g} ({interval})"


def _inverse(gain: SpeedUp) -> SpeedUp:
    return SpeedUp(*(1 / each if each else math.inf for each in (gain.ratio, gain.high, gain.low)))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
