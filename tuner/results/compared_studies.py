"""Two studies of one job side by side: what is faster in which, and what else differs. Pure.

Both are given as their export (``tuner.export/1``), which a file holds or a database gives.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tuner.model import LOGGED_TIME, JsonDict, Purpose
from tuner.model.errors import UsageError
from tuner.model.wording import count, one_line
from tuner.results import claims
from tuner.stats.pairs import WORTH
from tuner.stats.scaling import SpeedUp, speed_up

#: The rows that are of no single setting.
BEST, DEFAULTS = "best", "your defaults"

#: The parts of an export that bear on the times of a study, beside the settings.
_CONDITIONS = (
    *("command", "programs", "prepare", "launcher", "layout", "machine", "fixed", "environment"),
)
#: The keys of an objective that say what is measured; unit and direction are those of the result.
_OBJECTIVE = ("kind", "key", "statistic", "pattern")
#: The purposes of launches that no search chose for their times: these are not biased.
_UNSELECTED = {purpose.value for purpose in Purpose if purpose.stage.is_unselected}
#: What a comparison says of the launches of the best setting.
CONFIRMED, SEARCHED = "made to compare it", "of the search, which chose it for its times"
SIDE_BY_SIDE = "made side by side for this comparison"
IN_TURN = "made in turn for this comparison"
#: What the verdict says if no pairs were launched.
DIFFERENT_TIMES = "stored launches prove nothing: the machine may have changed in between"
#: Paths of the launcher, which differ between hosts even where its version is the same.
_VERSIONED_PATHS = {"launcher.libmpi", "launcher.mpirun"}


@dataclass(frozen=True)
class ComparedStudy:
    """What is compared of a study; settings and conditions are texts."""

    name: str
    unit: str
    is_rate: bool
    objective: str  # what is measured
    setting: str  # the best one
    best: Sequence[float]  # its figures, one a launch
    origin: str  # what launches these figures are of
    figures: Mapping[str, Sequence[float]]  # of each setting, the fastest first
    conditions: Mapping[str, Mapping[str, str]]  # by part, then by path


def read(name: str, text: str) -> ComparedStudy:
    """Read the study of an export; ``name`` is the file's, or the study's.

    Raises:
        UsageError: The text is no such export, or no launch of the best setting has a figure.
    """
    try:
        document = json.loads(text)
        if document["schema"] != "tuner.export/1":
            raise ValueError(f"its schema is {document['schema']}")
        return _read(name, document)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as e:
        message = f"{name} is no export that can be read: {type(e).__name__}: {one_line(str(e))}"
        raise UsageError(message, "export it again: tune export STUDY -o main.json") from e


def _read(name: str, document: JsonDict) -> ComparedStudy:
    spec, result = document["study"], document["result"]
    is_rate = {"minimize": False, "maximize": True}[result["direction"]]
    objective = {key: spec["objective"].get(key, getattr(LOGGED_TIME, key)) for key in _OBJECTIVE}
    objective |= {"unit": result["unit"], "direction": result["direction"]}
    parts = {**spec, "environment": dict(spec["environment"])}
    parts["programs"] = dict(spec.get("programs", ()))
    conditions = {key: _flat(parts[key], key) for key in _CONDITIONS if key in parts}
    if result["best"] is None or not _figures(result["best"]):
        raise UsageError(f"the study {name} has measured nothing", "tune show says why")
    best = _setting_text(result["best"]["setting"])
    unselected, figures = list[float](), dict[str, list[float]]()
    for launch in document["launches"]:
        ranks = launch.get("observation", {}).get("ranks", ())
        if packages := next((rank["packages"] for rank in ranks if rank["packages"]), None):
            conditions["packages"] = _flat(dict(packages), "packages")
        of_launch = _figures(launch)
        # The figures of windows are not compared: they are scaled to a whole launch.
        if of_launch and launch["counts_for"] is not None and launch["window"] is None:
            setting = _setting_text(launch["counts_for"])
            figures.setdefault(setting, []).extend(of_launch)
            unselected += of_launch if setting == best and launch["purpose"] in _UNSELECTED else ()
    if best not in figures:
        raise UsageError(
            f"the study {name} has measured its best setting in windows of running jobs only",
            "the same command with --confirm exact launches it",
        )
    order = sorted(figures, key=lambda name: statistics.median(figures[name]), reverse=is_rate)
    return ComparedStudy(
        name,
        str(result["unit"]),
        is_rate,
        " ".join(f"{key}={json.dumps(value)}" for key, value in objective.items()),
        best,
        unselected or figures[best],
        CONFIRMED if unselected else SEARCHED,
        {setting: figures[setting] for setting in order},
        conditions,
    )


def _figures(part: JsonDict) -> list[float]:
    """Return the figures of a setting or a launch, within bounds that keep their ratios finite."""
    samples = (sample["figure"] for sample in part["samples"])
    figures = [float(figure) for figure in samples if figure is not None]
    if not all(1e-40 < figure < 1e40 for figure in figures):
        raise ValueError("a figure is no positive number")
    return figures


@dataclass(frozen=True)
class ComparedSetting:
    """One setting in both studies, or the best of each: the figures of its launches."""

    what: str
    before: Sequence[float]
    after: Sequence[float]
    gain: SpeedUp  # how many times better the second is

    def is_open(self, share: float) -> bool:
        """Whether the launches leave it open that the second is worse by more than a share."""
        return self.gain.low < 1 / (1 + share) <= self.gain.high


@dataclass(frozen=True)
class Comparison:
    """Two studies of one program beside each other."""

    before: ComparedStudy
    after: ComparedStudy
    rows: Sequence[ComparedSetting]  # the best of each first
    differences: Sequence[str]

    @property
    def best(self) -> ComparedSetting:
        """The best setting of each."""
        return self.rows[0]

    @property
    def is_by_pairs(self) -> bool:
        """Whether both were launched for this comparison; stored launches prove nothing."""
        return self.before.origin in {SIDE_BY_SIDE, IN_TURN}

    def is_worse(self, share: float) -> bool:
        """Whether the whole interval of the second one's best is worse by more than this share."""
        return self.best.gain.high < 1 / (1 + share)

    def verdict(self, share: float) -> str:
        """Say in one line whether the best setting of the second study is better or worse."""
        gain, beyond = self.best.gain, f"worse by more than {100 * share:.3g} %"
        seems = "" if self.is_by_pairs else "seems "
        if gain.low > 1 + WORTH:
            text = f"{seems}better: {claims.times_as_fast(gain)} times as fast"
        elif self.is_worse(min(share, WORTH)):
            text = f"{seems}worse: it takes {claims.times_as_fast(gain.inverse)} times as long"
        else:
            text = f"no difference above {100 * WORTH:.3g} % is proven"
            text += f": {claims.times_as_fast(gain)} times as fast"
        if self.before.setting != self.after.setting:
            text += ", with different settings"
        if self.best.is_open(share):
            text += f"; whether it is {beyond} is open"
        else:
            text += f"; {beyond if self.is_worse(share) else f'not {beyond}'}"
        return text if self.is_by_pairs else f"{text} ({DIFFERENT_TIMES})"

    def json(self, share: float) -> JsonDict:
        """Return the document that docs/export-schema.md describes.

        It says whether the second is worse by more than a ``share``.
        """
        rows = [
            {"what": row.what, "before": row.before, "after": row.after, "gain": row.gain._asdict()}
            for row in self.rows
        ]
        return {
            "schema": "tuner.compare/1",
            "verdict": self.verdict(share),
            "is_worse": self.is_worse(share),
            "share": share,
            "unit": self.before.unit,
            "best_settings": {"before": self.before.setting, "after": self.after.setting},
            "best_launches": {"before": self.before.origin, "after": self.after.origin},
            "rows": rows,
            "differences": self.differences,
        }

    def with_best(
        self, sides: Sequence[Sequence[float]], gain: SpeedUp, *, is_side_by_side: bool
    ) -> Comparison:
        """Return the comparison with new figures of the best settings, from pairs of launches."""
        origin = SIDE_BY_SIDE if is_side_by_side else IN_TURN
        before, after = (
            replace(side, best=side_figures, origin=origin)
            for side, side_figures in zip((self.before, self.after), sides, strict=True)
        )
        rows = [ComparedSetting(BEST, before.best, after.best, gain), *self.rows[1:]]
        return replace(self, before=before, after=after, rows=rows)

    def table(self) -> list[list[str]]:
        """Return a row for each setting: median and number of launches in both, and the gain."""
        return [
            [row.what, *map(_median_text, (row.before, row.after)), claims.times_as_fast(row.gain)]
            for row in self.rows
        ]


def compare(before: ComparedStudy, after: ComparedStudy) -> Comparison:
    """Compare the best of two studies, and each setting that both have measured.

    Raises:
        UsageError: They do not measure the same.
    """
    if before.objective != after.objective:
        sides = (f"{study.name} measures {study.objective}" for study in (before, after))
        raise UsageError(", but ".join(sides), "compare studies with one objective")

    def row(title: str, old: Sequence[float], new: Sequence[float]) -> ComparedSetting:
        costs = (
            [1 / figure if before.is_rate else figure for figure in side] for side in (old, new)
        )
        return ComparedSetting(title, old, new, speed_up(*costs))

    rows = [row(BEST, before.best, after.best)]
    common = (setting for setting in before.figures if setting in after.figures)
    rows += [row(setting, before.figures[setting], after.figures[setting]) for setting in common]
    return Comparison(before, after, rows, list(_differences(before, after)))


def _setting_text(values: Mapping[str, int | str]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(values.items())) or DEFAULTS


def _differences(before: ComparedStudy, after: ComparedStudy) -> Iterator[str]:
    """Name what else differs, a line each, of the conditions that both exports have."""
    if before.setting != after.setting:
        yield f"best setting: {before.setting} -> {after.setting}"
    for part in (part for part in before.conditions if part in after.conditions):
        sides = before.conditions[part], after.conditions[part]
        for key in dict.fromkeys((*sides[0], *sides[1])):
            old, new = (side.get(key, "none") for side in sides)
            if old != new and key not in _VERSIONED_PATHS:
                yield f"{key}: {old} -> {new}"


def _flat(value: Any, path: str) -> dict[str, str]:
    """Return the parts of a document as texts, each by its path (``machine.cpu_model``)."""
    if isinstance(value, dict):
        parts = (_flat(part, f"{path}.{key}") for key, part in value.items())
        return {key: text for part in parts for key, text in part.items()}
    is_words = isinstance(value, list) and all(isinstance(part, str) for part in value)
    text = " ".join(value) if is_words else json.dumps(value, ensure_ascii=False).strip('"')
    return {path: "none" if value is None else text or "none"}


def _median_text(figures: Sequence[float]) -> str:
    return f"{statistics.median(figures):.4g} ({count(len(figures), 'run')})"
