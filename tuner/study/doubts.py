"""What speaks against the figures of a study although its launches ended with exit code 0. Pure.

Exit code 0 does not show that a program did its work: a worker in the background was killed, a
checkpoint left nothing to do, a program died behind a pipe without a word. What the figures
themselves show is in :mod:`tuner.study.believed_figures`.
"""

from __future__ import annotations

import statistics

from tuner.hosts.interference import QUIET_CORES
from tuner.knobs import setting_text
from tuner.knobs.effects import shared_cpus
from tuner.launch.trial import output_of
from tuner.model import Finished, Launch, LaunchRecord, ObjectiveSpec, Outcome, Setting, wording
from tuner.study import believed_figures
from tuner.study.history import History

#: A first launch that takes this many times as long as each later one, and this much longer (s),
#: may have done a part of their work.
FIRST_TIMES, FIRST_S = 3.0, 1.0
#: So many later launches must have ended.
LATER = 2
#: An output this many times shorter than that of the defaults, by this many bytes, is far shorter.
OUTPUT_TIMES, OUTPUT_BYTES = 4, 64
#: A run that is shorter differs by chance and by its start more than by most knobs, s.
SHORT_S = 1.0
#: Other processes use a host that is not quiet for this share of its CPUs at least: as far as the
#: kernel's two ways to count CPU time differ.
BUSY_SHARE = 0.05


def doubts(history: History, best: Setting | None) -> list[str]:
    """Return a sentence for each reason to doubt the study's figures; empty if there is none."""
    texts = [_wrote_less(history, best), _was_not_quiet(history)]
    return [*early_doubts(history), *filter(None, texts)]


def early_doubts(history: History) -> list[str]:
    """Return those of the sentences that stay the same while the study goes on."""
    texts = _left_running(history), _left_nothing_to_do(history), _share_cpus(history)
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
    if objective.clock == "wall":  # a program that does nothing is quick, too
        line = output_of(launch).rstrip().rpartition("\n")[2]
        printed = f"its last line is: {wording.one_line(line)}" if line else "it printed nothing"
        texts.append(f"wall time counts whatever the program does; {printed}")
    return texts


def _finished(history: History) -> list[LaunchRecord]:
    """Return the launches that ended by themselves; windows of a running job are left out."""
    return [r for r in history.records if r.job is None and r.outcome.samples]


def _left_running(history: History) -> str:
    """Name what the first launch with background processes left running."""
    for record in _finished(history):
        processes = record.outcome.observation.left_running
        if not processes:
            continue
        who = wording.count(len(processes), "process was", "processes were")
        state = "computing" if any(computes for _, computes in processes) else "there"
        names = ", ".join(sorted({name for name, _ in processes}))
        return (
            f"{who} still {state} when the command of launch {record.number} ended, and tune ended"
            f" what was left ({names}): if that does a part of the work, --wait-for-children waits"
            " for it"
        )
    return ""


def _left_nothing_to_do(history: History) -> str:
    """Compare the first launch with the later ones: it may have left them little to do.

    One of these must have its setting: slow defaults that were never launched again show nothing.
    """
    launches = _finished(history)
    if len(launches) <= LATER or launches[0] is not history.records[0]:
        return ""
    settings = [record.canonical for record in launches]
    first_s, *later_s = [record.outcome.wall_s for record in launches]
    longest_s = max(later_s)
    is_longer = first_s >= FIRST_TIMES * longest_s and first_s >= longest_s + FIRST_S
    if settings[0] not in settings[1:] or not is_longer:
        return ""
    return (
        f"the first launch took {wording.seconds(first_s)}, the next {LATER} at most"
        f" {wording.seconds(max(later_s[:LATER]))}: does the program go on from what an earlier"
        " launch left? --prepare COMMAND can remove that before each launch"
    )


def _share_cpus(history: History) -> str:
    """Name the first launch whose ranks shared a CPU though others were free."""
    spec = history.spec
    for record in history.records if spec.layout.is_local else ():  # two hosts have a CPU 0 each
        ranks = record.outcome.observation.ranks
        if text := shared_cpus(ranks, spec.machine.affinity_cpus, spec.environment):
            setting = setting_text.assigned(record.setting, spec.knobs, cut=True)
            return f"in launch {record.number} ({setting}) {text}"
    return ""


def _wrote_less(history: History, best: Setting | None) -> str:
    """Compare what the best setting wrote with what the defaults did."""
    if best is not None and history.spec.at(best).layout != history.spec.layout:
        return ""  # each rank prints
    # A window of a running job has no output of its own.
    launches = [r for r in history.valid if r.job is None and r.outcome.samples]
    of_best = history.of(launches, best) if best not in {None, history.default} else []
    of_default = history.of(launches, history.default)
    if not of_best or not of_default:
        return ""
    advice = f"has it done its work? Read {of_best[0].folder}/output.log"
    number = of_best[0].number
    best_bytes, default_bytes = (
        max(record.outcome.observation.output_bytes or 0 for record in launches)
        for launches in (of_best, of_default)
    )
    is_less = OUTPUT_TIMES * best_bytes < default_bytes
    if is_less and (not best_bytes or best_bytes + OUTPUT_BYTES < default_bytes):
        return f"launch {number} printed {best_bytes} bytes, the defaults {default_bytes}: {advice}"
    files = {name for record in of_best for name in record.outcome.observation.files}
    usual = set.intersection(*(set(record.outcome.observation.files) for record in of_default))
    if missing := sorted(usual - files):
        return f"launch {number} wrote no {missing[0]}, which the defaults wrote: {advice}"
    return ""


def _was_not_quiet(history: History) -> str:
    """Say what else the machine did during the launches that count."""
    loads = [load for r in history.valid if (load := r.outcome.load)]
    if not loads:
        return ""
    cpus, reasons = history.spec.machine.affinity_cpus, []
    others_cores = statistics.median(load.others_cores for load in loads)
    if others_cores >= max(QUIET_CORES, BUSY_SHARE * cpus):
        worst = max(loads, key=lambda load: load.others_cores)
        used = wording.cores(others_cores, cpus)
        reasons.append(f"other processes used {used} during a launch{wording.most_of_it(worst)}")
    if hot := sum(load.hot for load in loads):
        launches = wording.count(hot, "launch", "launches")
        reasons.append(f"CPUs were slowed down for their temperature in {launches}")
    if any(load.swapped_bytes > 0 for load in loads):
        reasons.append("memory was swapped")
    where = "this machine" if history.spec.layout.is_local else "a host"
    return f"{where} was not quiet: {'; '.join(reasons)}" if reasons else ""
