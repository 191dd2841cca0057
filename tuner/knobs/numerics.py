"""What changes the training itself, and not only its speed: tuned where it is asked for by name."""

from __future__ import annotations

from tuner.model import OFF, ON, Choice, Flag, Knob

_CHAINERMN = "<https://docs.chainer.org/en/stable/chainermn/reference/index.html>"

NUMERICS = (
    Knob(
        "fp16_gradients",
        Choice((OFF, ON)),
        Flag(switch=True),
        help="exchange gradients with 16 bits",
        why="Half the bytes, with half the digits: a sum of many small gradients may vanish.",
        source=f"ChainerMN, create_communicator, allreduce_grad_dtype {_CHAINERMN}",
        changes_numerics=True,
        neutral=OFF,
        when=(("communicator", ("pure_nccl",)),),
        needs=("gpu",),
    ),
    Knob(
        "double_buffering",
        Choice((OFF, ON)),
        Flag(switch=True),
        help="exchange gradients while the next step computes",
        why="The exchange is hidden behind the computation, and each update is made with the"
        " gradients of the step before.",
        source=f"ChainerMN, create_multi_node_optimizer, double_buffering {_CHAINERMN}",
        changes_numerics=True,
        neutral=OFF,
        when=(("communicator", ("pure_nccl",)),),
        needs=("gpu",),
    ),
    Knob(
        "batch_size",
        Choice((16, 32, 64, 128, 256)),
        Flag(),
        help="samples a rank and step",
        why="Larger batches use the hardware better and exchange less often, with other"
        " statistics of the gradient. Compare items a second, not the time of an iteration.",
        source="Goyal et al., Accurate, Large Minibatch SGD, 2017 <https://arxiv.org/abs/1706.02677>",
        changes_numerics=True,
    ),
)
