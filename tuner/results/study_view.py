"""One study as every output needs it: the page, the tables, the exports and the dashboard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tuner.knobs import setting_text, space
from tuner.model import (
    BASELINE,
    Conclusion,
    LaunchRecord,
    Measurement,
    Result,
    Setting,
    StudySpec,
    figures,
    price,
    wording,
)
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.knobs.pooling import Pooling
    from tuner.store import Store
    from tuner.study.fewest import Contribution


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
        from tuner.stats.estimates import measurements, of_one_scale

        records = of_one_scale(self.records, self.spec.objective)
        return tuple(sorted(measurements(records, self.pooling.canonical), key=_rank))

    @cached_property
    def _reference(self) -> Measurement | None:
        """What settings are compared with, measured as they are here."""
        chosen = self.result.reference
        same = (m for m in self.measurements if chosen and m.setting == chosen.setting)
        return next(same, chosen)

    def speed_up(self, measurement: Measurement) -> float | None:
        """How many times faster a setting is than the reference; ``None`` if one has no time."""
        reference = self._reference
        if reference is None or reference.elapsed_s is None or measurement.elapsed_s is None:
            return None
        return reference.elapsed_s / measurement.elapsed_s

    @property
    def best_setting(self) -> Setting:
        """What is handed over: the best setting, the baseline if nothing is confirmed as faster.

        Without values that change nothing.

        Before the confirmation has ended, or without one, the medians decide.

        Raises:
            UsageError: Nothing was measured, so there is nothing to hand over.
        """
        best, export = self.result.best, self.result.export
        if export is not None and self.result.launches_measured:
            return export  # the baseline, it may be, though it never ran to its end
        if best is None or best.elapsed_s is None:
            raise UsageError(
                f"study {self.spec.name} has no measured setting to export",
                f"`tune show {self.spec.name}` lists why its launches failed",
            )
        reference = self.result.reference
        against_defaults = reference is not None and reference.setting.is_baseline
        ratio = self.result.ratio
        keeps = against_defaults and ratio is not None and ratio <= 1.0
        if keeps and self.spec.fixed.is_baseline:
            return BASELINE
        return self.pooling.short(best.setting)

    @property
    def keeps_defaults(self) -> bool:
        """True if nothing is known to be faster, so that an export changes nothing."""
        return self.best_setting.is_baseline


def load(store: Store, name: str, *, detail: bool = True) -> StudyView:
    """A stored study; ``detail=False`` leaves out what :meth:`Store.launches` then leaves out."""
    from tuner.study.findings import build
    from tuner.study.history import History

    row = store.load(name)
    history = History.judged(row.spec, store.launches(name, detail=detail))
    result = build(history, store.url, row.state, row.reason, row.summary.best_setting)
    return StudyView(row.spec, result, history.records, history.pooling)


def _rank(measurement: Measurement) -> tuple[int, float, str]:
    if measurement.elapsed_s is not None:
        return 0, measurement.elapsed_s, measurement.setting.to_json()
    if measurement.stopped is not None:
        return 1, measurement.stopped.projection_s, measurement.setting.to_json()
    return 2, 0.0, measurement.setting.to_json()


def contributions(view: StudyView) -> list[Contribution]:
    """What each knob alone contributes to the setting that is handed over; none to the baseline."""
    from tuner.study.history import History
    from tuner.study.policy import SearchThenConfirm

    if view.result.best is None or view.result.best.elapsed_s is None or view.keeps_defaults:
        return []
    history = History.judged(view.spec, view.records)
    simplification = SearchThenConfirm().fewest(history)
    best = view.pooling.canonical(view.best_setting)
    if simplification is None or not space.contains_part(history.knobs, BASELINE, best):
        return []
    finding = view.result.finding if view.result.conclusion is Conclusion.FASTER else None
    return replace(simplification, records=history.valid).contributions(best, finding)


@dataclass(frozen=True)
class SettingsTable:
    """Every setting as text, the fastest first: for the terminal, the report and Markdown."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def settings_table(view: StudyView, *, reasons: bool = True) -> SettingsTable:
    """The table of a study's settings.

    Args:
        view: The study.
        reasons: Whether the last column says why a setting failed.
    """
    spec, knobs = view.spec, [knob.name for knob in view.spec.knobs]
    live = bool(view.result.windows)
    head = [figures.title(spec.objective), "faster", "measured", *(["windows"] if live else [])]
    rows = []
    for measurement in view.measurements:
        values = measurement.setting.as_dict()
        note = ["baseline"] if measurement.setting.is_baseline else []
        if measurement.samples and measurement.windows == len(measurement.samples):
            note.append("only measured in a running job")
        if reasons and measurement.failure is not None:
            note.append(wording.failure(measurement.failure))
        rows.append(
            (
                figures.typical(spec.objective, measurement),
                wording.times(view.speed_up(measurement)),
                str(len(measurement.samples)),
                *([str(measurement.windows)] if live else []),
                *(
                    "" if value is None else figures.number(value)
                    for _, value in extras(spec, measurement)
                ),
                *(setting_text.shortened(values.get(name, "-")) for name in knobs),
                "; ".join(note),
            )
        )
    head += [title for title, _ in extras(spec, None)]
    return SettingsTable((*head, *knobs, ""), tuple(rows))


def extras(spec: StudySpec, measurement: Measurement | None) -> list[tuple[str, float | None]]:
    """The columns that the user asked for: items a second, the cost of a run (or of an epoch)."""
    cost = None if measurement is None else measurement.elapsed_s
    figures_by_name: list[tuple[str, float | None]] = []
    if spec.items is not None:
        figures_by_name.append(("items/s", price.items_per_s(spec, cost)))
    timed = price.timed(spec.objective)
    if spec.price_per_hour is not None and timed is not None:
        figures_by_name.append((f"cost per {timed.what}", price.price(spec, cost)))
    return figures_by_name
