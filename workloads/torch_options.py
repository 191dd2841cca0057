"""The flags of the PyTorch trainer: how gradients are exchanged and batches are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from . import image_options
    from . import trainer_options as flags
else:  # run by its path: this folder is on sys.path
    import image_options
    import trainer_options as flags

BACKENDS = ("gloo", "nccl")

#: DataLoader's own (torch 2): without workers the rank loads its batches between its steps.
DEFAULTS = replace(
    image_options.DEFAULTS, prefetch=2, workers="none, the rank loads itself", least_workers=0
)


@dataclass(frozen=True)
class TorchOptions(flags.TrainerOptions):
    """The options of the PyTorch trainer; ``bucket_mb`` of ``None`` is the library's."""

    images: image_options.ImageOptions
    backend: str
    pin_memory: bool
    bucket_mb: int | None


def parse(prog: str, description: str, argv: Sequence[str]) -> TorchOptions:
    """Read a command line.

    Raises:
        WorkloadError: An unknown flag, or a value that cannot be.
    """
    parser = flags.parser(prog, description, DEFAULTS)
    image_options.add(parser)
    _add_own(parser)
    values = flags.read(parser, argv, DEFAULTS)
    values["backend"] = values["backend"] or ("nccl" if values["gpu"] else "gloo")
    values["pin_memory"] = values["pin_memory"] == "yes"
    for name, is_set in (
        ("--backend nccl", values["backend"] == "nccl"),
        ("--pin-memory yes", values["pin_memory"]),
    ):
        if is_set and not values["gpu"]:
            raise flags.WorkloadError(f"{name}: needs --gpu (see --help)")
    return TorchOptions(images=image_options.take(values), **values)


def _add_own(parser: flags.Parser) -> None:
    add = parser.add_argument
    add(
        "--backend",
        choices=BACKENDS,
        metavar="NAME",
        help=f"what exchanges gradients: {', '.join(BACKENDS)} [gloo; with --gpu nccl]",
    )
    add(
        "--pin-memory",
        choices=("yes", "no"),
        default="no",
        metavar="yes|no",
        help="a thread copies batches to memory that the GPU reads by itself [no]",
    )
    add(
        "--bucket-mb",
        type=flags.positive,
        metavar="N",
        help="gradients that DistributedDataParallel exchanges at a time, MiB [the library's: 25]",
    )
