"""Where a study stands: what its launches come to under the present spec. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

from tuner.knobs import space
from tuner.knobs.pooling import Pooling
from tuner.knobs.requirements import Requirements, requirements_of
from tuner.live.eligibility import full_iterations
from tuner.live.full_run import rescaled
from tuner.model import (
    BASELINE,
    SHORTAGES,
    Choice,
    Failed,
    FailureKind,
    Knob,
    LaunchRecord,
    Measurement,
    Purpose,
    Setting,
    StudySpec,
    Value,
)
from tuner.stats import evidence
from tuner.study import believed_figures

#: This many failures in a row, with nothing measured, end the study: the cause is not a setting.
GIVE_UP_AFTER = 5

#: This many settings are enough if the baseline fails, too, and no setting asked for too much.
FEW = 2


@dataclass(frozen=True)
class History:
    """The state of a study: its launches, each judged (:meth:`judged`) by what the others show.

    ``baseline`` is the setting that the baseline comes to, if that is known. ``pending`` are the
    settings that other hosts measure at present.
    """

    spec: StudySpec
    records: tuple[LaunchRecord, ...]
    pooling: Pooling  #: Which settings come to the same, as far as launches have shown it.
    baseline: Setting | None = None
    pending: tuple[Setting, ...] = ()

    @classmethod
    def judged(
        cls,
        spec: StudySpec,
        records: Iterable[LaunchRecord],
        baseline: Setting | None = None,
    ) -> History:
        """Return the history of these launches: each may change what the others come to."""
        judged = evidence.with_wrong_results(believed_figures.believed(records, spec.objective))
        scaled = rescaled(judged, spec.objective)
        pooling = Pooling.from_records(spec, scaled)
        records = tuple(replace(r, comes_to=pooling.canonical(r.setting)) for r in scaled)
        return cls(spec, records, pooling, baseline)

    def with_records(self, records: Iterable[LaunchRecord]) -> History:
        """Return the history with these launches in place of its own."""
        judged = History.judged(self.spec, records, self.baseline)
        return replace(judged, pending=self.pending)

    def add(self, record: LaunchRecord) -> History:
        """Return the history with one launch more."""
        return self.with_records((*self.records, record))

    @cached_property
    def tried(self) -> frozenset[Setting]:
        """The canonical settings that were measured, or failed."""
        return frozenset(self.measurements)

    @cached_property
    def valid(self) -> tuple[LaunchRecord, ...]:
        """The launches that count as evidence about their setting."""
        return tuple(evidence.counted(self.records))

    @cached_property
    def measurements(self) -> dict[Setting, Measurement]:
        """What was measured, by (canonical) setting."""
        records = evidence.of_one_scale(self.records, self.spec.objective)
        return {m.setting: m for m in evidence.measurements(records)}

    def fastest(self, is_allowed: Callable[[Setting], bool]) -> Measurement | None:
        """Return the fastest of the settings that the search measured and that are allowed."""
        measured = evidence.measurements(self.searched)
        return evidence.best(m for m in measured if is_allowed(m.setting))

    @cached_property
    def confirming(self) -> tuple[LaunchRecord, ...]:
        """The launches of the confirmation, as long as no search came after them."""
        newest_first = takewhile(lambda r: r.purpose is Purpose.CONFIRM, reversed(self.valid))
        return tuple(reversed(list(newest_first)))

    @cached_property
    def simplifying(self) -> tuple[LaunchRecord, ...]:
        """The launches that leave knobs out of what the search found, unless it went on since."""
        newest_first = takewhile(lambda r: r.purpose is Purpose.SIMPLIFY, reversed(self.searched))
        return tuple(reversed(list(newest_first)))

    @cached_property
    def explored(self) -> tuple[LaunchRecord, ...]:
        """The launches of the search before knobs were left out."""
        return self.searched[: len(self.searched) - len(self.simplifying)]

    @cached_property
    def searched(self) -> tuple[LaunchRecord, ...]:
        """The launches before the confirmation, by which the search decides.

        Windows keep the scale that they had during the search. Rescaling them by later launches
        would restart the search.
        """
        if not self.confirming:
            return self.valid
        first = self.confirming[0].number
        before = [record for record in self.records if record.number < first]
        scaled = {record.number: record for record in rescaled(before, self.spec.objective)}
        return tuple(scaled[r.number] for r in self.valid[: -len(self.confirming)])

    @property
    def default(self) -> Setting:
        """The setting that stands for the baseline."""
        return BASELINE if self.baseline is None else self.baseline

    @cached_property
    def requirements(self) -> Requirements:
        """The conditions of ``--require`` that each setting meets."""
        return requirements_of(self.spec)

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        """The knobs that the program does not override; fixed ones have one value."""
        overridden = {name for name, _ in self.pooling.dropped}
        fixed = self.spec.fixed.as_dict()
        return tuple(
            replace(knob, domain=Choice((fixed[knob.name],))) if knob.name in fixed else knob
            for knob in self.spec.knobs
            if knob.name not in overridden
        )

    @cached_property
    def distinct(self) -> tuple[tuple[str, tuple[Value, ...]], ...]:
        """The values of each knob that differ on this machine, as far as launches have shown it."""
        capped = self.pooling.capped  # a value above the cap comes to the cap
        return tuple(
            (knob.name, tuple(v for v in space.values(knob.domain) if capped(knob.name, v) == v))
            for knob in self.knobs
        )

    @cached_property
    def distinct_knobs(self) -> tuple[Knob, ...]:
        """The knobs, each with only the values that differ."""
        pairs = zip(self.knobs, self.distinct, strict=True)
        return tuple(replace(knob, domain=Choice(values)) for knob, (_, values) in pairs)

    @cached_property
    def size(self) -> int:
        """The number of settings that differ on this machine; 0 if no knob is left."""
        return space.size(self.distinct_knobs, self.requirements) if self.distinct else 0

    @cached_property
    def _in_present_space(self) -> tuple[LaunchRecord, ...]:
        """The launches whose setting the present spec allows."""
        return tuple(record for record in self.valid if self.contains(record.canonical))

    @cached_property
    def _trial_measurements(self) -> list[Measurement]:
        """What came of each trial in the present space."""
        canonical, settings = self.pooling.canonical, evidence.tried(self._in_present_space)
        return [self.measurements[canonical(setting)] for setting in settings]

    @property
    def trials(self) -> int:
        """The number of trials so far in the present space."""
        return len(self._trial_measurements)

    @property
    def failed(self) -> int:
        """The number of trials of settings whose launches all failed."""
        return sum(measurement.failure is not None for measurement in self._trial_measurements)

    @property
    def stopped(self) -> int:
        """The number of trials of settings that did not fail, but never came to their end."""
        return sum(measurement.stopped is not None for measurement in self._trial_measurements)

    def of(self, records: Iterable[LaunchRecord], setting: Setting) -> list[LaunchRecord]:
        """Return those of the launches that come to the (canonical) setting."""
        return [record for record in records if record.canonical == setting]

    def contains(self, setting: Setting) -> bool:
        """Return whether the (canonical) setting can be chosen under the present spec."""
        return space.contains(self.knobs, self.spec.fixed, setting, self.requirements)

    def contains_part(self, setting: Setting) -> bool:
        """Return whether it can be chosen by leaving knobs out of a setting of the space."""
        return space.contains_part(self.knobs, self.spec.fixed, setting, self.requirements)

    def exhausted(self) -> str:
        """Return why a search ends that has no setting left to try."""
        if self.size == 0:
            return "no knob is left to tune"
        if self.trials < self.size:
            return "all settings that are not ruled out were tried"
        verb = "tried" if self.failed or self.stopped else "measured"
        if self.size == 1:
            return f"the only setting of the space was {verb}"
        return f"all {self.size} settings of the space were {verb}"

    def expected_iterations(self, setting: Setting) -> int | None:
        """Return how many iterations the longest launch of this batch size and ranks made so far.

        ``None`` before the first. An objective that counts none says 0.
        """
        return full_iterations(self.records, setting)

    @property
    def fruitless_launches(self) -> tuple[LaunchRecord, ...]:
        """All launches if none of them worked, or else the trials if none of those did."""
        if not any(record.outcome.samples for record in self.valid):
            return self.valid
        trials = tuple(r for r in self._in_present_space if r.purpose.stage.counts_as_trial)
        return () if any(record.outcome.samples for record in trials) else trials

    @property
    def is_hopeless(self) -> bool:
        """Whether nothing has worked, and the fault is not the settings'.

        A program may refuse the baseline's number of ranks.
        """
        if any(record.outcome.samples for record in self.valid):
            return False
        kinds = {getattr(record.outcome.ending, "kind", None) for record in self.valid}
        enough = GIVE_UP_AFTER
        is_crash = kinds.isdisjoint({*SHORTAGES, FailureKind.LIMIT, None})
        if self.default in self.tried and is_crash and not self.spec.rank_counts:
            enough = FEW + 1  # with the baseline
        return len(self.valid) >= enough

    @cached_property
    def _last_failures(self) -> tuple[LaunchRecord, ...]:
        """The last launches, as far back as all of them failed in one way."""
        newest_first = self.valid[::-1]
        way = _way_of_failing(newest_first[0]) if newest_first else None
        alike = takewhile(lambda r: way is not None and _way_of_failing(r) == way, newest_first)
        return tuple(reversed(list(alike)))

    def failures_since_it_worked(self) -> tuple[LaunchRecord, ...]:
        """Return the last launches if they fail alike and it is not the settings' fault.

        Then two settings among them had worked, or the same one twice if nothing else had.
        """
        settings = [record.canonical for record in self._last_failures]
        had_worked = [setting for setting in settings if setting in self._times_s]
        is_sure = len(had_worked) > 1 and len(set(had_worked)) >= min(2, len(self._times_s))
        return self._last_failures if is_sure else ()

    def setting_to_probe(self, *, is_end: bool) -> Setting | None:
        """Return a setting that had worked, if only that shows whose fault the last failures are.

        That is so after many failures in a row, and before the study ends (``is_end``).
        """
        failures, times_s = self._last_failures, self._times_s
        settings = {record.canonical for record in failures}
        if len(failures) < (FEW if is_end else GIVE_UP_AFTER) or self.failures_since_it_worked():
            return None
        if len(settings) < FEW and not settings & times_s.keys():
            return None  # one setting that never worked is at fault itself
        return min(times_s, key=lambda s: (s in settings, times_s[s]), default=None)

    @cached_property
    def _times_s(self) -> dict[Setting, float]:
        """The settings of the present space that have worked, with their times in seconds."""
        return {
            setting: measurement.elapsed_s
            for setting, measurement in self.measurements.items()
            if measurement.elapsed_s is not None
            and (setting == self.default or self.contains(setting))
        }


def _way_of_failing(record: LaunchRecord) -> tuple[FailureKind, int | None] | None:
    """Return what tells one way of failing from another; ``None``: the launch did not fail."""
    ending = record.outcome.ending
    return (ending.kind, record.outcome.exit_code) if isinstance(ending, Failed) else None
