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
from tuner.live.scale import rescaled
from tuner.model import (
    BASELINE,
    Choice,
    Domain,
    Failed,
    FailureKind,
    Knob,
    LaunchRecord,
    Purpose,
    Setting,
    StudySpec,
    Value,
)
from tuner.stats import estimates
from tuner.study import believed_figures

#: This many failures in a row, with nothing measured, end the study: the cause is not a setting.
GIVE_UP_AFTER = 5

#: So many settings that fail alike are enough if the baseline does, too …
ALIKE = 2
#: … in one of these ways. Whether others happen depends on what a setting asks for.
_OF_THE_PROGRAM = frozenset(
    {
        FailureKind.CRASHED,
        FailureKind.LAUNCHER,
        FailureKind.NO_LOG,
        FailureKind.BAD_LOG,
        FailureKind.CUT_FIGURE,
        FailureKind.DOUBTED_FIGURE,
        FailureKind.WRONG_WORLD,
    }
)


@dataclass(frozen=True)
class History:
    """The state of a search.

    ``records`` are judged by :func:`tuner.study.believed_figures.believed` and
    :func:`tuner.stats.estimates.judged`, and their windows
    are of one scale (:func:`tuner.live.scale.rescaled`): see :meth:`judged`.
    ``baseline`` is the setting that the baseline comes to, if that is known. ``pending`` are the
    settings that other hosts measure at present.
    """

    spec: StudySpec
    records: tuple[LaunchRecord, ...]
    baseline: Setting | None = None
    pending: tuple[Setting, ...] = ()

    @classmethod
    def judged(
        cls,
        spec: StudySpec,
        records: Iterable[LaunchRecord],
        baseline: Setting | None = None,
    ) -> History:
        """The history of these launches, judged and rescaled: one may change what others say."""
        judged = estimates.judged(believed_figures.believed(records, spec.objective))
        return cls(spec, rescaled(judged, spec.objective), baseline)

    def with_records(self, records: Iterable[LaunchRecord]) -> History:
        """The history with these launches in place of its own, judged and rescaled anew."""
        judged = History.judged(self.spec, records, self.baseline)
        return replace(judged, pending=self.pending)

    def add(self, record: LaunchRecord) -> History:
        """The history with one launch more."""
        return self.with_records((*self.records, record))

    @cached_property
    def pooling(self) -> Pooling:
        """Which settings come to the same, as far as it was seen."""
        return Pooling.from_records(self.spec, self.records)

    @cached_property
    def tried(self) -> frozenset[Setting]:
        """Canonical settings that were measured, or failed."""
        return frozenset(self.pooling.canonical(record.setting) for record in self.valid)

    @cached_property
    def valid(self) -> tuple[LaunchRecord, ...]:
        """The launches that say something of their setting."""
        return tuple(estimates.counted(self.records))

    @cached_property
    def confirming(self) -> tuple[LaunchRecord, ...]:
        """The launches of the confirmation, as long as no search came after them."""
        last = takewhile(lambda record: record.purpose is Purpose.CONFIRM, reversed(self.valid))
        return tuple(reversed(list(last)))

    @cached_property
    def simplifying(self) -> tuple[LaunchRecord, ...]:
        """The launches that leave knobs out of what the search found, unless it went on since."""
        last = takewhile(lambda record: record.purpose is Purpose.SIMPLIFY, reversed(self.searched))
        return tuple(reversed(list(last)))

    @cached_property
    def explored(self) -> tuple[LaunchRecord, ...]:
        """The launches of the search proper: all before those."""
        return self.searched[: len(self.searched) - len(self.simplifying)]

    @cached_property
    def searched(self) -> tuple[LaunchRecord, ...]:
        """The launches that the search has to go by: all before the confirmation.

        What that shows of the scale of windows changes nothing here: the search would begin anew.
        """
        found = self.valid[: len(self.valid) - len(self.confirming)]
        if not self.confirming:
            return found
        known = [r for r in self.records if r.number < self.confirming[0].number]
        then = {r.number: r for r in rescaled(known, self.spec.objective)}
        return tuple(then[record.number] for record in found)

    @property
    def default(self) -> Setting:
        """The setting that stands for the baseline."""
        return BASELINE if self.baseline is None else self.baseline

    @cached_property
    def requirements(self) -> Requirements:
        """What a setting must meet."""
        return requirements_of(self.spec)

    @cached_property
    def knobs(self) -> tuple[Knob, ...]:
        """The knobs of a setting: those the program overrides left out, the fixed ones pinned."""
        gone = {name for name, _ in self.pooling.dropped}
        fixed = self.spec.fixed.as_dict()
        return tuple(
            replace(knob, domain=Choice((fixed[knob.name],))) if knob.name in fixed else knob
            for knob in self.spec.knobs
            if knob.name not in gone
        )

    @cached_property
    def distinct(self) -> tuple[tuple[str, tuple[Value, ...]], ...]:
        """Per knob the values that differ on this machine, as far as it was seen."""
        capped = self.pooling.capped
        return tuple(
            (knob.name, tuple(v for v in space.values(knob.domain) if capped(knob.name, v) == v))
            for knob in self.knobs
        )

    @cached_property
    def distinct_knobs(self) -> tuple[Knob, ...]:
        """The knobs with only the values that differ."""
        pairs = zip(self.knobs, self.distinct, strict=True)
        return tuple(replace(knob, domain=Choice(values)) for knob, (_, values) in pairs)

    @cached_property
    def size(self) -> int:
        """How many settings differ on this machine; 0 if no knob is left."""
        return space.size(self.distinct_knobs, self.requirements) if self.distinct else 0

    @cached_property
    def _present(self) -> tuple[LaunchRecord, ...]:
        """The launches whose setting the present spec allows."""
        return tuple(r for r in self.valid if self.contains(self.pooling.canonical(r.setting)))

    @cached_property
    def trials(self) -> int:
        """Trials made so far in the present space, without those that are forgotten."""
        return estimates.trials(self._present)

    @cached_property
    def failed(self) -> int:
        """Those of the trials that only failed, alone or with what comes to the same."""
        return self._without(lambda record: not isinstance(record.outcome.ending, Failed))

    @cached_property
    def stopped(self) -> int:
        """Those that did not fail, but never came to their end."""
        return self._without(lambda record: bool(record.outcome.samples)) - self.failed

    def _without(self, is_one: Callable[[LaunchRecord], bool]) -> int:
        """Trials with no such launch among those that come to the same."""
        canonical = self.pooling.canonical
        some = {canonical(record.setting) for record in self.valid if is_one(record)}
        return estimates.trials(r for r in self._present if canonical(r.setting) not in some)

    @cached_property
    def outside(self) -> int:
        """Settings measured before that the present space does not hold."""
        parts = tuple(r for r in self.valid if r.purpose.stage.may_leave_knobs_out)
        inside = {self.pooling.canonical(record.setting) for record in (*self._present, *parts)}
        return len(self.tried - inside - {BASELINE})

    @property
    def most_trials(self) -> int:
        """No more trials than this will be made."""
        return max(self.trials, min(self.spec.trials, self.size))

    def of(self, records: Iterable[LaunchRecord], setting: Setting) -> list[LaunchRecord]:
        """Those of the launches that come to the (canonical) setting."""
        return [r for r in records if self.pooling.canonical(r.setting) == setting]

    def contains(self, setting: Setting) -> bool:
        """True if the (canonical) setting can be chosen under the present spec."""
        return space.contains(self.knobs, self.spec.fixed, setting, self.requirements)

    def contains_part(self, setting: Setting) -> bool:
        """The same, but knobs may be left out."""
        return space.contains_part(self.knobs, self.spec.fixed, setting, self.requirements)

    def exhausted(self) -> str:
        """Why a search ends that has tried all there is."""
        if self.size == 0:
            return "no knob is left to tune"
        done = "tried" if self.failed or self.stopped else "measured"
        if self.size == 1:
            return f"the only setting of the space was {done}"
        if self.trials < self.size:
            return "all settings that are not ruled out were tried"
        which = "both" if self.size == 2 else f"all {self.size}"
        return f"{which} settings of the space were {done}"

    def expected_iterations(self, setting: Setting) -> int | None:
        """How far a full launch gets: as far as the longest one so far; ``None``: not known.

        An objective that counts none says 0. Those with other batches are no measure.
        """
        return full_iterations(self.records, setting)

    def fruitless(self) -> tuple[LaunchRecord, ...]:
        """The launches of a study in which nothing has worked; empty if something has."""
        return () if any(record.outcome.samples for record in self.valid) else self.valid

    @property
    def is_hopeless(self) -> bool:
        """Whether nothing has worked and nothing will: the fault is not the settings'."""
        return len(self.fruitless()) >= GIVE_UP_AFTER or any(
            self.default in alike and len(alike) > ALIKE for alike in self._failing_alike
        )

    @property
    def only_baseline_can_tell(self) -> bool:
        """Whether so many settings failed alike that only the baseline shows whose fault it is."""
        return self.default not in self.tried and any(
            len(alike) >= ALIKE for alike in self._failing_alike
        )

    @property
    def _failing_alike(self) -> Iterable[set[Setting]]:
        """While nothing has worked: the (canonical) settings that failed, by how they did."""
        found: dict[tuple[FailureKind, int | None], set[Setting]] = {}
        for record in self.fruitless():
            way = _way_of_failing(record)
            if way is not None and way[0] in _OF_THE_PROGRAM:
                found.setdefault(way, set()).add(self.pooling.canonical(record.setting))
        return found.values()

    @cached_property
    def failing_alike(self) -> tuple[LaunchRecord, ...]:
        """The last launches, as far back as all of them failed in one way."""
        last = takewhile(
            lambda r: (
                _way_of_failing(r) is not None
                and _way_of_failing(r) == _way_of_failing(self.valid[-1])
            ),
            reversed(self.valid),
        )
        return tuple(reversed(list(last)))

    def no_longer_works(self) -> tuple[LaunchRecord, ...]:
        """The launches that fail alike, if that is not the settings' fault; else empty.

        Two settings among them had worked; the same one twice if nothing else had.
        """
        worked = self._worked
        again = [
            c for r in self.failing_alike if (c := self.pooling.canonical(r.setting)) in worked
        ]
        is_sure = len(again) > 1 and len(set(again)) >= min(2, len(worked))
        return self.failing_alike if is_sure else ()

    def to_see_whether_it_works(self, *, is_end: bool) -> Setting | None:
        """Return a setting that had worked, if only that shows whose fault the last failures are.

        That is so after many failures in a row, and before the study ends (``is_end``).
        """
        failing, worked = self.failing_alike, self._worked
        settings = {self.pooling.canonical(record.setting) for record in failing}
        if len(failing) < (ALIKE if is_end else GIVE_UP_AFTER):
            return None
        if len(settings) < ALIKE and not settings & worked.keys():
            return None
        return min(worked, key=lambda s: (s in settings, worked[s]), default=None)

    @cached_property
    def _worked(self) -> dict[Setting, float]:
        """The settings of the present space that have worked, with their times, s."""
        measured = estimates.measurements(self.valid, self.pooling.canonical)
        return {
            m.setting: m.elapsed_s
            for m in measured
            if m.elapsed_s is not None and (m.setting == self.default or self.contains(m.setting))
        }

    def fruitless_trials(self) -> tuple[LaunchRecord, ...]:
        """The trials in the present space if none of them worked; empty if one has."""
        made = tuple(record for record in self._present if record.purpose.stage.counts_as_trial)
        return () if any(record.outcome.samples for record in made) else made


def _way_of_failing(record: LaunchRecord) -> tuple[FailureKind, int | None] | None:
    """Tell one way of failing from another; ``None``: the launch did not fail."""
    ending = record.outcome.ending
    return (ending.kind, record.outcome.exit_code) if isinstance(ending, Failed) else None


def changes(old: StudySpec, new: StudySpec) -> list[str]:
    """What a continued study does otherwise from now on, one text each."""
    before = {knob.name: knob.domain for knob in old.knobs}
    after = {knob.name: knob.domain for knob in new.knobs}
    texts = [f"{name} is tuned too" for name in after if name not in before]
    texts += [f"{name} is not tuned any more" for name in before if name not in after]
    texts += [
        f"{name} ranges over {_text(domain)} instead of {_text(before[name])}"
        for name, domain in after.items()
        if name in before and before[name] != domain
    ]
    labels = {
        "fixed": "fixed",
        "max_time_s": "longest launch",
        "trial_limit_s": "time limit",
        "stall_limit_s": "stall limit",
        "seed": "seed",
        "sampler": "sampler",
        "learn_from": "learn from",
        "pruner": "pruner",
        "terminator": "terminator",
        "live": "live",
        "oversubscription": "oversubscription",
        "require": "require",
    }
    for name, label in labels.items():
        was, now = (
            "none" if value in (None, BASELINE, ()) else _words(value)
            for value in (getattr(old, name), getattr(new, name))
        )
        if was != now:
            texts.append(f"{label}: {was} -> {now}")
    return texts


def _words(value: object) -> object:
    return ", ".join(value) if isinstance(value, tuple) else value


def _text(domain: Domain) -> str:
    if isinstance(domain, Choice):
        return ",".join(str(value) for value in domain.values)
    return f"{domain.low}..{domain.high}"
