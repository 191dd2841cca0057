"""The knobs that ``tune`` knows by itself: one row a knob.

A study file can give each another domain or route, and define knobs of its own.
"""

from __future__ import annotations

from typing import Literal

from tuner.errors import UsageError, suggestion
from tuner.model import Choice, Env, Flag, IntRange, Knob

#: The communicators of Chainer 7.8's ``chainermn.create_communicator`` that exchange
#: gradients; all but ``naive`` need CuPy, the last two NCCL as well.
_GPU_COMMUNICATORS = ("flat", "non_cuda_aware", "pure_nccl")

Role = Literal["threads", "workers", "worker_threads"]

KNOBS: tuple[Knob, ...] = (
    Knob(
        "omp_threads",
        IntRange(1, "cores"),
        Env(
            (
                "OMP_NUM_THREADS",
                "OPENBLAS_NUM_THREADS",
                "MKL_NUM_THREADS",
                "BLIS_NUM_THREADS",
                "NUMEXPR_NUM_THREADS",
            )
        ),
        help="BLAS and OpenMP threads per rank",
        live=True,
    ),
    Knob(
        "opencv_threads",
        IntRange(1, "cores"),
        Env(("OPENCV_FOR_THREADS_NUM",)),  # OpenCV does not read OMP_NUM_THREADS
        help="OpenCV threads per rank",
        live=True,
    ),
    # Workers decode and augment, which is work for a core. Where they rather wait for
    # storage, more than there are cores can help: `--knob iterator_workers=1..16`.
    Knob(
        "iterator_workers",
        IntRange(1, "cores"),
        Flag(),
        help="processes per rank that load the training data",
        live=True,
    ),
    Knob(
        "communicator",
        Choice(("naive", *_GPU_COMMUNICATORS)),
        Flag(),
        help="how ChainerMN exchanges gradients",
        live=True,
        gpu_values=_GPU_COMMUNICATORS,
    ),
)


def names() -> tuple[str, ...]:
    """The names of the known knobs, in the order of the table."""
    return tuple(knob.name for knob in KNOBS)


def is_known(name: str) -> bool:
    """True for a knob of the table."""
    return name in names()


#: What a knob's number costs in cores on each rank: threads + workers x worker threads.
ROLES: dict[str, Role] = {
    "omp_threads": "threads",
    "iterator_workers": "workers",
    "opencv_threads": "worker_threads",
}


def knob(name: str) -> Knob:
    """The row of one knob; ``UsageError`` with the nearest name where there is none."""
    for row in KNOBS:
        if row.name == name:
            return row
    raise UsageError(f"There is no knob {name!r}.", suggestion(name, names()))
