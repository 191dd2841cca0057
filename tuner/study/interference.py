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
FORGOTTEN = Exclusion(ExclusionKind.REMEASURED, "the study had failed: launched anew")


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
        """The launch, excluded if there was interference, and what the user should know of it.

        Args:
            record: What was launched and has ended.
            spec: The study.
            past: All launches before.
        """
        outcome, past = record.outcome, _on_host(record.machine.hostname, past)
        why = interference_with(outcome, record.setting, spec, past, self.before)
        if self.counts_all or not why:
            return record, ""
        assert outcome.load is not None, "there is no interference without a load"
        outcome = replace(outcome, load=replace(outcome.load, unusual=True))
        record = replace(record, outcome=outcome)
        if not record.purpose.stage.is_evidence:
            return record, ""
        if _is_repeated(record.setting, past):
            exclusion = Exclusion(ExclusionKind.INTERFERENCE, why)
            return replace(record, outcome=replace(outcome, exclusion=exclusion)), ""
        if _is_own(record.setting, past):
            counts = "counts: its setting meets this whenever it is launched"
        elif all(disturbed.outcome.exclusion for disturbed in _last_unusual(past)):
            counts = "counts all the same, as long as the machine stays like that"
        else:
            return record, ""  # that is told already
        return record, f"launch {record.number} {counts}: {why}"

    def outdated(self, records: Sequence[LaunchRecord], spec: StudySpec) -> list[LaunchRecord]:
        """The launches that count though disturbed, if the last one found the machine as usual."""
        here = _on_host(spec.machine.hostname, records)
        disturbed = [
            r for r in here if not estimates.is_excluded(r) and met(r, here) == "disturbed"
        ]
        if self.counts_all or not disturbed:
            return []
        last = here[-1].outcome
        # Asked of a launch that wants all CPUs: others may have used what this one left free.
        is_known = last.load is not None and not isinstance(last.ending, Failed)
        is_quiet = is_known and not interference_with(last, BASELINE, spec, here[:-1], self.before)
        return disturbed if is_quiet else []


#: What a launch met: the usual; what others did; what its own setting caused outside of it.
Met = Literal["usual", "disturbed", "own"]


def met(record: LaunchRecord, records: Sequence[LaunchRecord]) -> Met:
    """What a launch met, by the launches of its study."""
    if not _is_unusual(record):
        return "usual"
    here = _on_host(record.machine.hostname, records)
    before = [each for each in here if each.number < record.number]
    return "own" if _is_own(record.setting, before) else "disturbed"


def comparable(
    launches: Sequence[LaunchRecord], records: Sequence[LaunchRecord]
) -> list[LaunchRecord]:
    """Those of the launches that met what the last of them did; they alone can be compared."""
    what = {record.number: met(record, records) for record in launches}
    now = next((each for each in reversed(what.values()) if each != "own"), "own")
    return [record for record in launches if what[record.number] in {now, "own"}]


def interference_with(
    outcome: Outcome,
    setting: Setting,
    spec: StudySpec,
    records: Sequence[LaunchRecord],
    before: Load | None = None,
) -> str:
    """Why the launch says nothing of its setting; empty if nothing is wrong.

    Args:
        outcome: What it came to. A failure of the program's own stays one.
        setting: What was launched.
        spec: The study.
        records: All launches before.
        before: What the machine did before the study.
    """
    load, ending, wall_s = outcome.load, outcome.ending, outcome.wall_s
    own = isinstance(ending, Failed) and ending.kind is not FailureKind.LIMIT
    if load is None or own or wall_s <= 0:
        return ""
    quiet = [each.outcome for each in records if not _is_unusual(each)][-RECENT:]
    past = [(e.load, e.wall_s) for e in quiet if e.load is not None and e.wall_s > 0]
    if before is not None and len(past) < FEW:
        past.insert(0, (before, 1.0))
    wanted, cpus = _cores_asked(setting, spec), spec.machine.affinity_cpus
    usual_cores = _limit(
        [each.others_cores for each, _ in past], max(LEAST_CORES, LEAST_SHARE * cpus)
    )
    # Others on cores that the launch leaves free are no matter.
    if load.others_cores > usual_cores and load.others_cores + (wanted or cpus) > cpus:
        used = wording.cores(load.others_cores, cpus)
        return f"other processes used {used}{wording.most_of_it(load)}"
    # A setting that wants more than the quota is held back by its own doing.
    throttled = _limit([each.throttled_s / time_s for each, time_s in past], LEAST_THROTTLED)
    is_held_back = load.throttled_s / wall_s > throttled
    if is_held_back and wanted is not None and wanted <= spec.machine.cores:
        return f"the cgroup's CPU quota held it back for {wording.seconds(load.throttled_s)}"
    if load.hot:
        return "CPUs were slowed down for their temperature"
    if load.swapped_bytes > _limit([each.swapped_bytes for each, _ in past], LEAST_SWAPPED_BYTES):
        return f"{load.swapped_bytes >> 20} MiB were swapped"
    return ""


def is_remeasured(record: LaunchRecord) -> bool:
    """Whether the user has measured the launch anew."""
    why = record.outcome.exclusion
    return why is not None and why.kind is ExclusionKind.REMEASURED


def _on_host(hostname: str, records: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """Other hosts that measure for the study have loads of their own."""
    return [record for record in records if record.machine.hostname == hostname]


def _is_unusual(record: LaunchRecord) -> bool:
    load = record.outcome.load
    return load is not None and load.unusual and not is_remeasured(record)


def _last_unusual(records: Iterable[LaunchRecord]) -> list[LaunchRecord]:
    """The disturbed launches that no other one came after."""
    launched = [each for each in records if each.purpose.stage.is_evidence]
    return list(takewhile(_is_unusual, reversed(launched)))


def _is_own(setting: Setting, past: Sequence[LaunchRecord]) -> bool:
    """Whether the setting itself causes what it meets: then it counts."""
    mine = _last_unusual(each for each in past if each.setting == setting)
    return sum(each.outcome.exclusion is not None for each in mine) >= MOST_EXCLUDED


def _is_repeated(setting: Setting, past: Sequence[LaunchRecord]) -> bool:
    """Whether a disturbed launch of the setting is excluded and made again."""
    return len(_last_unusual(past)) < IN_A_ROW and not _is_own(setting, past)


def _cores_asked(setting: Setting, spec: StudySpec) -> float | None:
    """The cores that the setting asks a host for; ``None`` if it leaves that to the program."""
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
    """What is still usual: above it there was interference."""
    if not past:
        return least
    usual = statistics.median(past)
    deviation = _MAD * statistics.median(abs(each - usual) for each in past)
    return max(least, FACTOR * usual, usual + DEVIATIONS * deviation)


def notes(history: History) -> list[str]:
    """What a reader of the result must know of the machine; empty if it was quiet."""
    texts = []
    for one, several, live in (
        ("launch was", "launches were", False),
        ("window of a running job was", "windows of running jobs were", True),
    ):
        spoiled = [r for r in excluded(history.records) if (r.job is not None) == live]
        if spoiled:
            why = spoiled[-1].outcome.exclusion
            assert why is not None
            last = "the last one, " if len(spoiled) > 1 else ""
            count = wording.count(len(spoiled), one, several)
            texts.append(f"{count} excluded ({last}number {spoiled[-1].number}: {why.text})")
    counted = estimates.counted(history.records)
    disturbed = [r.number for r in counted if met(r, history.records) == "disturbed"]
    if disturbed:
        which = f"number {disturbed[-1]}" if len(disturbed) == 1 else f"last {disturbed[-1]}"
        count = wording.count(len(disturbed), "launch counts", "launches count")
        texts.append(f"{count} though disturbed ({which}): the machine stayed like that")
    remeasured = sum(map(is_remeasured, history.records))
    if remeasured:
        count = wording.count(remeasured, "earlier launch", "earlier launches")
        texts.append(f"{count} not counted: --remeasure")
    return [*filter(None, (*texts, _loaded(history)))]


def excluded(records: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """The launches that something from outside spoiled."""
    return [r for r in records if r.outcome.exclusion is not None and not is_remeasured(r)]


def _loaded(history: History) -> str:
    """What others did during the launches that count."""
    loads = [
        r.outcome.load for r in estimates.counted(history.records) if r.outcome.load is not None
    ]
    if not loads:
        return ""
    cpus = history.spec.machine.affinity_cpus
    said = []
    usual = statistics.median(load.others_cores for load in loads)
    if usual >= max(QUIET_CORES, LEAST_SHARE * cpus):
        worst = max(loads, key=lambda load: load.others_cores)
        used = wording.cores(usual, cpus)
        said.append(f"other processes used {used} during a launch{wording.most_of_it(worst)}")
    hot = sum(load.hot for load in loads)
    if hot:
        launches = wording.count(hot, "launch", "launches")
        said.append(f"CPUs were slowed down for their temperature in {launches}")
    if any(load.swapped_bytes > 0 for load in loads):
        said.append("memory was swapped")
    where = "this machine" if history.spec.layout.is_local else "a host"
    return f"{where} was not quiet: {'; '.join(said)}" if said else ""
