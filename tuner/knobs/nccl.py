"""NVIDIA's collective library, between GPUs."""

from __future__ import annotations

from tuner.model import UNSET, Choice, Env, Knob

_MANUAL = "NCCL, Environment Variables"
_URL = "<https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html>"

NCCL = (
    Knob(
        "nccl_algo",
        Choice((UNSET, "Ring", "Tree")),
        Env(("NCCL_ALGO",)),
        help="NCCL's way through the GPUs: a ring or a tree",
        why="A ring has the bandwidth, a tree the lower latency with many GPUs; NCCL chooses"
        " after a model of the links, which may be wrong.",
        source=f"{_MANUAL}, NCCL_ALGO {_URL}",
        neutral=UNSET,
        needs=("gpu",),
    ),
    Knob(
        "nccl_proto",
        # LL128 corrupts data on links that do not keep its order, so it is not tried.
        Choice((UNSET, "LL", "Simple")),
        Env(("NCCL_PROTO",)),
        help="NCCL's protocol",
        why="LL sends flags with the data, for a low latency at half the bandwidth; Simple has"
        " the full bandwidth. Where NCCL changes over is a guess of its model.",
        source=f"{_MANUAL}, NCCL_PROTO {_URL}",
        neutral=UNSET,
        needs=("gpu",),
    ),
    Knob(
        "nccl_min_channels",
        Choice((UNSET, 1, 4, 8, 16)),
        Env(("NCCL_MIN_NCHANNELS",)),
        help="the least number of NCCL's channels",
        why="Each channel is a block on the GPU that moves data: more of them move it faster, and"
        " leave fewer to the computation beside it.",
        source=f"{_MANUAL}, NCCL_MIN_NCHANNELS {_URL}",
        neutral=UNSET,
        needs=("gpu",),
    ),
    Knob(
        "nccl_threads",
        Choice((UNSET, 128, 256, 512)),
        Env(("NCCL_NTHREADS",)),
        help="CUDA threads a block of NCCL",
        why="Fewer threads leave more of the GPU to the computation, more drive fast links.",
        source=f"{_MANUAL}, NCCL_NTHREADS {_URL}",
        neutral=UNSET,
        needs=("gpu",),
    ),
    Knob(
        "nccl_interface",
        Choice((UNSET,)),  # and the host's own: tuner.config.applicability
        Env(("NCCL_SOCKET_IFNAME",)),
        help="the network interface of NCCL's sockets",
        why="NCCL takes the first interface that it finds, which may be the slow one.",
        source=f"{_MANUAL}, NCCL_SOCKET_IFNAME {_URL}",
        neutral=UNSET,
        needs=("gpu",),
    ),
)
