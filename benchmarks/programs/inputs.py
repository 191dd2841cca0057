"""Makes what a program wants to find in the folder that it is tuned in."""

from __future__ import annotations

import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

#: Inputs that lie here as they are.
HERE = Path(__file__).parent / "inputs"

#: Images of the training list: four batches of the study.
IMAGES = 32

#: As Chainer's example wants them, pixels.
IMAGE_SIDE = 256

#: Edge of the box of water, nm: two of the boxes that it is built of, which fit without a seam
#: (another length needs its energy minimised first); 5184 atoms.
BOX_NM = 2 * 1.86206


@dataclass(frozen=True)
class Checkouts:
    """Where the examples of others lie, and the interpreters that run them, if they are given."""

    chainer: Path | None = None
    chainer_python: Path | None = None
    dlrm: Path | None = None
    dlrm_python: Path | None = None


def nothing(folder: Path, checkouts: Checkouts) -> None:
    """For a program that needs no input of its own."""


def lammps(folder: Path, checkouts: Checkouts) -> None:  # noqa: ARG001
    """``in.lj``."""
    shutil.copy(HERE / "in.lj", folder)


def gromacs(folder: Path, checkouts: Checkouts) -> None:  # noqa: ARG001
    """``water.tpr``, by GROMACS's own tools; what they say goes to ``gmx.log``.

    Raises:
        subprocess.CalledProcessError: One of them fails.
    """
    shutil.copy(HERE / "topol.top", folder)
    _gmx(folder, "solvate", "-cs", "spc216.gro", "-box", *[str(BOX_NM)] * 3)
    _gmx(folder, "grompp", "-f", str(HERE / "water.mdp"), "-o", "water.tpr")


def _gmx(folder: Path, tool: str, *words: str) -> None:
    """One of GROMACS's tools, which read and write ``conf.gro`` and ``topol.top``."""
    files = ["-o" if tool == "solvate" else "-c", "conf.gro", "-p", "topol.top"]
    with (folder / "gmx.log").open("a") as log:
        command = ["gmx", "-nobackup", tool, *words, *files]
        subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=True)


def chainer_imagenet(folder: Path, checkouts: Checkouts) -> None:
    """``example``, a link; JPEG images of noise, and the lists of them."""
    assert checkouts.chainer is not None
    _link(folder / "example", checkouts.chainer / "examples" / "imagenet")
    images = folder / "images"
    images.mkdir(exist_ok=True)
    names = [f"{number:03}.jpg" for number in range(IMAGES)]
    for number, name in enumerate(names):
        _write_jpeg(images / name, seed=number)
    lines = "".join(f"{name} {number}\n" for number, name in enumerate(names))
    for listed in ("train.txt", "val.txt"):
        (folder / listed).write_text(lines)


def dlrm(folder: Path, checkouts: Checkouts) -> None:
    """``example``, a link to the checkout."""
    assert checkouts.dlrm is not None
    _link(folder / "example", checkouts.dlrm)


def _link(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target.resolve())


def _write_jpeg(path: Path, seed: int) -> None:
    """Coarse noise: an image that takes as long to decode as a photograph."""
    import cv2
    import numpy as np

    side = IMAGE_SIDE // 16
    coarse = np.frombuffer(random.Random(seed).randbytes(side * side * 3), np.uint8)
    image = cv2.resize(coarse.reshape(side, side, 3), (IMAGE_SIDE, IMAGE_SIDE))
    cv2.imwrite(str(path), image)
