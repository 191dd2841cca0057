"""One study as every output needs it: the terminal, the report, the exports and the dashboard."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tuner.knobs import setting_text, space
from tuner.model import (
    BASELINE,
    RANKS,
    Conclusion,
    Effect,
    Failed,
    Finished,
    LaunchRecord,
    Measurement,
    Result,
    Setting,
    Stopped,
    StudySpec,
    Value,
    figures,
    price,
    wording,
)
from tuner.model.errors import UsageError
from tuner.model.outcome import PACE
from tuner.stats import evidence

if TYPE_CHECKING:
    from tuner.knobs.pooling import Pooling
    from tuner.store.store import Store
    from tuner.study.fewest import Contribution
    from tuner.study.history import History
    from tuner.study.pairing import Pairs

#: The knob of the columns in the table of ranks against threads, and how many of them and of rows
#: it has at most: those with the fastest settings.
THREADS, MOST_NUMBERS = "omp_threads", 12


@dataclass(frozen=True)
class Table:
    """A table of text: the titles of its columns, and as many cells in each row."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Side:
    """A side of the comparison: its name, its setting, and the launches that count of it.

    ``kind`` is ``best`` or ``baseline``.
    """

    name: str
    kind: str
    setting: Setting
    launches: tuple[LaunchRecord, ...]

    @property
    def costs(self) -> list[float]:
        """The costs of the launches that ran to their end."""
        return [sample.elapsed_s for launch in self.launches for sample in launch.outcome.samples]

    @property
    def projections(self) -> list[float]:
        """The projections of windows, and of launches that ended once their pace was known."""
        stops = [(r.outcome.ending, r.job) for r in self.launches]
        return [
            stop.projection_s
            for stop, job in stops
            if isinstance(stop, Stopped) and stop.is_forecast and (job or stop.rule == PACE)
        ]


@dataclass(frozen=True)
class StudyView:
    """A study as it is stored, with its result."""

    spec: StudySpec
    result: Result
    records: tuple[LaunchRecord, ...]
    pooling: Pooling

    @cached_property
    def history(self) -> History:
        """The history of the study, as the search and the confirmation read it."""
        from tuner.study.history import History

        return History.judged(self.spec, self.records)

    @cached_property
    def counted(self) -> list[LaunchRecord]:
        """The launches that count."""
        return evidence.counted(self.records)

    @cached_property
    def measurements(self) -> list[Measurement]:
        """Every setting that was launched: the fastest first, then stopped ones, then failures."""
        records = evidence.of_one_scale(self.records, self.spec.objective)
        return sorted(evidence.measurements(records), key=_sort_key)

    def values_of(self, setting: Setting) -> dict[str, Value]:
        """Return the value of each knob as far as it is known: also what the setting leaves out."""
        defaults = {k.name: k.default for k in self.spec.knobs if k.default is not None}
        return defaults | setting.as_dict()

    @cached_property
    def _reference(self) -> Measurement | None:
        """The baseline as `measurements` has it, so that its time compares with theirs."""
        baseline = self.result.baseline
        same = (m for m in self.measurements if baseline and m.setting == baseline.setting)
        return next(same, baseline)

    def speed_up(self, measurement: Measurement) -> float | None:
        """Return how many times faster a setting is than the reference; ``None`` without a time."""
        reference = self._reference
        if reference is None or reference.elapsed_s is None or measurement.elapsed_s is None:
            return None
        return reference.elapsed_s / measurement.elapsed_s

    @property
    def best_setting(self) -> Setting:
        """The setting that is handed over, without values that change nothing.

        It is the baseline if nothing is confirmed as faster. Before the confirmation has ended, or
        without one, the medians decide.

        Raises:
            UsageError: Nothing was measured, so there is nothing to hand over.
        """
        best, export = self.result.best, self.result.export
        if export is not None and self.result.launches_measured:
            return export  # maybe the baseline, which need not have run to its end
        if best is None or best.elapsed_s is None:
            raise UsageError(
                f"study {self.spec.name} has no measured setting to export",
                f"`tune show {self.spec.name}` lists why its launches failed",
            )
        return self.pooling.short(best.setting)

    @property
    def keeps_defaults(self) -> bool:
        """True if nothing is known to be faster, so that an export changes nothing."""
        return self.best_setting.is_baseline

    @property
    def best_spec(self) -> StudySpec:
        """The study with the layout of the setting that is handed over."""
        return self.spec.at(self.best_setting)

    @cached_property
    def without_choice(self) -> frozenset[str]:
        """The knobs that had one possible value."""
        knobs = self.spec.knobs
        return frozenset(k.name for k in knobs if len(space.values(k.domain)) == 1)

    @property
    def handed_over(self) -> str:
        """The best setting as text; what was fixed, or had one possible value, stands apart."""
        single = self.without_choice | self.spec.fixed.as_dict().keys()
        items, knobs = self.best_setting.items, self.spec.knobs
        tuned = Setting.of(item for item in items if item[0] not in single)
        fixed = Setting.of(item for item in items if item[0] in single)
        if fixed.is_baseline:
            return setting_text.assigned(tuned, knobs)
        text = f"fixed: {setting_text.assigned(fixed, knobs)}"
        return text if tuned.is_baseline else f"{setting_text.assigned(tuned, knobs)} ({text})"

    @cached_property
    def pairs(self) -> Pairs | None:
        """The pairs of launches that the verdict rests on; ``None`` without a comparison."""
        from tuner.study import pairing

        finding, best, reference = self.result.finding, self.result.candidate, self.result.baseline
        if finding is None or best is None or reference is None:
            return None
        in_turn = not finding.is_side_by_side
        return pairing.compared(self.history, best.setting, reference.setting, in_turn=in_turn)

    @cached_property
    def sides(self) -> list[Side]:
        """The sides of the comparison: the baseline, then the best; one, if they are the same."""
        result, names = self.result, dict[Setting, tuple[str, str]]()
        if result.baseline is not None:
            names[result.baseline.setting] = ("your defaults", "baseline")
        best = result.candidate
        if best is not None and best.elapsed_s is not None:
            # Nothing is called best if the verdict is to keep the defaults.
            keeps_baseline = result.conclusion is not None and result.conclusion.keeps_baseline
            name = "best candidate" if keeps_baseline else "best"
            if best.setting in names:
                name = f"best: {names[best.setting][0]}"
            names[best.setting] = (name, "best")
        return [
            Side(name, kind, setting, tuple(r for r in self.counted if r.canonical == setting))
            for setting, (name, kind) in names.items()
        ]

    @property
    def best_side(self) -> Side | None:
        """The side of the best, or of the best candidate; ``None`` if nothing was measured."""
        return next((side for side in self.sides if side.kind == "best"), None)

    @property
    def failures(self) -> list[LaunchRecord]:
        """The launches that failed, but for those that were ended from outside."""
        records = [r for r in self.records if isinstance(r.outcome.ending, Failed)]
        return [record for record in records if not evidence.was_interrupted(record)]

    @property
    def excluded(self) -> list[LaunchRecord]:
        """The launches that do not count."""
        return [record for record in self.records if record.outcome.exclusion is not None]

    @property
    def effects(self) -> list[Effect]:
        """How each knob of the best setting took effect in its last run; none without a best."""
        if self.result.best is None:
            return []
        best, effects = self.pooling.canonical(self.best_setting), dict[str, Effect]()
        for record in self.counted:
            if record.canonical == best and isinstance(record.outcome.ending, Finished):
                effects |= {effect.knob: effect for effect in record.outcome.effects}
        return list(effects.values())

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """The knobs that are not tuned, each with the reason: before the study, and found in it."""
        return [*self.spec.left_out, *self.pooling.dropped]

    @cached_property
    def contributions(self) -> list[Contribution]:
        """What each knob alone contributes to the best setting; empty if that is the baseline."""
        from tuner.study.policy import SearchThenConfirm

        if self.result.best is None or self.result.best.elapsed_s is None or self.keeps_defaults:
            return []
        simplification = SearchThenConfirm().fewest(self.history)
        best = self.pooling.canonical(self.best_setting)
        if simplification is None or not space.contains_part(self.history.knobs, BASELINE, best):
            return []
        finding = self.result.finding if self.result.conclusion is Conclusion.FASTER else None
        records = evidence.of_one_scale(self.history.valid, self.spec.objective)
        changes = replace(simplification, records=records)
        return changes.contributions(best, finding)


def load(store: Store, name: str, *, detail: bool = True) -> StudyView:
    """Load a stored study; without ``detail`` what was seen of the ranks is left out."""
    from tuner.study.findings import build
    from tuner.study.history import History

    row = store.load(name)
    history = History.judged(row.spec, store.launches(name, detail=detail))
    result = build(history, store.url, row.state, row.reason, row.summary.candidate)
    return StudyView(row.spec, result, history.records, history.pooling)


def _sort_key(measurement: Measurement) -> tuple[bool, bool, float, str]:
    elapsed_s, typical_s = measurement.elapsed_s, measurement.typical_s
    has_no_figure, cost = typical_s is None, typical_s or math.inf
    return has_no_figure, elapsed_s is None, cost, measurement.setting.to_json()


def settings_table(view: StudyView) -> Table:
    """Return every setting as text, the fastest first: for terminal, report and Markdown."""
    spec, columns = view.spec, price.columns(view.spec)
    live, knobs = bool(view.result.windows), [knob.name for knob in view.spec.knobs]
    head = [figures.title(spec.objective), "faster", "measured", *(["windows"] if live else [])]
    rows = []
    for measurement in view.measurements:
        values = view.values_of(measurement.setting)
        note = ["baseline"] if measurement.setting.is_baseline else []
        if measurement.samples and measurement.windows == len(measurement.samples):
            note.append("only measured in a running job")
        numbers = [number_of(measurement.elapsed_s) for number_of in columns.values()]
        row = [
            figures.typical(spec.objective, measurement),
            wording.times(view.speed_up(measurement)),
            str(len(measurement.samples)),
            *([str(measurement.windows)] if live else []),
            *("" if number is None else figures.number(number) for number in numbers),
            *(setting_text.shortened(values.get(name, "-")) for name in knobs),
            "; ".join(note),
        ]
        rows.append(tuple(row))
    return Table((*head, *columns, *knobs, ""), rows)


def ranks_and_threads(view: StudyView) -> tuple[Table, list[list[Measurement | None]]] | None:
    """Return the fastest setting of each number of ranks with each of threads, also as text.

    A column of its own (0) has settings that leave the threads as they are. ``*`` marks the pair of
    what the study calls best. There is nothing to see unless several of both numbers were launched.
    """
    cells = dict[tuple[int, int], Measurement]()
    for cell in view.measurements:
        if (pair := _ranks_with_threads(view, cell.setting)) is not None:
            cells.setdefault(pair, cell)
    best = view.result.candidate
    numbers = ([*dict.fromkeys(pair[place] for pair in cells)] for place in (0, 1))
    rows, columns = (sorted(column[:MOST_NUMBERS]) for column in numbers)
    if best is None or min(len(rows), len(columns)) < 2:
        return None
    grid = [[cells.get((ranks, threads)) for threads in columns] for ranks in rows]
    texts = {pair: figures.typical(view.spec.objective, cell) for pair, cell in cells.items()}
    best_pair = _ranks_with_threads(view, best.setting)
    if best_pair in texts:
        texts[best_pair] = f"* {texts[best_pair]}"
    head = "ranks" if view.spec.layout.is_local else "ranks a host"
    titles = (wording.count(number, "thread") if number else "own threads" for number in columns)
    table = [(str(n), *(texts.get((n, threads), "") for threads in columns)) for n in rows]
    return Table((head, *titles), table), grid


def _ranks_with_threads(view: StudyView, setting: Setting) -> tuple[int, int] | None:
    values = view.values_of(setting)
    ranks, threads = values.get(RANKS), values.get(THREADS, 0)
    are_tuned = {RANKS, THREADS} <= {knob.name for knob in view.spec.knobs}
    if are_tuned and isinstance(ranks, int) and isinstance(threads, int):
        return ranks, threads
    return None  # of `unset` nobody knows how many it is
