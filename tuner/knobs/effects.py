"""Says of each knob whether it took effect in the ranks (pure: `Observation` in, `Effect` out)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tuner.model import (
    UNSET,
    Effect,
    Env,
    Knob,
    LauncherOption,
    Machine,
    Observation,
    RankView,
    Setting,
    Value,
    Verdict,
)

#: A knob under another name is judged by what it sets.
OMP_VARIABLES = frozenset(
    {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"}
)
OPENCV_VARIABLES = frozenset({"OPENCV_FOR_THREADS_NUM"})

_NO_REPORT = (
    "no rank reported from inside: not a Python program, one started with -I, -E or -S, "
    "or one that did not reach its own end"
)

_NO_POOL = "the program has no BLAS or OpenMP library that was found"
_TEXT = "not a number"


def effects(
    setting: Setting, knobs: Sequence[Knob], observation: Observation, machine: Machine
) -> tuple[Effect, ...]:
    """The verdict on each knob of `setting`, in its order; knobs that are not set have none."""
    by_name = {knob.name: knob for knob in knobs}
    return tuple(
        _judge(name, asked, by_name.get(name), observation.ranks, machine)
        for name, asked in setting.items
    )


def _judge(
    name: str, asked: Value, knob: Knob | None, ranks: Sequence[RankView], machine: Machine
) -> Effect:
    variables = frozenset(knob.route.names if knob and isinstance(knob.route, Env) else ())
    option = knob.route.option if knob and isinstance(knob.route, LauncherOption) else name
    if option == "bind_to":
        return Effect(name, asked, *_binding(asked, ranks, machine))
    if name == "allocator":
        return Effect(name, asked, *_allocator(asked, ranks))
    if name in _UNSEEN:
        return Effect(name, asked, *_unseen(_UNSEEN[name]))
    for usual_name, usual_variables, judge in _JUDGES:
        if name != usual_name and not variables & usual_variables:
            continue
        if isinstance(asked, int):
            return Effect(name, asked, *judge(asked, ranks, machine))
        return Effect(name, asked, *_unseen("left to the library" if asked == UNSET else _TEXT))
    return Effect(name, asked, *_unseen("nothing in a running program shows it"))


_Seen = tuple[Value | None, Verdict, str]

#: What a running program does not show, and what tells it otherwise.
_UNSEEN = {
    "map_by": "which rank is where is the launcher's to say: mpirun --report-bindings",
    "ompi_btl": "Open MPI keeps it to itself: OMPI_MCA_mpi_show_mca_params=all prints it",
    "ompi_allreduce": "Open MPI keeps it to itself: OMPI_MCA_mpi_show_mca_params=all prints it",
    "nccl_algo": "NCCL keeps it to itself: NCCL_DEBUG=INFO prints it",
    "nccl_proto": "NCCL keeps it to itself: NCCL_DEBUG=INFO prints it",
}


def _allocator(asked: Value, ranks: Sequence[RankView]) -> _Seen:
    """By the library that is mapped in each rank."""
    seen = [rank.allocator for rank in ranks if rank.allocator is not None]
    if not seen:
        return _unseen(_NO_REPORT)
    other = next((name for name in seen if name != asked), None)
    if other is None:
        return asked, Verdict.HONOURED, ""
    return other, Verdict.OVERRIDDEN, f"malloc comes from {other} all the same"


def _binding(asked: Value, ranks: Sequence[RankView], machine: Machine) -> _Seen:
    """Bound or not, by the CPUs that each rank may run on."""
    seen = [rank for rank in ranks if rank.affinity]
    if not seen:
        return _unseen("no rank was seen while it ran")
    most = max(len(rank.affinity) for rank in seen)
    free = most >= machine.affinity_cpus
    if asked == "none":
        bound = f"a rank may run on {min(len(r.affinity) for r in seen)} CPUs only"
        return (asked, Verdict.HONOURED, "") if free else (None, Verdict.NOT_OBSERVABLE, bound)
    threads_per_core = max(1, machine.logical_cpus // max(1, machine.physical_cores))
    if asked == "core":
        wrong = f"a rank may run on {most} CPUs"
        fits = most <= threads_per_core
        return (asked, Verdict.HONOURED, "") if fits else (None, Verdict.NOT_OBSERVABLE, wrong)
    if free:
        return _unseen("each rank may run on every CPU: there is one such place")
    return asked, Verdict.HONOURED, f"a rank may run on {most} CPUs"


def _unseen(reason: str) -> _Seen:
    return None, Verdict.NOT_OBSERVABLE, reason


def _omp(asked: int, ranks: Sequence[RankView], machine: Machine) -> _Seen:
    seen = [rank for rank in ranks if rank.pools]
    if not seen:
        reported = any(rank.reported for rank in ranks)
        return _unseen(_NO_POOL if reported else _NO_REPORT)
    for rank in seen:
        counts = [threads for _, threads in _own_pools(rank)]
        if asked not in counts:
            main = rank.blas_threads if rank.blas_threads in counts else max(counts)
            return _differs(asked, main, rank, machine)
    others = sorted({pool for rank in seen for pool in rank.pools if pool[1] != asked})
    reason = ", ".join(f"{library} runs {threads}" for library, threads in others)
    return asked, Verdict.HONOURED, reason


def _own_pools(rank: RankView) -> Sequence[tuple[str, int]]:
    """The pools that count: of a program with torch it is torch's, whatever NumPy has beside it.

    OpenCV's wheel brings a BLAS of its own, which says nothing of the program's.
    """
    torch = [pool for pool in rank.pools if pool[0] == "torch"]
    return torch or [pool for pool in rank.pools if "opencv" not in pool[0]] or rank.pools


def _opencv(asked: int, ranks: Sequence[RankView], machine: Machine) -> _Seen:
    seen = [(rank, rank.opencv_threads) for rank in ranks if rank.opencv_threads is not None]
    if not seen:
        if any(rank.opencv_loaded for rank in ranks):
            return _unseen("OpenCV is loaded by child processes, which do not report")
        if any(rank.reported for rank in ranks):
            return None, Verdict.OVERRIDDEN, "the program does not load OpenCV"
        return _unseen(_NO_REPORT)
    for rank, observed in seen:
        if observed != asked:
            return _differs(asked, observed, rank, machine)
    return asked, Verdict.HONOURED, ""


def _differs(asked: int, observed: int, rank: RankView, machine: Machine) -> _Seen:
    """Capped where an upper bound of the library explains the difference, else overridden."""
    if observed < asked:
        if observed == len(rank.affinity) < machine.cores:
            bound = f"the rank is bound to {observed} of {machine.cores} cores"
            return observed, Verdict.CAPPED, bound
        if observed >= machine.cores:
            return observed, Verdict.CAPPED, f"the library runs no more than {observed} here"
        if observed == rank.blas_limit:
            return observed, Verdict.CAPPED, f"the library was built for {observed} at most"
    reason = f"the program itself set it to {observed} (seen in rank {rank.rank})"
    return observed, Verdict.OVERRIDDEN, reason


def _workers(asked: int, ranks: Sequence[RankView], _machine: Machine) -> _Seen:
    # Only a lower bound can be told: a rank has other children too, and short-lived ones are
    # not always seen.
    # The count alone proves little: tuner.knobs.pooling compares those of all launches.
    seen = [rank.children for rank in ranks if rank.threads]
    if not seen:
        return _unseen("no rank was seen while it ran")
    fewest = min(seen)
    if fewest >= asked:
        reason = "" if fewest == asked else f"each rank had {fewest} child processes or more"
        return fewest, Verdict.HONOURED, reason
    reason = f"a rank was seen with {fewest} child processes at most"
    return fewest, Verdict.NOT_OBSERVABLE, reason


_Judge = Callable[[int, Sequence[RankView], Machine], _Seen]
_JUDGES: tuple[tuple[str, frozenset[str], _Judge], ...] = (
    ("omp_threads", OMP_VARIABLES, _omp),
    ("opencv_threads", OPENCV_VARIABLES, _opencv),
    ("iterator_workers", frozenset(), _workers),
)
