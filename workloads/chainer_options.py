"""The flags of the ChainerMN trainers: how gradients are exchanged, and what each trains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from . import image_options
    from . import trainer_options as flags
else:  # run by its path: this folder is on sys.path
    import image_options
    import trainer_options as flags

COMMUNICATORS = ("naive", "flat", "non_cuda_aware", "pure_nccl", "dummy")

#: With 8 ranks on 2 cores a well-set launch takes about 5 s; the epochs are those of
#: ChainerMN's own example.
MNIST = flags.Defaults(batchsize=100, iterations=25, epochs=20)


@dataclass(frozen=True)
class ChainerOptions(flags.TrainerOptions):
    """The options of a ChainerMN trainer."""

    communicator: str
    fp16_gradients: bool
    double_buffering: bool


@dataclass(frozen=True)
class MnistOptions(ChainerOptions):
    """And the width of the perceptron."""

    unit: int


@dataclass(frozen=True)
class ImagenetOptions(ChainerOptions):
    """And the images and the network that learns them."""

    images: image_options.ImageOptions


def parse_mnist(prog: str, description: str, argv: Sequence[str]) -> MnistOptions:
    """Read the command line of the MNIST trainer.

    Raises:
        WorkloadError: An unknown flag, or a value that cannot be.
    """
    parser = flags.parser(prog, description, MNIST)
    parser.add_argument(
        *("-u", "--unit"),
        type=flags.positive,
        default=1000,
        metavar="N",
        help="units of each hidden layer [1000]",
    )
    return MnistOptions(**_read(parser, argv, MNIST))


def parse_imagenet(prog: str, description: str, argv: Sequence[str]) -> ImagenetOptions:
    """Read the command line of the image trainer.

    Raises:
        WorkloadError: An unknown flag, or a value that cannot be.
    """
    defaults = image_options.DEFAULTS
    parser = flags.parser(prog, description, defaults)
    image_options.add(parser)
    values = _read(parser, argv, defaults)
    return ImagenetOptions(images=image_options.take(values), **values)


def _read(parser: flags.Parser, argv: Sequence[str], defaults: flags.Defaults) -> dict[str, Any]:
    _add_exchange(parser)
    values = flags.read(parser, argv, defaults)
    if values["communicator"] is None:
        values["communicator"] = "pure_nccl" if values["gpu"] else "naive"
    return values


def _add_exchange(parser: flags.Parser) -> None:
    add = parser.add_argument
    add(
        "--communicator",
        choices=COMMUNICATORS,
        metavar="NAME",
        help=f"{', '.join(COMMUNICATORS)} [naive; with --gpu pure_nccl]",
    )
    add(
        "--fp16-gradients",
        action="store_true",
        help="exchange gradients in half precision (pure_nccl)",
    )
    add(
        "--double-buffering",
        action="store_true",
        help="exchange gradients while the next ones are computed (pure_nccl)",
    )
