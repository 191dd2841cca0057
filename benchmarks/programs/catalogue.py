"""The programs: what each is, what it needs, and where its input comes from."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.programs import inputs
from benchmarks.programs.inputs import Checkouts


@dataclass(frozen=True)
class Program:
    """One row of the table.

    ``study`` names its study file; ``knobs`` are tuned beside those that it lists, where these have
    few settings on a small host; ``prepare`` puts its input into a folder; ``executable`` is
    looked for on PATH, and ``package`` is Debian's that has it. ``example`` names the fields of
    `Checkouts` that it needs, and ``marker`` a file that must lie in the checkout.
    """

    title: str
    study: str
    knobs: tuple[str, ...] = ()
    prepare: Callable[[Path, Checkouts], None] = inputs.nothing
    executable: str = ""
    package: str = ""
    example: str = ""
    marker: str = ""
    environment: str = ""  # how the interpreter of the example is made


#: What can matter to any program with threads.
_MORE = ("allocator", "omp_wait_policy")

PROGRAMS = (
    Program("ChainerMN, MNIST (shipped)", "chainer_mnist", (*_MORE, "malloc_arenas")),
    Program("ChainerMN, images (shipped)", "chainer_imagenet", _MORE),
    Program("PyTorch, images (shipped)", "torch_ddp"),
    Program("NumPy and mpi4py, heat (shipped)", "mpi_stencil", ("allocator",)),
    Program("HPL of HPC Challenge", "hpl", executable="hpcc", package="hpcc"),
    Program(
        "GROMACS, water",
        "gromacs",
        ("allocator",),
        prepare=inputs.gromacs,
        executable="gmx",
        package="gromacs",
    ),
    Program(
        "LAMMPS, Lennard-Jones", "lammps", prepare=inputs.lammps, executable="lmp", package="lammps"
    ),
    Program(
        "Chainer's ImageNet example",
        "chainer_imagenet_example",
        _MORE,
        prepare=inputs.chainer_imagenet,
        example="chainer",
        marker="examples/imagenet/train_imagenet.py",
        environment="'chainer==7.8.1' 'numpy<2' pillow --build-constraint constraints-build.txt",
    ),
    Program(
        "PyTorch, DLRM",
        "dlrm_example",
        ("omp_wait_policy", "malloc_arenas"),
        prepare=inputs.dlrm,
        example="dlrm",
        marker="dlrm_s_pytorch.py",
        environment="torch==2.13.0 scikit-learn tensorboard tqdm",
    ),
)
#: Where the examples of others come from.
ORIGINS = {
    "chainer": "https://github.com/chainer/chainer",
    "dlrm": "https://github.com/facebookresearch/dlrm",
}


def missing(program: Program, checkouts: Checkouts) -> list[str]:
    """What is not there, each with the way to get it; empty where it can be tuned."""
    name, lacks = program.example, []
    if program.executable and shutil.which(program.executable) is None:
        lacks.append(f"{program.executable}: apt-get install {program.package}")
    if not name:
        return lacks
    checkout: Path | None = getattr(checkouts, name)
    python: Path | None = getattr(checkouts, f"{name}_python")
    if checkout is None:
        lacks.append(f"--{name} FOLDER, a checkout: git clone {ORIGINS[name]}")
    elif not (checkout / program.marker).is_file():
        lacks.append(f"--{name} {checkout}: has no {program.marker}; is it {ORIGINS[name]}?")
    if python is None or not python.is_file():
        lacks.append(
            f"--{name}-python FILE, an interpreter that has what it needs: python3.11 -m venv "
            f"build/programs/{name}-venv && build/programs/{name}-venv/bin/python -m pip install "
            f"{program.environment}"
        )
    return lacks


def environment(
    program: Program, checkouts: Checkouts, environ: Mapping[str, str]
) -> dict[str, str]:
    """The environment that `tune` gets: an example's own ``python`` comes first on PATH."""
    python: Path | None = getattr(checkouts, f"{program.example}_python", None)
    if python is None:
        return dict(environ)
    folder = python.absolute().parent
    return {**environ, "PATH": f"{folder}:{environ.get('PATH', '')}"}
