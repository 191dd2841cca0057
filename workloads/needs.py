"""What each trainer imports that is not Python's own, asked for before it is imported."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from .torch_world import place
else:  # run by its path: this folder is on sys.path
    from torch_world import place

#: By the trainer's name, the first word of which is that of an extra, too.
MODULES: Mapping[str, tuple[str, ...]] = {
    "chainer_mnist": ("numpy", "chainer", "mpi4py"),
    "chainer_imagenet": ("numpy", "chainer", "mpi4py", "cv2"),
    "mpi_stencil": ("numpy", "mpi4py"),
    "torch_ddp": ("numpy", "torch", "pytorch_pfn_extras", "cv2"),
}

#: Chainer's source package needs an older setuptools than there is.
INSTALL = "pip install --build-constraint constraints-build.txt"

#: The first rank to exit ends the job: so long the others leave rank 0 to speak, s.
LAST_WORD_S = 2.0

Find = Callable[[str], object | None]


def missing(trainer: str, find: Find = find_spec) -> list[str]:
    """The modules that a trainer needs and this interpreter has not."""
    return [module for module in MODULES.get(trainer, ()) if find(module) is None]


def extra(trainer: str) -> str:
    """The name of the extra that has them."""
    return trainer.partition("_")[0]


def check(file: str, environ: Mapping[str, str] = os.environ, find: Find = find_spec) -> None:
    """Let a trainer start, or end this process with one line: nothing was imported yet.

    Raises:
        SystemExit: A module is missing; the code is 2.
    """
    trainer = Path(file).stem
    lacks = missing(trainer, find)
    if lacks:
        complain(
            place(environ).rank,
            f"{trainer}.py",
            f"{sys.executable} has no {' and no '.join(lacks)}: "
            f"start it with another Python, or in a checkout: {INSTALL} '.[{extra(trainer)}]'",
        )
        raise SystemExit(2)


def complain(rank: int, prog: str, error: object) -> None:
    """What rank 0 says on behalf of all, each of which is about to exit by itself."""
    if rank == 0:
        print(f"{prog}: error: {error}", file=sys.stderr, flush=True)
    else:
        time.sleep(LAST_WORD_S)
