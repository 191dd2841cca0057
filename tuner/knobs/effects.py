"""Judges whether each knob took effect in the ranks: `Observation` in, `Effect` out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from tuner.model import (
    RANKS,
    SHARE,
    UNSET,
    Effect,
    Env,
    Knob,
    LauncherOption,
    Machine,
    Observation,
    RankView,
    Setting,
    StudySpec,
    Value,
    Verdict,
    wording,
)

#: The variables of threads: a knob of any name that sets one is judged by the threads.
_OMP_VARIABLES = frozenset(f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "BLIS"))
_OPENCV_VARIABLES = frozenset({"OPENCV_FOR_THREADS_NUM"})

_NO_REPORT = (
    "no rank reported from inside: not a Python program, one started with -I, -E or -S, "
    "or one that did not reach its own end"
)

#: Why a number of threads is not tuned.
_IGNORED = "the program loads no OpenMP runtime, and no BLAS with threads"
#: For knobs whose effect a running program does not show: how the user can see it.
_HOW_TO_SEE = {
    "map_by": "which rank is where is the launcher's to say: mpirun --report-bindings",
    "mem_bind": "the first line of a rank's /proc/PID/numa_maps shows it",
    "ompi_btl": "Open MPI keeps it to itself: OMPI_MCA_mpi_show_mca_params=all prints it",
    "ompi_allreduce": "Open MPI keeps it to itself: OMPI_MCA_mpi_show_mca_params=all prints it",
    "nccl_algo": "NCCL keeps it to itself: NCCL_DEBUG=INFO prints it",
    "nccl_proto": "NCCL keeps it to itself: NCCL_DEBUG=INFO prints it",
}


def effects(spec: StudySpec, setting: Setting, observation: Observation) -> tuple[Effect, ...]:
    """Return the verdict on each knob of `setting`, in its order."""
    by_name = {knob.name: knob for knob in spec.knobs}
    return tuple(
        Effect(name, value, *_judge(name, value, by_name.get(name), observation.ranks, spec))
        for name, value in setting.items
    )


#: The observed value, the verdict, and its reason.
_Judgement = tuple[Value | None, Verdict, str]


def _judge(
    name: str, requested: Value, knob: Knob | None, ranks: Sequence[RankView], spec: StudySpec
) -> _Judgement:
    """Return the judgement on one knob."""
    variables = frozenset(knob.route.names if knob and isinstance(knob.route, Env) else ())
    option = knob.route.option if knob and isinstance(knob.route, LauncherOption) else name
    if option in {"bind_to", "gpu_bind"}:
        return _binding(requested, ranks, spec.machine)
    if option == "cores_per_rank":
        return _own_cores(requested, ranks, spec)
    if name == "allocator":
        return _allocator(requested, ranks)
    for knob_name, knob_variables, judge in JUDGES:
        if name == knob_name or variables & knob_variables:
            if isinstance(requested, int):
                return judge(requested, ranks, spec.machine)
            return _not_observable("left to the library" if requested == UNSET else "not a number")
    return _not_observable(_HOW_TO_SEE.get(name, "nothing in a running program shows it"))


def _not_observable(reason: str) -> _Judgement:
    return None, Verdict.NOT_OBSERVABLE, reason


def _allocator(requested: Value, ranks: Sequence[RankView]) -> _Judgement:
    """Judge by the library that is mapped in each rank."""
    allocators = [rank.allocator for rank in ranks if rank.allocator is not None]
    if not allocators:
        return _not_observable(_NO_REPORT)
    different = next((name for name in allocators if name != requested), None)
    if different is None:
        return requested, Verdict.HONOURED, ""
    return different, Verdict.OVERRIDDEN, f"malloc comes from {different} all the same"


def _binding(requested: Value, ranks: Sequence[RankView], machine: Machine) -> _Judgement:
    """Judge by the CPUs that each rank may run on."""
    if requested == UNSET:
        return _not_observable("left to the launcher")
    cpus = [len(rank.affinity) for rank in ranks if rank.affinity]
    if not cpus:
        return _not_observable("no rank was seen while it ran")
    is_free, text = max(cpus) >= machine.affinity_cpus, f"a rank may run on {max(cpus)} CPUs"
    if requested == "none":
        fits, why = is_free, f"a rank may run on {min(cpus)} CPUs only"
    elif requested == "core":
        cpus_per_core = machine.logical_cpus // max(1, machine.physical_cores)
        fits, why = max(cpus) <= max(1, cpus_per_core), text
    else:
        fits, why = not is_free, "each rank may run on every CPU: there is one such place"
    if not fits:
        return _not_observable(why)
    return requested, Verdict.HONOURED, "" if requested in {"none", "core"} else text


def _own_cores(requested: Value, ranks: Sequence[RankView], spec: StudySpec) -> _Judgement:
    """Judge by whether each rank may run on so many cores, of which no other rank has any."""
    cores = spec.machine.cores_per_rank(spec.layout) if requested == SHARE else requested
    masks = [(rank.rank, rank.affinity) for rank in ranks if rank.affinity]
    if not isinstance(cores, int) or not masks:
        unset = requested == UNSET
        return _not_observable("left to the launcher" if unset else "no rank was seen while it ran")
    fewest, most = (pick(len(mask) for _, mask in masks) for pick in (min, max))
    cpus_per_core = max(1, spec.machine.logical_cpus // max(1, spec.machine.physical_cores))
    observed, text = most // cpus_per_core, f"a rank may run on {wording.count(most, 'CPU')}"
    pairs = combinations(masks, 2) if spec.layout.is_local else ()  # two hosts have a CPU 0 each
    for (one, mask), (other, other_mask) in pairs:
        if shared := set(mask).intersection(other_mask):
            return observed, Verdict.OVERRIDDEN, f"ranks {one} and {other} share CPU {min(shared)}"
    if most > (cpus := cores * cpus_per_core):
        return observed, Verdict.OVERRIDDEN, text
    if fewest < cpus:  # an OpenMP library that pins threads narrows the mask too
        return _not_observable(f"a rank may run on {wording.count(fewest, 'CPU')} only, of {cpus}")
    return cores, Verdict.HONOURED, "" if cores == requested else text


#: Variables by which an OpenMP library pins threads, whatever the launcher did.
_PINNING = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


def shared_cpus(
    ranks: Sequence[RankView], cpus: int, environment: Iterable[tuple[str, str]] = ()
) -> str:
    """Return which ranks of one host share a CPU though others are free; empty: none do.

    ``cpus`` is how many CPUs of the host may be used, ``environment`` the user's own variables.
    """
    masks: dict[tuple[int, ...], list[str]] = {}
    for rank in ranks:
        if rank.affinity:
            masks.setdefault(rank.affinity, []).append(str(rank.rank))
    free = cpus - len({cpu for mask in masks for cpu in mask})  # no rank may run on these
    crowded = [(mask, names) for mask, names in masks.items() if len(names) > len(mask)]
    if not crowded or free < 1:
        return ""
    mask, names = crowded[0]
    text = f"ranks {', '.join(names)} may run on CPU{'' if len(mask) == 1 else 's'} "
    text += f"{', '.join(map(str, mask))} only, and {free} of {cpus} CPUs have no rank"
    pinned = [f"{name}={value}" for name, value in environment if name in _PINNING]
    return f"{text} ({' '.join(pinned)} is set)" if pinned else text


def _omp(requested: int, ranks: Sequence[RankView], machine: Machine) -> _Judgement:
    """Judge by the thread pools of the OpenMP and BLAS libraries in each rank."""
    ranks_with_pools = [rank for rank in ranks if rank.pools]
    if not ranks_with_pools:
        if ranks and all(rank.ignores_thread_variables for rank in ranks):
            return None, Verdict.OVERRIDDEN, _IGNORED
        if any(rank.reported for rank in ranks):
            return _not_observable("the program has no BLAS or OpenMP library that was found")
        return _not_observable(_NO_REPORT)
    for rank in ranks_with_pools:
        # If the program has torch, torch's pool counts, whatever NumPy has beside it. OpenCV's
        # wheel brings a BLAS of its own, which says nothing of the program's.
        of_torch = [pool for pool in rank.pools if pool[0] == "torch"]
        not_of_opencv = [pool for pool in rank.pools if "opencv" not in pool[0]]
        counts = [threads for _, threads in of_torch or not_of_opencv or rank.pools]
        if requested not in counts:
            observed = rank.blas_threads if rank.blas_threads in counts else max(counts)
            return _differs(requested, observed, rank, machine)
    differing = sorted(
        {pool for rank in ranks_with_pools for pool in rank.pools if pool[1] != requested}
    )
    return requested, Verdict.HONOURED, ", ".join(f"{name} runs {n}" for name, n in differing)


def _opencv(requested: int, ranks: Sequence[RankView], machine: Machine) -> _Judgement:
    """Judge by the number of OpenCV's threads in each rank."""
    observations = [
        (rank, rank.opencv_threads) for rank in ranks if rank.opencv_threads is not None
    ]
    if not observations:
        has_report = any(rank.reported for rank in ranks)
        if any(rank.opencv_loaded for rank in ranks):
            by_children = "OpenCV is loaded by child processes, which do not report"
            return _not_observable(by_children if has_report else _NO_REPORT)
        if has_report or any(rank.mapped for rank in ranks):
            return None, Verdict.OVERRIDDEN, "the program does not load OpenCV"
        return _not_observable(_NO_REPORT)
    for rank, observed in observations:
        if observed != requested:
            return _differs(requested, observed, rank, machine)
    return requested, Verdict.HONOURED, ""


def _differs(requested: int, observed: int, rank: RankView, machine: Machine) -> _Judgement:
    """Call it capped if an upper bound of the library explains it, else overridden."""
    if observed < requested:
        if observed == len(rank.affinity) < machine.cores:
            bound = f"the rank is bound to {observed} of {machine.cores} cores"
            return observed, Verdict.CAPPED, bound
        if observed >= machine.cores:
            return observed, Verdict.CAPPED, f"the library runs no more than {observed} here"
        if observed == rank.blas_limit:
            return observed, Verdict.CAPPED, f"the library was built for {observed} at most"
    reason = f"the program itself set it to {observed} (seen in rank {rank.rank})"
    return observed, Verdict.OVERRIDDEN, reason


def _workers(requested: int, ranks: Sequence[RankView], _machine: Machine) -> _Judgement:
    # The number is rough: a rank has other children too, and samples miss short-lived ones.
    children = [rank.children for rank in ranks if rank.threads]  # of ranks that were sampled
    if not children:
        return _not_observable("no rank was seen while it ran")
    fewest = min(children)
    if fewest >= requested:
        reason = "" if fewest == requested else f"each rank had {fewest} child processes or more"
        return fewest, Verdict.HONOURED, reason
    reason = f"a rank was seen with {fewest} child processes at most"
    return fewest, Verdict.NOT_OBSERVABLE, reason


def _rank_count(requested: int, ranks: Sequence[RankView], _machine: Machine) -> _Judgement:
    """Judge by the worlds that the ranks see: a launch with one of another size has failed."""
    if any(rank.world_size for rank in ranks):
        return requested, Verdict.HONOURED, ""
    return _not_observable("no rank was seen that knows how many there are")


#: The function that judges a number: by the name of the knob, or by a variable that it sets. The
#: first row that fits counts; a variable stands in one row only.
JUDGES = (
    (RANKS, frozenset[str](), _rank_count),
    ("omp_threads", _OMP_VARIABLES, _omp),
    ("opencv_threads", _OPENCV_VARIABLES, _opencv),
    ("iterator_workers", frozenset[str](), _workers),
)
