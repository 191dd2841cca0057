"""The JSON documents that `tune` writes, as classes: docs/schema.json is made of them.

A document that is written as one of the tool's own classes has the fields of that class; `like`
names it, and the class here declares only what is added or replaced. The comment beside a field is
its description. Tests compare all of it with what the commands print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from tuner.model import (
    Conclusion,
    Domain,
    Effect,
    Failed,
    Finding,
    Finished,
    Knob,
    LaunchRecord,
    Layout,
    Lesson,
    Load,
    Machine,
    Measurement,
    Outcome,
    Progress,
    Purpose,
    Result,
    Setting,
    SideBySide,
    Stopped,
    StudySpec,
    StudyState,
    Value,
    Window,
)
from tuner.model.outcome import Exclusion
from tuner.results.doctor.checks import CheckedItem
from tuner.results.explain.case import RankFigures
from tuner.results.explain.cause import Certainty, Remedy
from tuner.store.rows import Summary
from tuner.study.fewest import Contribution

T = TypeVar("T", bound=type)

#: For each document the classes whose fields it has too, and which of their fields it has not.
LIKE: dict[type, tuple[tuple[type, ...], tuple[str, ...]]] = {}

#: The document that stands wherever a class of the tool is named.
STANDS_FOR: dict[Any, type] = {}


def like(*kinds: type, without: tuple[str, ...] = (), everywhere: bool = False) -> Callable[[T], T]:
    """Give a document the fields of other classes.

    With ``everywhere`` it stands for the first of them in all documents.
    """

    def register(document: T) -> T:
        LIKE[document] = (kinds, without)
        if everywhere:
            STANDS_FOR[kinds[0]] = document
        return document

    return register


Direction = Literal["minimize", "maximize"]


@like(Finished)
class Sample:
    """The figure of one launch."""

    elapsed_s: float | None  # seconds; null if the objective is not a time
    figure: float | None  # the same in the unit of the objective


@like(Measurement, everywhere=True)
class MeasurementDocument:
    """All that was measured of one setting."""

    setting: Setting
    samples: tuple[Sample, ...]  # one for each launch that came to its end and counts
    elapsed_s: float | None  # the median; null without a sample, or if it is not a time
    figure: float | None  # the median in the unit of the objective
    launches: int
    failure: Failed | None  # why all launches of it failed; null if one did not
    stopped: Stopped | None  # the most telling projection, if no launch came to its end
    items_per_s: float | None  # null unless the study has items
    price: float | None  # of one run; null unless the study has a price


@like(Finding, everywhere=True)
class FindingDocument:
    """What pairs of launches prove of the best setting: how many times faster it is."""

    ratio: float  # the time with the defaults over the time with the best setting
    low: float  # the lower end of the 95 % interval
    high: float | None  # the upper end; null: only "at least `low`" is proven
    pairs: int  # launches of each side
    pairs_missing: int | None  # pairs that may still tell; null: more than are ever launched
    is_side_by_side: bool  # by turns in short slices, not one after the other


@like(Result, without=("name", "objective", "conclusion", "confirm_left_s", "best_keeping"))
class ResultBody:
    """The result of a study."""

    study: str  # the study's name
    storage: str  # the database, without a password
    reason: str  # why the study ended
    best: Measurement | None  # the answer: the setting that is handed over; null: nothing worked
    candidate: Measurement | None  # what the search calls best, whatever its confirmation came to
    baseline: Measurement | None  # the user's own defaults
    best_keeping_numerics: Measurement | None  # the best that computes the same, if `best` does not
    ratio: float | None  # the ratio of the medians, without an interval: go by `finding`
    verdict: Conclusion | None  # what is proven; null as long as it is not confirmed
    finding: Finding | None  # the evidence of the verdict; null without a confirmation
    export: Setting | None  # the setting that is handed over, with only what it changes
    trials: int  # distinct settings that were tried
    launches: int  # all, warm-ups too
    failures: int  # launches that failed
    notes: tuple[str, ...]  # what the user should know
    settings_failed: int  # distinct settings that only failed
    settings_stopped: int  # distinct settings that never came to their end
    search_s: float  # wall time of the launches of the search
    confirm_s: float  # wall time of the launches that compare the best with the defaults
    jobs: int  # running jobs in which windows were measured
    unit: str  # of each figure; empty: not known
    direction: Direction  # whether less or more of the figure is better
    priced: str | None  # what a `price` is for: run, iteration, ns; null: there is no price
    saves: float | None  # what the best certainly saves of the price


@like(ResultBody)
class ResultDocument:
    """`tune --json`: the result of a study."""

    schema: Literal["tuner.result/1"]


@like(Knob, everywhere=True)
class KnobDocument:
    """One thing that can be set for a launch."""

    domain: Domain  # the values that it can have here
    route: Mapping[str, Any]  # how it reaches the program: environment, argument, prefix, launcher
    when: Mapping[str, tuple[Value, ...]]  # it exists only beside these values of other knobs
    default: Value | None  # the value of the baseline, if the command cannot do without one
    changes_numerics: bool  # the program may compute something else
    live: bool  # it can change while a job runs
    needs: tuple[str, ...]  # what a host must have


@like(Machine)
class StudyMachine:
    """The host of a study."""

    cores: int  # CPUs within affinity and quota


@like(Lesson, everywhere=True)
class LessonDocument:
    """What was taken from an earlier study as first guesses."""

    study: str  # the study that was learnt from
    fastest: tuple[Setting, ...]  # its fastest settings


@like(StudySpec)
class StudyDocument:
    """A study as it was asked for."""

    command: tuple[str, ...]  # what is measured, with its placeholders
    job: tuple[str, ...]  # the whole job that an export runs; empty: the command
    prepare: tuple[str, ...]  # the command before each launch; empty: none
    machine: StudyMachine
    fixed: Setting  # what was fixed instead of tuned
    require: tuple[str, ...]  # expressions that hold of each setting
    left_out: Mapping[str, str]  # knob: why it is not tuned here
    layout: Layout  # ranks and hosts of the baseline
    lesson: Lesson | None
    wait_for_children: bool
    learn_from: str  # the study to learn from, auto or none


class BestSetting:
    """The setting that is handed over, ready to use."""

    setting: Setting
    is_baseline: bool  # nothing is faster than the defaults, as far as is proven
    environment: Mapping[str, str]  # variables to set for every rank
    unset: tuple[str, ...]  # variables to remove
    arguments: tuple[str, ...]  # words that reach the program by argument


@like(Finished)
class FinishedEnding:
    """The launch came to its end and gave a figure."""

    state: Literal["finished"]
    elapsed_s: float | None  # seconds; null if the objective is not a time
    figure: float | None  # the same in the unit of the objective


@like(Stopped)
class StoppedEnding:
    """The launch was stopped, as it could not win or would have taken too long."""

    state: Literal["stopped"]
    bound_s: float  # it certainly needs this long
    projection_s: float  # it was expected to need this long
    low_s: float  # of the 95 % interval of the projection
    high_s: float | None  # null: open
    rule: str  # the rule that stopped it


@like(Failed)
class FailedEnding:
    """The launch gave no figure."""

    state: Literal["failed"]


@like(Effect, everywhere=True)
class EffectDocument:
    """Whether one knob took effect."""

    asked: Value
    observed: Value | None  # what the ranks showed; null: nothing


@like(Progress, everywhere=True)
class ProgressDocument:
    """One entry of the program's own log."""

    iteration: int
    elapsed_s: float  # by the program's own clock
    seen_s: float | None  # when it was first seen, in seconds since the launch


@like(SideBySide, everywhere=True)
class SideBySideDocument:
    """The launch that took turns with this one."""

    other: int  # its number
    slices: tuple[tuple[float, float], ...]  # when it ran: from, to, s since the pair began
    neighbours: tuple[int | None, ...]  # threads of others at the end of each slice; null: not seen
    looks: int  # how often it was looked at in its slices
    idle_looks: int  # at so many looks none of its own threads ran or waited for a CPU
    long_idle_looks: int  # at so many of these nor at the look before


@like(LaunchRecord, Outcome, without=("outcome", "comes_to", "ending", "telemetry"))
class LaunchDocument:
    """One launch, with all that is known of it but its telemetry."""

    number: int  # 1, 2, ... in the study
    purpose: Purpose  # what it was made for
    setting: Setting  # as it was asked for
    counts_for: Setting | None  # the setting of the measurement it belongs to; null: none
    argv: tuple[str, ...]  # the command
    env: Mapping[str, str]  # the variables that bear on speed, no others
    folder: str  # where its log and output are
    wall_s: float  # how long it took
    exit_code: int | None  # the launcher's
    ending: FinishedEnding | StoppedEnding | FailedEnding
    samples: tuple[Sample, ...]
    excluded: str  # the text of `exclusion`; empty if the launch counts
    window: Window | None  # null, or how it was measured in a window of a running job
    load: Load | None  # what else the host did meanwhile; null: not recorded


class ExportDocument:
    """`tune export --format json`: a whole study."""

    schema: Literal["tuner.export/1"]
    result: ResultBody
    best: BestSetting
    study: StudyDocument
    measurements: tuple[Measurement, ...]  # each distinct setting, the fastest first
    launches: tuple[LaunchDocument, ...]  # each launch, warm-ups too


@like(Measurement)
class ShownMeasurement(MeasurementDocument):
    """All that was measured of one setting, beside the defaults."""

    ratio: float | None  # how many times faster than the defaults, by the medians


@like(Contribution)
class ContributionDocument:
    """What one knob alone contributes to the best setting."""

    value: Value | None  # null: the ratio is that of all knobs that were left as they are
    ratio: float
    text: str  # the same in words


class LaunchThatDoesNotCount:
    """A launch that failed or was excluded."""

    number: int
    purpose: Purpose
    setting: Setting
    name: str  # the setting in words
    job: int | None  # the launch whose window it was; null: a launch of its own


class FailedLaunch(LaunchThatDoesNotCount):
    """A launch that failed."""

    failure: str  # the reason in words
    log_tail: str  # the end of its output
    exit_code: int | None
    folder: str


class ExcludedLaunch(LaunchThatDoesNotCount):
    """A launch that counts in no estimate."""

    excluded: str  # the reason in words
    exclusion: Exclusion


class ShowDocument:
    """`tune show --json`: what is worth reading of a study."""

    schema: Literal["tuner.show/2"]
    result: ResultBody
    measurements: tuple[ShownMeasurement, ...]
    contributions: tuple[ContributionDocument, ...]
    effects: tuple[Effect, ...]  # whether the knobs of the best setting took effect
    left_out: Mapping[str, str]  # knob: why it is not tuned here
    core_budget: tuple[str, ...]  # lines: the cores that settings need, and which were left out
    inherited: Mapping[str, str]  # variables of the knobs that the user's environment sets
    failures: tuple[FailedLaunch, ...]
    excluded: tuple[ExcludedLaunch, ...]


@like(Summary, without=("candidate", "baseline_projection_s"))
class ListedStudy:
    """A study in the list."""

    name: str
    state: StudyState
    reason: str  # why it ended
    best_setting: Setting | None
    best_s: float | None  # seconds; null if the objective is not a time
    baseline_s: float | None  # seconds; null if the objective is not a time
    best_figure: float | None
    baseline_figure: float | None
    unit: str
    direction: Direction
    conclusion: Conclusion | None  # the verdict
    created_at: str  # ISO 8601, UTC
    updated_at: str  # ISO 8601, UTC


class StudiesDocument:
    """`tune studies --json`: the studies of a database, the latest first."""

    schema: Literal["tuner.studies/1"]
    studies: tuple[ListedStudy, ...]


@like(KnobDocument)
class KnobHere(KnobDocument):
    """A knob, and whether it applies on this host."""

    applies: bool
    why_not: str  # empty if it applies
    hint: str  # what to do about that
    possible: bool  # it can be set, but may change nothing


class KnobsDocument:
    """`tune knobs --json`: the knobs on this host."""

    schema: Literal["tuner.knobs/1"]
    knobs: tuple[KnobHere, ...]


class DryLaunch:
    """A launch that a study would begin with."""

    setting: Setting
    environment: Mapping[str, str]  # what the launcher is given beside the user's own variables
    argv: tuple[str, ...]


class DryRunDocument:
    """`tune --dry-run --json`: the first launches, which are not run."""

    schema: Literal["tuner.dry-run/1"]
    study: StudyDocument
    launches: tuple[DryLaunch, ...]


class CauseOfTime:
    """What held a launch back."""

    verdict: str  # the cause, as docs/explain.md names it
    share: float  # of the ranks' time
    evidence: tuple[str, ...]


class HostAndRanks:
    """The figures that the verdict was made of."""

    host: Mapping[str, float]
    ranks: tuple[RankFigures, ...]


class ExplainedLaunch(CauseOfTime):
    """One launch, and what held it back most."""

    name: str  # best, baseline, or the launch that was named
    launch: int
    setting: Setting
    sentence: str
    certainty: Certainty
    subject: str  # the process, rank or host; empty: none
    knob: Remedy | None  # the knob that addresses it
    others: tuple[CauseOfTime, ...]  # what else was found
    figures: HostAndRanks
    gaps: tuple[str, ...]  # what was not seen


class ExplainDocument:
    """`tune explain --json`: what held launches back."""

    schema: Literal["tuner.explain/1"]
    study: str
    runs: tuple[ExplainedLaunch, ...]


class DoctorDocument:
    """`tune doctor --json`: what would make a study on this host fail, slow or noisy."""

    schema: Literal["tuner.doctor/1"]
    machine: Machine
    would_fail: bool  # a check has failed; the exit code is 3
    checks: tuple[CheckedItem, ...]


class Ratio:
    """How many times faster, with the 95 % interval."""

    ratio: float
    low: float  # 0: no lower end is known
    high: float | None  # null: no upper end is known


class LayoutPairs:
    """How a layout was compared."""

    study: str  # with the layout of this study
    pairs: int
    is_side_by_side: bool


class LayoutWithoutTime:
    """A layout of which no launch has a time."""

    layout: str  # 2x4: hosts, ranks on each
    study: str
    note: str  # why it failed; empty: it did not
    hosts: Mapping[str, int]  # ranks on each host
    ranks: int
    by_pairs: LayoutPairs | None  # null for the smallest layout


class LayoutDocument(LayoutWithoutTime):
    """A layout that was measured."""

    setting: Setting
    figures: tuple[float, ...]  # one a launch, in `unit`
    iterations_per_s: float | None
    speed_up: Ratio  # against the first layout
    efficiency: Ratio  # the speed-up over how many times as many ranks it has
    price: float | None  # of a run; with `weak` of as much work as the first layout's


class ScaleDocument:
    """`tune scale --json`: one job on more and more hosts or ranks."""

    schema: Literal["tuner.scale/1"]
    verdict: str  # the line that is printed
    weak: bool  # the work grows with the ranks
    unit: str  # of the figures; empty: not known
    layouts: tuple[LayoutWithoutTime | LayoutDocument, ...]  # the smallest first


class ComparedStudy:
    """The launches of the best setting of a study."""

    study: str
    setting: Setting
    figures: tuple[float, ...]  # one for each launch, in the order of the pairs


class CompareDocument:
    """`tune compare --json`: two studies of one job, before and after a change."""

    schema: Literal["tuner.compare/1"]
    verdict: str  # the line that is printed
    is_worse: bool  # the whole interval of the second is worse by more than `share`
    share: float  # that of --fail-if-slower, or 0.05
    unit: str  # of the figures; empty: not known
    gain: Ratio  # how many times better the second is
    pairs: int
    is_side_by_side: bool  # otherwise the launches were made in turn
    before: ComparedStudy
    after: ComparedStudy
    differences: tuple[str, ...]  # what else is not the same


DOCUMENTS: tuple[type, ...] = (
    *(ResultDocument, ExportDocument, ShowDocument, StudiesDocument, KnobsDocument),
    *(ExplainDocument, DoctorDocument, ScaleDocument, CompareDocument, DryRunDocument),
)
