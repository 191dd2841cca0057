"""Whether something from outside spoiled a launch, and how steady the machine was. Pure.

A launch is compared with what is usual on this machine. If it is always loaded, all launches meet
the same, and excluding them would only cost time.

A launch that was disturbed is excluded and made again. After two in a row the others may be there
to stay, so further ones count. If a launch then finds the machine as usual again, those are
excluded too: a disturbed launch is not compared with a quiet one. A setting of which three were
excluded in a row causes the load itself, and counts from then on.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Literal

from tuner.hosts.interference import QUIET_CORES
from tuner.knobs import ROLES, Role, core_budget
from tuner.model import (
    BASELINE,
    Exclusion,
    ExclusionKind,
    Failed,
    FailureKind,
    LaunchRecord,
    Load,
    Outcome,
    Setting,
    StudySpec,
    wording,
)
from tuner.stats import estimates
from tuner.study.history import History

#: The environment variable that says otherwise (:data:`COUNT`): for machines of which one knows.
VARIABLE = "TUNE_DISTURBED"
COUNT = "count"

#: This many disturbed launches in a row are excluded; then the others may be there to stay.
IN_A_ROW = 2

#: This many launches of one setting in a row are excluded; then it causes the load itself.
MOST_EXCLUDED = 3

#: What others may use in any case: in cores, and as a share of the CPUs (that is as far as the
#: kernel's two ways to count CPU time differ).
LEAST_CORES, LEAST_SHARE = 0.25, 0.05

#: Above the usual by this factor and this many standard deviations is unusual.
FACTOR, DEVIATIONS = 2.0, 3.0

#: The standard deviation of a normal distribution, in median absolute deviations.
_MAD = 1.4826

#: What is usual follows from this many of the latest launches that were not disturbed. Before there
#: are a few, the look at the machine before the study is one of them.
RECENT, FEW = 15, 3

#: What a cgroup's quota may hold back, as a share of a launch's time; what may be swapped.
LEAST_THROTTLED, LEAST_SWAPPED_BYTES = 0.05, 64 << 20

#: Of launches that the user has measured anew.
REMEASURED = Exclusion(ExclusionKind.REMEASURED, "measured anew (--remeasure)")

#: Of launches without a time in a study that failed, once it goes on.
FAILED_STUDY = Exclusion(ExclusionKind.REMEASURED, "the study had failed: launched anew")


@dataclass(frozen=True)
class InterferenceFilter:
    """Judges the launches of one run of ``tune``; ``before`` is what the machine did before it.

    ``counts_all`` excludes nothing.
    """

    before: Load | None = None
    counts_all: bool = False

    def judged(
        self, record: LaunchRecord, spec: StudySpec, past: Sequence[LaunchRecord]
    ) -> tuple[LaunchRecord, str]:
        """Return the launch, excluded if it was disturbed, and what the user should know of it.

        Args:
            record: The launch that has ended.
            spec: The study.
            past: All launches before.
        """
        outcome, past = record.outcome, _on_host(record.machine.hostname, past)
        why = interference_with(outcome, record.setting, spec, past, self.before)
        if self.counts_all or not why:
            return record, ""
        assert outcome.load is not None, "there is no interference without a load"
        outcome = replace(outcome, load=replace(outcome.load, unusual=True))
        disturbed, note = _last_unusual(past), ""
        if not record.purpose.stage.is_evidence:
            pass
        elif _is_own(record.setting, past):
            note = "counts: its setting meets this whenever it is launched"
        elif len(disturbed) < IN_A_ROW:
            exclusion = Exclusion(ExclusionKind.INTERFERENCE, why)
            outcome = replace(outcome, exclusion=exclusion)
        elif all(earlier.outcome.exclusion for earlier in disturbed):  # the first one that counts
            note = "counts all the same, as long as the machine stays like that"
        note = f"launch {record.number} {note}: {why}" if note else ""
        return replace(record, outcome=outcome), note

    def outdated(self, records: Sequence[LaunchRecord], spec: StudySpec) -> list[LaunchRecord]:
        """Return the launches that count though disturbed, once the machine is as usual again."""
        launches = _on_host(spec.machine.hostname, records)
        disturbed = [
            r for r in launches if not estimates.is_excluded(r) and met(r, launches) == "disturbed"
        ]
        if self.counts_all or not disturbed:
            return []
        *past, last = launches
        if last.outcome.load is None or isinstance(last.outcome.ending, Failed):
            return []
        # The baseline may want all CPUs: others may have used what the last launch left free.
        why = interference_with(last.outcome, BASELINE, spec, past, self.before)
        return [] if why else disturbed


#: What a launch met: the usual; what others did; what its own setting caused outside of it.
Met = Literal["usual", "disturbed", "own"]


def met(record: LaunchRecord, records: Sequence[LaunchRecord]) -> Met:
    """Return what a launch met, by the launches of its study."""
    if not _is_unusual(record):
        return "usual"
    launches = _on_host(record.machine.hostname, records)
    before = [launch for launch in launches if launch.number < record.number]
    return "own" if _is_own(record.setting, before) else "disturbed"


def comparable(
    launches: Sequence[LaunchRecord], records: Sequence[LaunchRecord]
) -> list[LaunchRecord]:
    """Return the launches that met what the last of them did; they alone can be compared."""
    conditions = [met(record, records) for record in launches]
    last = next((condition for condition in reversed(conditions) if condition != "own"), "own")
    pairs = zip(launches, conditions, strict=True)
    return [record for record, condition in pairs if condition in {last, "own"}]


def interference_with(
    outcome: Outcome,
    setting: Setting,
    spec: StudySpec,
    records: Sequence[LaunchRecord],
    before: Load | None = None,
) -> str:
    """Return why the launch says nothing of its setting; empty if nothing is wrong.

    Args:
        outcome: The outcome of the launch. A failure of the program's own stays one.
        setting: What was launched.
        spec: The study.
        records: All launches before.
        before: What the machine did before the study.
    """
    load, ending, wall_s = outcome.load, outcome.ending, outcome.wall_s
    is_own = isinstance(ending, Failed) and ending.kind is not FailureKind.LIMIT
    if load is None or is_own or wall_s <= 0:
        return ""
    quiet = [record.outcome for record in records if not _is_unusual(record)][-RECENT:]
    past = [(each.load, each.wall_s) for each in quiet if each.load and each.wall_s > 0]
    if before is not None and len(past) < FEW:
        past.insert(0, (before, 1.0))
    cores, cpus = _cores_of(setting, spec), spec.machine.affinity_cpus
    least_cores = max(LEAST_CORES, LEAST_SHARE * cpus)
    usual_cores = _limit([usual.others_cores for usual, _ in past], least_cores)
    usual_share = _limit([usual.throttled_s / time_s for usual, time_s in past], LEAST_THROTTLED)
    usual_bytes = _limit([usual.swapped_bytes for usual, _ in past], LEAST_SWAPPED_BYTES)
    # Others on cores that the launch leaves free are no matter.
    if load.others_cores > usual_cores and load.others_cores + (cores or cpus) > cpus:
        used = wording.cores(load.others_cores, cpus)
        return f"other processes used {used}{wording.most_of_it(load)}"
    # A setting that wants more than the quota is held back by its own doing.
    if load.throttled_s / wall_s > usual_share and cores and cores <= spec.machine.cores:
        return f"the cgroup's CPU quota held it back for {wording.seconds(load.throttled_s)}"
    if load.hot:
        return "CPUs were slowed down for their temperature"
    if load.swapped_bytes > usual_bytes:
        return f"{load.swapped_bytes >> 20} MiB were swapped"
    return ""


def is_remeasured(record: LaunchRecord) -> bool:
    """Return whether the user has measured the launch anew."""
    why = record.outcome.exclusion
    return why is not None and why.kind is ExclusionKind.REMEASURED


def _on_host(hostname: str, records: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """Return the launches of one host: other hosts have loads of their own."""
    return [record for record in records if record.machine.hostname == hostname]


def _is_unusual(record: LaunchRecord) -> bool:
    load = record.outcome.load
    return load is not None and load.unusual and not is_remeasured(record)


def _last_unusual(records: Iterable[LaunchRecord]) -> list[LaunchRecord]:
    """Return the disturbed launches that no other one came after."""
    launches = [record for record in records if record.purpose.stage.is_evidence]
    return list(takewhile(_is_unusual, reversed(launches)))


def _is_own(setting: Setting, past: Sequence[LaunchRecord]) -> bool:
    """Return whether the setting itself causes what it meets."""
    last = _last_unusual(record for record in past if record.setting == setting)
    return sum(record.outcome.exclusion is not None for record in last) >= MOST_EXCLUDED


def _cores_of(setting: Setting, spec: StudySpec) -> float | None:
    """Return the cores that the setting uses of a host; ``None``: that is up to the program."""
    values: Mapping[str, object] = setting.as_dict()
    numbers: dict[Role, int] = dict(core_budget.UNASKED)
    for name, role in ROLES.items():
        value = values.get(name)
        if isinstance(value, int):
            numbers[role] = value
        elif role == "threads" or any(knob.name == name for knob in spec.knobs):
            return None
    return float(spec.layout.ranks_per_host * core_budget.asked_per_rank(**numbers))


def _limit(past: Sequence[float], least: float) -> float:
    """Return the most that is still usual."""
    if not past:
        return least
    usual = statistics.median(past)
    deviation = _MAD * statistics.median(abs(value - usual) for value in past)
    return max(least, FACTOR * usual, usual + DEVIATIONS * deviation)


def notes(history: History) -> list[str]:
    """Return what a reader of the result must know of the machine; empty if it was quiet."""
    records, texts = history.records, []
    excluded = [r for r in records if r.outcome.exclusion is not None and not is_remeasured(r)]
    for one, several, is_window in (
        ("launch was", "launches were", False),
        ("window of a running job was", "windows of running jobs were", True),
    ):
        reasons = [
            f"number {record.number}: {record.outcome.exclusion.text}"
            for record in excluded
            if record.outcome.exclusion and (record.job is not None) == is_window
        ]
        if reasons:
            last = "the last one, " if len(reasons) > 1 else ""
            count = wording.count(len(reasons), one, several)
            texts.append(f"{count} excluded ({last}{reasons[-1]})")
    disturbed = [r.number for r in history.valid if met(r, records) == "disturbed"]
    if disturbed:
        which = f"number {disturbed[-1]}" if len(disturbed) == 1 else f"last {disturbed[-1]}"
        count = wording.count(len(disturbed), "launch counts", "launches count")
        texts.append(f"{count} though disturbed ({which}): the machine stayed like that")
    if remeasured := sum(map(is_remeasured, records)):
        count = wording.count(remeasured, "earlier launch", "earlier launches")
        texts.append(f"{count} not counted: --remeasure")
    return [*filter(None, (*texts, _loaded(history)))]


def _loaded(history: History) -> str:
    """Say what else the machine did during the launches that count."""
    loads = [load for r in history.valid if (load := r.outcome.load)]
    if not loads:
        return ""
    cpus, reasons = history.spec.machine.affinity_cpus, []
    usual = statistics.median(load.others_cores for load in loads)
    if usual >= max(QUIET_CORES, LEAST_SHARE * cpus):
        worst = max(loads, key=lambda load: load.others_cores)
        used = wording.cores(usual, cpus)
        reasons.append(f"other processes used {used} during a launch{wording.most_of_it(worst)}")
    if hot := sum(load.hot for load in loads):
        launches = wording.count(hot, "launch", "launches")
        reasons.append(f"CPUs were slowed down for their temperature in {launches}")
    if any(load.swapped_bytes > 0 for load in loads):
        reasons.append("memory was swapped")
    where = "this machine" if history.spec.layout.is_local else "a host"
    return f"{where} was not quiet: {'; '.join(reasons)}" if reasons else ""
