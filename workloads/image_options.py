"""The flags of the trainers that learn images: which images, and which network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from . import trainer_options as flags
else:  # run by its path: this folder is on sys.path
    import trainer_options as flags

ARCHITECTURES = ("small", "resnet50")

#: With 4 ranks on 2 cores a well-set launch takes 5 to 8 s; the epochs are those of He et
#: al. 2015, as in ChainerMN's example.
DEFAULTS = flags.Defaults(batchsize=16, iterations=20, epochs=90)

#: Height and width of an example in pixels.
CROPS = {"small": 64, "resnet50": 224}


@dataclass(frozen=True)
class ImageOptions:
    """``data`` of ``None``: images are made up. ``val`` of ``None``: some are held out."""

    arch: str
    crop: int
    val_batchsize: int
    data: Path | None
    val: Path | None


def add(parser: flags.Parser) -> None:
    """Add the flags to a trainer's."""
    add = parser.add_argument
    add(
        *("-a", "--arch"),
        choices=ARCHITECTURES,
        metavar="NAME",
        help=f"the network: {', '.join(ARCHITECTURES)} [small; with --gpu resnet50]",
    )
    add(
        "--crop",
        type=flags.positive,
        metavar="N",
        help="height and width of an example in pixels "
        f"[{', '.join(f'{arch} {crop}' for arch, crop in CROPS.items())}]",
    )
    add(
        *("-B", "--val-batchsize"),
        type=flags.positive,
        metavar="N",
        help="examples per rank and step of the evaluation [as --batchsize]",
    )
    add(
        "--data",
        type=Path,
        metavar="PATH",
        help="a folder with a subfolder of images for each class, or a list of lines PATH LABEL"
        " [made-up JPEG images]",
    )
    add(
        "--val",
        type=Path,
        metavar="PATH",
        help="the same, of the validation images [every 20th of --data]",
    )


def take(values: dict[str, Any]) -> ImageOptions:
    """Take these flags' values out of all, with what each stands for where it was not given.

    Raises:
        WorkloadError: A validation set without training images.
    """
    own = {name: values.pop(name) for name in ImageOptions.__dataclass_fields__}
    if own["val"] is not None and own["data"] is None:
        raise flags.WorkloadError("--val: needs --data as well (see --help)")
    own["arch"] = own["arch"] or ("resnet50" if values["gpu"] else "small")
    own["crop"] = own["crop"] or CROPS[own["arch"]]
    own["val_batchsize"] = own["val_batchsize"] or values["batchsize"]
    return ImageOptions(**own)
