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
    """Name who or what keeps the ranks from a CPU."""
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
    wants = {
        Cause.OTHERS: case.others_runnable,
        Cause.OWN_THREADS: case.most(lambda rank: max(0.0, rank.own_runnable - 1)),
        Cause.WORKERS: case.children_runnable,
    }
    cause = max(wants, key=lambda culprit: wants[culprit])
    least = max(CULPRIT * (case.runnable + case.others_runnable), ALWAYS_CORES)
    has_opencv = any(view.opencv_loaded or view.opencv_threads for view in case.views)
    have_threads = case.workers > 0 and case.children_runnable > ONE_THREAD * case.workers
    # The rank's own process does not do the work if several processes with one thread each do.
    is_forked = any(view.children > 1 for view in case.views) and all(
        view.threads <= 1 for view in case.views
    )
    if case.runnable <= FITS * case.cores and case.others_runnable >= ALWAYS_CORES:
        cause = Cause.OTHERS
    elif case.idle_cores >= IDLE * case.cores:
        cause = Cause.BINDING
    elif wants[cause] < least:
        cause = Cause.CORES
    elif cause is Cause.OWN_THREADS and is_forked:
        cause = Cause.PROCESSES
    elif cause is Cause.WORKERS and has_opencv and have_threads:
        cause = Cause.OPENCV
    ranks, subject = len(case.ranks), ""
    if cause is Cause.OTHERS:
        subject = case.load.busiest if case.load else ""
        said = f"other processes wanted {case.others_runnable:.1f} cores"
        said += f", above all {subject}" if subject else ""
    elif cause is Cause.BINDING:
        said = f"{case.idle_cores:.1f} of {case.cores} cores were idle meanwhile"
        shared = shared_cpus(case.views, case.cores) if len(case.others_by_host) <= 1 else ""
        said += f"; {shared}" if shared else ""
    elif cause is Cause.CORES:
        subject = f"{wording.count(ranks, 'rank')} on {wording.count(case.cores, 'core')}"
        said = "no part of the job has threads to spare"
    elif cause is Cause.OWN_THREADS:
        processes = "" if case.probed else " and processes"  # without Python both count
        said = f"a rank's own threads{processes} wanted {case.own_runnable / ranks:.1f} cores"
    else:
        wanted = case.own_runnable if cause is Cause.PROCESSES else case.children_runnable
        said = f"{case.workers or 'the'} child processes wanted {wanted:.1f} cores"
    return Suspect(cause, case.shortage, (_waits(case), said), subject)


#: A GPU that works this much of the time is what the ranks wait for.
GPU = 0.7

#: Below this share of their time in their own work the ranks are not bound by it.
COMPUTE = 0.3


def bound(case: Case) -> Suspect:
    """Return what the launch is bound by, if no suspect was found."""
    inside = bool(case.probed)
    gpu, power = case.get("gpu_share"), case.get("gpu_power_w")
    if gpu >= GPU:
        said = [f"the GPUs worked {per_cent(gpu)} of the time"]
        said += [f"they took {power:.0f} W"] if power else []
        return Suspect(Cause.GPU, gpu, tuple(said))
    ranks = case.recorded
    if inside:
        share = case.phase("compute", "running")
        ran = f"the ranks' main threads ran their own work {per_cent(share)} of the time"
        said = [f"{ran} ({case.where('compute')})"]
    else:
        busy = sum(min(1.0, rank.own) for rank in ranks) + case.unassigned_cores
        share = min(1.0, busy / len(ranks)) if ranks else 0.0
        said = [f"the ranks kept {per_cent(share)} of a core busy each"]
    if share < COMPUTE:
        return Suspect(Cause.UNKNOWN, 0.0, ())
    job = sum(rank.own for rank in ranks) + case.unassigned_cores
    said += [f"the job kept {job:.1f} of {case.cores} cores busy"] if ranks else []
    if not inside:
        said.append("of a program without the probe, computing and MPI's waiting look the same")
    return Suspect(Cause.CPU, share, tuple(said))
