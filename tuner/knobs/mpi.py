"""How the ranks exchange: the communicator, and what the MPI library does below it."""

from __future__ import annotations

from tuner.model import UNSET, Choice, Env, Flag, Knob

#: The communicators of Chainer 7.8's ``chainermn.create_communicator`` that exchange
#: gradients; all but ``naive`` need CuPy, the last two NCCL as well.
_GPU_COMMUNICATORS = ("flat", "non_cuda_aware", "pure_nccl")

_TUNED = "Open MPI 5, Tuning Collectives (coll/tuned)"
_TUNED_URL = "<https://docs.open-mpi.org/en/v5.0.x/tuning-apps/coll-tuned.html>"

#: coll/tuned's own numbers (``ompi_info --all``), the same in Open MPI 4.1 and 5.0.
_ALLREDUCE = (
    ("linear", "1"),
    ("nonoverlapping", "2"),
    ("recursive_doubling", "3"),
    ("ring", "4"),
    ("segmented_ring", "5"),
    ("rabenseifner", "6"),
)

MPI = (
    Knob(
        "communicator",
        Choice(("naive", *_GPU_COMMUNICATORS)),
        Flag(),
        help="how ChainerMN exchanges gradients",
        why="The exchange is the part of a step that all ranks wait for: parameter by parameter"
        " over MPI, packed into one message, or from GPU to GPU.",
        source="ChainerMN, create_communicator"
        " <https://docs.chainer.org/en/stable/chainermn/reference/index.html>",
        live=True,
        gpu_values=_GPU_COMMUNICATORS,
    ),
    Knob(
        "ompi_btl",
        Choice(("auto", "sm", "tcp")),
        Env(("OMPI_MCA_btl",)),  # the names differ with the version: tuner.config.applicability
        help="what Open MPI moves messages by on one host: shared memory, or TCP",
        why="Shared memory copies with the ranks' own cores, which may be the scarce ones; TCP"
        " has the kernel do it, at a higher latency.",
        source="Open MPI 5, Run-time tuning, btl"
        " <https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/index.html>",
        neutral="auto",
        launchers=("openmpi",),
        needs=("btl_is_free",),
    ),
    Knob(
        "ompi_allreduce",
        Choice((UNSET, *(name for name, _ in _ALLREDUCE))),
        Env(
            ("OMPI_MCA_coll_tuned_allreduce_algorithm",),
            also=(("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),),
            texts=_ALLREDUCE,
        ),
        help="Open MPI's algorithm for the sum over all ranks",
        why="Open MPI chooses by message size and ranks after measurements of other machines:"
        " rings use the bandwidth, doubling needs fewer steps.",
        source=f"{_TUNED} {_TUNED_URL}",
        neutral=UNSET,
        launchers=("openmpi",),
    ),
    Knob(
        "ompi_eager_limit",
        Choice((UNSET, 1024, 16_384, 65_536)),
        # `sm` is called `vader` before Open MPI 5.
        Env(("OMPI_MCA_btl_sm_eager_limit", "OMPI_MCA_btl_vader_eager_limit")),
        help="bytes up to which a message through shared memory is sent without asking",
        why="A short message goes at once and is copied twice; a long one waits until its"
        " receiver is ready, and for a slow rank that wait counts (default 4 KiB).",
        source="Open MPI 5, Shared memory"
        " <https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/shared-memory.html>",
        neutral=UNSET,
        when=(("ompi_btl", ("auto", "sm")),),
        launchers=("openmpi",),
    ),
    Knob(
        "ompi_tcp_eager_limit",
        Choice((UNSET, 16_384, 262_144, 1_048_576)),
        Env(("OMPI_MCA_btl_tcp_eager_limit",)),
        help="bytes up to which a message over TCP is sent without asking",
        why="Each question costs a round trip, which over TCP is dear (default 64 KiB).",
        source="Open MPI 5, TCP"
        " <https://docs.open-mpi.org/en/v5.0.x/tuning-apps/networking/tcp.html>",
        neutral=UNSET,
        when=(("ompi_btl", ("tcp",)),),
        launchers=("openmpi",),
    ),
    Knob(
        "mpich_allreduce",
        Choice((UNSET, "recursive_doubling", "reduce_scatter_allgather", "ring", "smp")),
        Env(("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM",)),
        help="MPICH's algorithm for the sum over all ranks",
        why="MPICH chooses by message size and ranks: another one may suit this host better.",
        source="MPICH, README.envvar, MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
        " <https://github.com/pmodels/mpich/blob/main/README.envvar>",
        neutral=UNSET,
        launchers=("mpich",),
    ),
)
