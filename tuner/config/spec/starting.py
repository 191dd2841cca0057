"""Which mpirun starts the ranks: what is asked for, and how it is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from tuner.config.spec.options import RunOptions
from tuner.model import LauncherInfo

if TYPE_CHECKING:
    from tuner.config.study_file import StudyFile


class WantedLauncher(NamedTuple):
    """What is asked for of what starts the ranks; ``None``: nothing."""

    mpirun: str | None = None
    kind: str | None = None
    args: tuple[str, ...] = ()


#: (what is asked for, path of the program, environment) -> the mpirun.
FindLauncher = Callable[[WantedLauncher, str, Mapping[str, str]], LauncherInfo]


def find_launcher(
    wanted: WantedLauncher, program_path: str, environ: Mapping[str, str]
) -> LauncherInfo:
    """The mpirun of this host (:func:`tuner.launch.launchers.find`)."""
    from tuner.launch import launchers

    return launchers.find(
        wanted.mpirun, wanted.args, kind=wanted.kind, program=program_path, environ=environ
    )


def wanted(options: RunOptions, file: StudyFile) -> WantedLauncher:
    """What is asked for: a typed path wins over a kind in the file, and a kind over a path."""
    typed = options.mpirun is not None or options.launcher is not None
    chosen = options if typed else file
    args = options.mpirun_args or file.mpirun_args
    return WantedLauncher(chosen.mpirun, chosen.launcher, args)
