"""Two studies of one job, launched by pairs: which is faster, and what else differs. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.knobs import setting_text
from tuner.model import JsonDict, LaunchRecord, StudySpec, figures
from tuner.results import claims
from tuner.stats.pairs import WORTH
from tuner.store.identity import FOLDER, difference, identity
from tuner.study.pairing import Pairs


@dataclass(frozen=True)
class Comparison:
    """The best settings of two studies of one job, launched by pairs.

    The second is called worse if it takes longer by more than ``share``.
    """

    names: Sequence[str]
    specs: Sequence[StudySpec]  # of these launches: each fixes the best setting of its study
    pairs: Pairs
    share: float

    @property
    def is_open(self) -> bool:
        """Whether the pairs leave it open that the second is worse."""
        gain = self.pairs.gain
        return gain.low < 1 / (1 + self.share) <= gain.high

    def is_worse(self, share: float) -> bool:
        """Whether the whole interval of the second is worse by more than a share."""
        return self.pairs.gain.high < 1 / (1 + share)

    def verdict(self) -> str:
        """Say in one line whether the best setting of the second study is better or worse."""
        gain, beyond = self.pairs.gain, f"worse by more than {100 * self.share:.3g} %"
        if gain.low > 1 + WORTH:
            text = f"better: {claims.times_as_fast(gain)} times as fast"
        elif self.is_worse(min(self.share, WORTH)):
            text = f"worse: it takes {claims.times_as_fast(gain.inverse)} times as long"
        else:
            text = f"no difference above {100 * WORTH:.3g} % is proven"
            text += f": {claims.times_as_fast(gain)} times as fast"
        if self.specs[0].fixed != self.specs[1].fixed:
            text += ", with different settings"
        if self.is_open:
            return f"{text}; whether it is {beyond} is open"
        return f"{text}; {beyond if self.is_worse(self.share) else f'not {beyond}'}"

    def _figures(self, side: int) -> list[float]:
        return [self.specs[side].objective.figure(cost) for cost in self.pairs.costs[side]]

    def table(self) -> list[list[str]]:
        """Return a row for each study: its name, setting, median, and launches."""
        launches = f"{len(self.pairs.launches)} {self.pairs.how}"
        return [
            [name, _setting(spec), f"{statistics.median(self._figures(side)):.4g}", launches]
            for side, (name, spec) in enumerate(zip(self.names, self.specs, strict=True))
        ]

    def json(self, differences: Sequence[str]) -> JsonDict:
        """Return the document that docs/export-schema.md describes."""
        before, after = (
            {"study": name, "setting": self.specs[side].fixed, "figures": self._figures(side)}
            for side, name in enumerate(self.names)
        )
        return {
            "schema": "tuner.compare/1",
            "verdict": self.verdict(),
            "is_worse": self.is_worse(self.share),
            "share": self.share,
            "unit": figures.unit(self.specs[0].objective),
            "gain": self.pairs.gain._asdict(),
            "pairs": len(self.pairs.launches),
            "is_side_by_side": self.pairs.is_side_by_side,
            "before": before,
            "after": after,
            "differences": differences,
        }


def differences(
    specs: Sequence[StudySpec], launches: Sequence[Sequence[LaunchRecord]]
) -> list[str]:
    """Name what else is not the same in two studies, a line each: ``numpy: 1.26.4 -> 2.2.6``.

    The versions of packages are those that rank 0 had loaded in the launches of each.
    """
    packages = [_packages(records) for records in launches]
    before, after = (
        identity(spec)
        | {FOLDER: "", "best setting": _setting(spec), "packages": side if all(packages) else {}}
        for spec, side in zip(specs, packages, strict=True)
    )
    return difference(before, after)


def _packages(launches: Sequence[LaunchRecord]) -> dict[str, str]:
    ranks = (rank for record in launches for rank in record.outcome.observation.ranks)
    return next((dict(rank.packages) for rank in ranks if rank.packages), {})


def _setting(spec: StudySpec) -> str:
    return setting_text.assigned(spec.fixed, spec.knobs, cut=True)
