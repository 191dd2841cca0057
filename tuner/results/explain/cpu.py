"""Not enough CPU: who takes it, or holds it back; and what a run is bound by if nothing does."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.knobs.effects import shared_cpus
from tuner.model import wording
from tuner.results.explain.case import Case
from tuner.results.explain.cause import Cause, Suspect, per_cent

#: The trial's threads fit on the cores up to this: a look catches a thread that has just ended.
FITS = 1.1

#: Less than this of the threads that want a CPU is not the cause.
CULPRIT = 0.2

#: Less CPU than this, in cores, is always there (daemons, the kernel's own threads).
ALWAYS_CORES = 0.25

#: More CPU than this, in cores, that no rank and no other process used: they do not add up.
UNASSIGNED_CORES = 0.5

#: With this much of the host idle, it is not the CPUs that are short, but those that may be used.
IDLE = 0.3

#: A worker or a rank that wants more has threads of its own.
ONE_THREAD = 1.2

#: Of the time, what a quota may take before it is the cause of all waiting for CPUs.
QUOTA_SHARE = 0.05


def suspects(case: Case) -> Iterator[Suspect]:
    """Who or what keeps the ranks from a CPU."""
    steal = case.get("steal_cores")
    if steal > 0:
        share = steal / (steal + case.busy_cores)
        said = (
            f"the hypervisor gave {steal:.2g} CPUs to others, {per_cent(share)} of what was wanted"
        )
        yield Suspect(Cause.HYPERVISOR, share, (said,))
    throttled = case.get("throttled_share")
    if throttled >= QUOTA_SHARE:
        said = f"a control group's quota held back {per_cent(throttled)} of the CPU time"
        yield Suspect(Cause.QUOTA, max(throttled, case.shortage), (said, _waits(case)))
    elif case.shortage > 0:
        yield _shortage(case)


def _waits(case: Case) -> str:
    return (
        f"{case.runnable:.1f} threads of the job wanted {wording.count(case.cores, 'core')}, and"
        f" waited for one {per_cent(case.queue_share)} of the time"
    )


def _shortage(case: Case) -> Suspect:
    ranks = len(case.ranks)
    share, inside = case.shortage, bool(case.inside)
    if case.runnable <= FITS * case.cores and case.others_runnable >= ALWAYS_CORES:
        return _others(case)
    if case.idle_cores >= IDLE * case.cores:
        idle = f"{case.idle_cores:.1f} of {case.cores} cores were idle meanwhile"
        shared = shared_cpus(case.views, case.cores) if len(case.others_by_host) <= 1 else ""
        evidence = (_waits(case), idle, *((shared,) if shared else ()))
        return Suspect(Cause.BINDING, share, evidence, inside=inside)
    alone = sum(min(1.0, rank.own_runnable) for rank in case.ranks)
    wants = {
        Cause.OTHERS: case.others_runnable,
        Cause.OWN_THREADS: case.own_runnable - alone,
        Cause.WORKERS: case.children_runnable,
    }
    cause = max(wants, key=lambda culprit: wants[culprit])
    least = max(CULPRIT * (case.runnable + case.others_runnable), ALWAYS_CORES)
    if cause is Cause.OTHERS and wants[cause] >= least:
        return _others(case)
    if wants[cause] < least:
        cause = Cause.CORES
    if cause is Cause.OWN_THREADS and case.forked:
        cause = Cause.PROCESSES
    has_opencv = any(view.opencv_loaded or view.opencv_threads for view in case.views)
    have_threads = case.workers > 0 and case.children_runnable > ONE_THREAD * case.workers
    if cause is Cause.WORKERS and has_opencv and have_threads:
        cause = Cause.OPENCV
    processes = "" if inside else " and processes"  # of a program without Python both count
    said = {
        Cause.CORES: "no part of the job has threads to spare",
        Cause.OWN_THREADS: (
            f"a rank's own threads{processes} wanted {case.own_runnable / ranks:.1f} cores"
        ),
        Cause.PROCESSES: f"{case.workers} child processes wanted {case.own_runnable:.1f} cores",
        Cause.WORKERS: f"the ranks' child processes wanted {case.children_runnable:.1f} cores",
        Cause.OPENCV: f"{case.workers} workers wanted {case.children_runnable:.1f} cores",
    }
    subject = f"{wording.count(ranks, 'rank')} on {wording.count(case.cores, 'core')}"
    subject = subject if cause is Cause.CORES else ""
    return Suspect(cause, share, (_waits(case), said[cause]), subject, inside)


def _others(case: Case) -> Suspect:
    who = case.load.busiest if case.load else ""
    said = f"other processes wanted {case.others_runnable:.1f} cores"
    return Suspect(
        Cause.OTHERS,
        case.shortage,
        (_waits(case), said + (f", above all {who}" if who else "")),
        who,
        bool(case.inside),
    )


#: A GPU that works this much of the time is what the ranks wait for.
GPU = 0.7

#: Below this share of their time in their own work the ranks are not bound by it.
COMPUTE = 0.3


def bound(case: Case) -> Suspect:
    """What the launch is bound by, if no suspect was found."""
    gpu = case.get("gpu_share")
    if gpu >= GPU:
        said = [f"the GPUs worked {per_cent(gpu)} of the time"]
        power = case.get("gpu_power_w")
        said += [f"they took {power:.0f} W"] if power else []
        return Suspect(Cause.GPU, gpu, tuple(said), inside=bool(case.inside))
    columns = [rank for rank in case.ranks if rank.columns]
    if case.inside:
        share = case.phase("compute", "running")
        where = case.where("compute")
        what = f"the ranks' main threads ran their own work {per_cent(share)} of the time ({where})"
    else:
        used = sum(min(1.0, rank.own) for rank in columns) + case.unassigned_cores
        share = min(1.0, used / len(columns)) if columns else 0.0
        what = f"the ranks kept {per_cent(share)} of a core busy each"
    if share < COMPUTE:
        return Suspect(Cause.UNKNOWN, 0.0, (), inside=bool(case.inside))
    job = sum(rank.own for rank in columns) + case.unassigned_cores
    busy = f"the job kept {job:.1f} of {case.cores} cores busy"
    said = [what, busy] if columns else [what]
    if not case.inside:
        said.append("of a program without the probe, computing and MPI's waiting look the same")
    return Suspect(Cause.CPU, share, tuple(said), inside=bool(case.inside))
