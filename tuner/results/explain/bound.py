"""Where nothing holds a run back: what it is bound by."""

from __future__ import annotations

from tuner.results.explain.case import Case
from tuner.results.explain.cause import Cause, Suspect, per_cent

#: A GPU that works so much of the time is what the ranks wait for.
GPU = 0.7

#: Below this share of their time in their own work the ranks are not bound by it.
COMPUTE = 0.3


def bound(case: Case) -> Suspect:
    """What the launch is bound by, where no suspect was found."""
    seen = case.figures
    gpu = seen.get("gpu_share")
    if gpu >= GPU:
        said = [f"the GPUs worked {per_cent(gpu)} of the time"]
        power = seen.get("gpu_power_w")
        said += [f"they took {power:.0f} W"] if power else []
        return Suspect(Cause.GPU, gpu, tuple(said), inside=bool(seen.inside))
    columns = [rank for rank in seen.ranks if rank.columns]
    if seen.inside:
        share = seen.phase("compute", "running")
        where = seen.where("compute")
        what = f"the ranks' main threads ran their own work {per_cent(share)} of the time ({where})"
    else:
        used = sum(min(1.0, rank.own) for rank in columns) + case.unassigned_cores
        share = min(1.0, used / len(columns)) if columns else 0.0
        what = f"the ranks kept {per_cent(share)} of a core busy each"
    if share < COMPUTE:
        return Suspect(Cause.UNKNOWN, 0.0, (), inside=bool(seen.inside))
    job = sum(rank.own for rank in columns) + case.unassigned_cores
    busy = f"the job kept {job:.1f} of {case.cores} cores busy"
    said = [what, busy] if columns else [what]
    if not seen.inside:
        said.append("of a program without the probe, computing and MPI's waiting look the same")
    return Suspect(Cause.CPU, share, tuple(said), inside=bool(seen.inside))
