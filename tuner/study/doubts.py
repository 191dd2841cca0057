"""What speaks against the figures of a study although its launches ended with exit code 0. Pure.

Exit code 0 does not show that a program did its work: a worker in the background was killed, a
checkpoint left nothing to do, a program died behind a pipe without a word. What the figures
themselves show is in :mod:`tuner.study.believed_figures`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from functools import lru_cache

from tuner.hosts.interference import QUIET_CORES
from tuner.knobs import setting_text
from tuner.knobs.effects import shared_cpus
from tuner.launch import command, failure
from tuner.launch.trial import output_of
from tuner.model import (
    Failed,
    FailureKind,
    Finished,
    Launch,
    LaunchRecord,
    ObjectiveSpec,
    Outcome,
    Setting,
    wording,
)
from tuner.stats import estimates
from tuner.study import believed_figures
from tuner.study.history import History

#: A first launch that takes this many times as long as each later one, and this much longer (s),
#: may have done a part of their work.
FIRST_TIMES, FIRST_S = 3.0, 1.0
#: So many later launches must have ended.
LATER = 2
#: An output this many times shorter than usual, by this many bytes, is far shorter; so is none.
OUTPUT_TIMES, OUTPUT_BYTES = 4, 64
#: So many settings must have written a file that another one has not.
WRITERS = 2
#: A run that is shorter differs by chance and by its start more than by most knobs, s.
SHORT_S = 1.0
#: Other processes use a host that is not quiet for this share of its CPUs at least: as far as the
#: kernel's two ways to count CPU time differ.
BUSY_SHARE = 0.05
#: So many settings that fail with one message are pointed out; so many knobs the example names.
SAME_MESSAGE, EXAMPLE_KNOBS = 3, 3


def doubts(history: History) -> list[str]:
    """Return a sentence for each reason to doubt the study's figures; empty if there is none."""
    return [*early_doubts(history), *_wrote_less(history), *filter(None, [_loaded(history)])]


def early_doubts(history: History) -> list[str]:
    """Return the sentences that stay the same while the study goes on."""
    launches = _finished(history)
    texts = (
        _left_running(launches),
        _resumed(history, launches),
        _share_cpus(history),
        _one_message(history),
    )
    notes = believed_figures.notes(history.records, history.spec.objective)
    return [*filter(None, texts), *notes]


def of_first_launch(outcome: Outcome, launch: Launch, objective: ObjectiveSpec) -> list[str]:
    """Return what the first launch shows of a program that measures too little, or nothing."""
    ending = outcome.ending
    if not isinstance(ending, Finished):
        return []
    texts = []
    run_s = ending.elapsed_s if objective.clock in {"elapsed", "wall"} else outcome.wall_s
    if run_s < SHORT_S:
        texts.append(
            f"a run takes only {wording.seconds(run_s)}: small gains will not be told from chance;"
            " give it more work (more iterations or data), so that it takes 5 to 60 s"
        )
    if objective.kind == "wall":  # a program that does nothing is quick, too
        line = output_of(launch).rstrip().rpartition("\n")[2]
        printed = f"its last line is: {wording.one_line(line)}" if line else "it printed nothing"
        texts.append(f"wall time counts whatever the program does; {printed}")
    return texts


def _finished(history: History) -> list[LaunchRecord]:
    """Return the launches that ended by themselves; windows of a running job are left out."""
    return [r for r in history.records if r.job is None and r.outcome.samples]


def _left_running(launches: Sequence[LaunchRecord]) -> str:
    """Name what the first launch with background processes left running."""
    for record in launches:
        left = record.outcome.observation.left_running
        if not left:
            continue
        what = wording.count(len(left), "process was", "processes were")
        doing = "computing" if any(computes for _, computes in left) else "there"
        names = ", ".join(sorted({name for name, _ in left}))
        return (
            f"{what} still {doing} when the command of launch {record.number} ended, and tune ended"
            f" what was left ({names}): if that does a part of the work, --wait-for-children waits"
            " for it"
        )
    return ""


def _resumed(history: History, launches: Sequence[LaunchRecord]) -> str:
    """Compare the first launch with the later ones: it may have left them little to do.

    One of these must have its setting: slow defaults that were never launched again show nothing.
    """
    if len(launches) <= LATER or launches[0] is not history.records[0]:
        return ""
    canonical = history.pooling.canonical
    settings = [canonical(record.setting) for record in launches]
    if settings[0] not in settings[1:]:
        return ""
    first_s, *later_s = [record.outcome.wall_s for record in launches]
    longest_s = max(later_s)
    if first_s < FIRST_TIMES * longest_s or first_s < longest_s + FIRST_S:
        return ""
    return (
        f"the first launch took {wording.seconds(first_s)}, the next {LATER} at most"
        f" {wording.seconds(max(later_s[:LATER]))}: does the program go on from what an earlier"
        " launch left? --prepare COMMAND can remove that before each launch"
    )


def _share_cpus(history: History) -> str:
    """Name the first launch whose ranks shared a CPU though others were free."""
    spec = history.spec
    for record in history.records if spec.layout.is_local else ():  # elsewhere numbers repeat
        ranks = record.outcome.observation.ranks
        if text := shared_cpus(ranks, spec.machine.affinity_cpus, spec.environment):
            setting = setting_text.assigned(record.setting, spec.knobs, cut=True)
            return f"in launch {record.number} ({setting}) {text}"
    return ""


def _one_message(history: History) -> str:
    """Say that settings fail with one message, and how to leave such settings out.

    Figures in the message may differ. If the baseline fails so too, their values are not to blame.
    """
    groups: dict[tuple[int | None, str], dict[Setting, tuple[int, str]]] = {}
    for record in history.valid:
        ending, code = record.outcome.ending, record.outcome.exit_code
        if isinstance(ending, Failed) and ending.kind is FailureKind.CRASHED:
            line = _telling_line(code, ending.log_tail)
            settings = groups.setdefault((code, re.sub(r"\d+", "0", line)), {})
            setting = history.pooling.canonical(record.setting)
            settings.setdefault(setting, (record.number, line))
    for (_, message), settings in groups.items():
        if message and len(settings) >= SAME_MESSAGE and history.default not in settings:
            launches = list(settings.values())[:SAME_MESSAGE]
            numbers = ", ".join(str(number) for number, _ in launches)
            placed = command.knobs_in(history.spec.command)
            names = sorted((k.name for k in history.knobs), key=lambda name: name not in placed)
            example = " * ".join(names[:EXAMPLE_KNOBS])
            return (
                f"{SAME_MESSAGE} settings failed with one message (launches {numbers}):"
                f" {launches[0][1]}; if only some values go together, say which, and no others are"
                f" launched: --require '{example} == ranks', for example"
            )
    return ""


@lru_cache(1024)
def _telling_line(code: int | None, output: str) -> str:
    """Return the line of a failed launch's output that says why; empty if it printed none."""
    return failure.explain(code, output).line


def _wrote_less(history: History) -> list[str]:
    """Compare what the best setting and the baseline wrote with what the others did."""
    canonical = history.pooling.canonical
    groups: dict[Setting, list[LaunchRecord]] = {}
    for record in estimates.counted(_finished(history)):
        groups.setdefault(canonical(record.setting), []).append(record)
    measured = history.measurements.values()
    best = estimates.best(m for m in measured if m.setting != history.default)
    sides = [*([best.setting] if best else []), history.default]
    texts = []
    for side in sides:
        others = [group for setting, group in groups.items() if setting != side]
        if side in groups and others:
            texts += _less_than_others(groups[side], others)
    return texts


def _less_than_others(
    group: Sequence[LaunchRecord], others: Sequence[Sequence[LaunchRecord]]
) -> list[str]:
    number, texts = group[0].number, []
    advice = f"has it done its work? Read {group[0].folder}/output.log"
    # A best that died with a long message does not make the defaults print too little.
    median = statistics.median_low if group[0].setting.is_baseline else statistics.median_high
    printed, usual = _printed(group), median(map(_printed, others))
    if OUTPUT_TIMES * printed < usual and (not printed or printed + OUTPUT_BYTES < usual):
        texts.append(f"launch {number} printed {printed} bytes, others {usual}: {advice}")
    written = {name for record in group for name in record.outcome.observation.files}
    always = [
        set.intersection(*(set(record.outcome.observation.files) for record in other))
        for other in others
    ]
    missing = sorted(set.intersection(*always) - written) if len(always) >= WRITERS else []
    if missing:
        texts.append(f"launch {number} wrote no {missing[0]}, which all others wrote: {advice}")
    return texts


def _printed(group: Sequence[LaunchRecord]) -> int:
    """What the launches of a setting printed, bytes, at least one of them."""
    return max(record.outcome.observation.output_bytes or 0 for record in group)


def _loaded(history: History) -> str:
    """Say what else the machine did during the launches that count."""
    loads = [load for r in history.valid if (load := r.outcome.load)]
    if not loads:
        return ""
    cpus, reasons = history.spec.machine.affinity_cpus, []
    usual = statistics.median(load.others_cores for load in loads)
    if usual >= max(QUIET_CORES, BUSY_SHARE * cpus):
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
