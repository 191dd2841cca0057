"""One study as every output needs it: the page, the tables, the exports and the dashboard."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tuner.model import BASELINE, LaunchRecord, Measurement, Result, Setting, StudySpec
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.knobs.pooling import Pooling


@dataclass(frozen=True)
class StudyView:
    """A study as it is stored, with its result."""

    spec: StudySpec
    result: Result
    records: tuple[LaunchRecord, ...]
    pooling: Pooling

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        """Every setting that was launched: the fastest first, then stopped ones, then failures."""
        from tuner.stats.estimates import measurements

        return tuple(sorted(measurements(self.records, self.pooling.canonical), key=_rank))

    @property
    def best_setting(self) -> Setting:
        """What is handed over: the best setting, the baseline if nothing is confirmed as faster.

        Before the confirmation has ended, or without one, the medians decide.

        Raises:
            UsageError: Nothing was measured, so there is nothing to hand over.
        """
        best = self.result.best
        if best is None or best.elapsed_s is None:
            raise UsageError(
                f"study {self.spec.name} has no measured setting to export",
                f"`tune show {self.spec.name}` lists why its launches failed",
            )
        if self.result.export is not None:
            return self.result.export
        reference = self.result.reference
        against_defaults = reference is not None and reference.setting.is_baseline
        ratio = self.result.ratio
        keeps = against_defaults and ratio is not None and ratio <= 1.0
        return BASELINE if keeps and self.spec.fixed.is_baseline else best.setting

    @property
    def keeps_defaults(self) -> bool:
        """True if nothing is known to be faster, so that an export changes nothing."""
        return self.best_setting.is_baseline


def _rank(found: Measurement) -> tuple[int, float, str]:
    if found.elapsed_s is not None:
        return 0, found.elapsed_s, found.setting.to_json()
    if found.stopped is not None:
        return 1, found.stopped.projection_s, found.setting.to_json()
    return 2, 0.0, found.setting.to_json()
