"""Not enough CPU: who takes it, or holds it back; and what a run is bound by if nothing does."""

from __future__ import annotations

from collections.abc import Iterator

from tuner.knobs.effects import shared_cpus
from tuner.model import wording
from tuner.results.explain.case import Case
from tuner.results.explain.cause import Cause, Suspect, per_cent

#: Up to this many threads a core fit: a reading may have a thread that has just ended.
FITS_TIMES = 1.1

#: A group with less than this share of the threads that want a CPU is not the cause.
CULPRIT_SHARE = 0.2

#: So many cores are always in use (daemons, the kernel's own threads).
ALWAYS_CORES = 0.25

#: If no rank and no other process used more of the busy cores than this, they do not add up.
UNASSIGNED_CORES = 0.5

#: With this share of the cores idle, ranks are short of the CPUs that they are bound to.
IDLE_SHARE = 0.3

#: A worker or a rank that wants more cores than this has threads of its own.
ONE_THREAD = 1.2

#: A quota that holds back this share of the CPU time is the cause of all waiting for CPUs.
QUOTA_SHARE = 0.05


def suspects(case: Case) -> Iterator[Suspect]:
    """Name who or what keeps the ranks from a CPU."""
    steal = case.get("steal_cores")
    if steal > 0:
        share = steal / (steal + case.busy_cores)
        text = (
            f"the hypervisor gave {steal:.2g} CPUs to others, {per_cent(share)} of what was wanted"
        )
        yield Suspect(Cause.HYPERVISOR, share, (text,))
    throttled = case.get("throttled_share")
    if throttled >= QUOTA_SHARE:
        text = f"a control group's quota held back {per_cent(throttled)} of the CPU time"
        yield Suspect(Cause.QUOTA, max(throttled, case.shortage), (text, _waiting_text(case)))
    elif case.shortage > 0:
        yield _cpu_shortage(case)


def _waiting_text(case: Case) -> str:
    return (
        f"{case.runnable:.1f} threads of the job wanted {wording.count(case.cores, 'core')}, and"
        f" waited for one {per_cent(case.queue_share)} of the time"
    )


def _cpu_shortage(case: Case) -> Suspect:
    cores_wanted = {
        Cause.OTHERS: case.others_runnable,
        Cause.OWN_THREADS: case.most_on_a_host(lambda rank: max(0.0, rank.own_runnable - 1)),
        Cause.WORKERS: case.children_runnable,
    }
    cause = max(cores_wanted, key=lambda culprit: cores_wanted[culprit])
    least_cores = max(CULPRIT_SHARE * (case.runnable + case.others_runnable), ALWAYS_CORES)
    has_opencv = any(view.opencv_loaded or view.opencv_threads for view in case.views)
    have_threads = case.workers > 0 and case.children_runnable > ONE_THREAD * case.workers
    # The rank's own process does not do the work if several processes with one thread each do.
    is_forked = any(view.children > 1 for view in case.views) and all(
        view.threads <= 1 for view in case.views
    )
    if case.runnable <= FITS_TIMES * case.cores and case.others_runnable >= ALWAYS_CORES:
        cause = Cause.OTHERS
    elif case.idle_cores >= IDLE_SHARE * case.cores:
        cause = Cause.BINDING
    elif cores_wanted[cause] < least_cores:
        cause = Cause.CORES
    elif cause is Cause.OWN_THREADS and is_forked:
        cause = Cause.PROCESSES
    elif cause is Cause.WORKERS and has_opencv and have_threads:
        cause = Cause.OPENCV
    ranks, subject = len(case.ranks), ""
    if cause is Cause.OTHERS:
        subject = case.load.busiest if case.load else ""
        text = f"other processes wanted {case.others_runnable:.1f} cores"
        text += f", above all {subject}" if subject else ""
    elif cause is Cause.BINDING:
        text = f"{case.idle_cores:.1f} of {case.cores} cores were idle meanwhile"
        shared = shared_cpus(case.views, case.cores) if len(case.others_by_host) <= 1 else ""
        text += f"; {shared}" if shared else ""
    elif cause is Cause.CORES:
        subject = f"{wording.count(ranks, 'rank')} on {wording.count(case.cores, 'core')}"
        text = "no part of the job has threads to spare"
    elif cause is Cause.OWN_THREADS:
        processes = "" if case.probed else " and processes"  # without Python both count
        text = f"a rank's own threads{processes} wanted {case.own_runnable / ranks:.1f} cores"
    else:
        wanted = case.own_runnable if cause is Cause.PROCESSES else case.children_runnable
        text = f"{case.workers or 'the'} child processes wanted {wanted:.1f} cores"
    return Suspect(cause, case.shortage, (_waiting_text(case), text), subject)


#: The ranks wait for a GPU that works this share of the time.
GPU_SHARE = 0.7

#: Below this share of their time in their own work the ranks are not bound by it.
COMPUTE_SHARE = 0.3


def bound(case: Case) -> Suspect:
    """Return what the launch is bound by, if no suspect was found."""
    is_probed = bool(case.probed)
    gpu_share, power_w = case.get("gpu_share"), case.get("gpu_power_w")
    if gpu_share >= GPU_SHARE:
        evidence = [f"the GPUs worked {per_cent(gpu_share)} of the time"]
        evidence += [f"they took {power_w:.0f} W"] if power_w else []
        return Suspect(Cause.GPU, gpu_share, tuple(evidence))
    ranks = case.recorded
    if is_probed:
        share = case.time_in("compute", "running")
        text = f"the ranks' main threads ran their own work {per_cent(share)} of the time"
        evidence = [f"{text} ({case.where('compute')})"]
    else:
        busy = sum(min(1.0, rank.own_cores) for rank in ranks) + case.unassigned_cores
        share = min(1.0, busy / len(ranks)) if ranks else 0.0
        evidence = [f"the ranks kept {per_cent(share)} of a core busy each"]
    if share < COMPUTE_SHARE:
        return Suspect(Cause.UNKNOWN, 0.0, ())
    job_cores = sum(rank.own_cores for rank in ranks) + case.unassigned_cores
    evidence += [f"the job kept {job_cores:.1f} of {case.cores} cores busy"] if ranks else []
    if not is_probed:
        evidence.append("of a program without the probe, computing and MPI's waiting look the same")
    return Suspect(Cause.CPU, share, tuple(evidence))
