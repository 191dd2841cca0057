"""Hydra's words."""

from __future__ import annotations

import pytest

from tuner.launch.launchers.mpich import MPICH
from tuner.model import LauncherInfo
from tuner.model.errors import UsageError

INFO = LauncherInfo("mpich", "/mpi/bin/mpirun", "5.0.2", "/mpi/lib/libmpi.so.12")
PROGRAM = ("python", "train.py")


@pytest.mark.parametrize("bind_to", ["none", "core", "socket", "numa"])
def test_the_whole_command(bind_to: str) -> None:
    assert MPICH().argv(INFO, 8, {"bind_to": bind_to}, PROGRAM) == (
        "/mpi/bin/mpirun",
        *("-bind-to", bind_to, "-n", "8", "python", "train.py"),
    )


def test_the_users_own_arguments() -> None:
    info = LauncherInfo("mpich", "/mpi/bin/mpirun", "5.0.2", None, ("-bind-to", "core", "-l"))
    assert MPICH().argv(info, 2, {"bind_to": "none"}, PROGRAM) == (
        "/mpi/bin/mpirun",
        *("-bind-to", "core", "-l", "-n", "2", "python", "train.py"),
    )
    with pytest.raises(UsageError, match="say it too"):
        MPICH().argv(info, 2, {"bind_to": "numa"}, PROGRAM)


def test_an_unknown_binding() -> None:
    with pytest.raises(UsageError, match="bind_to=l3: mpich knows none, core, socket, numa"):
        MPICH().argv(INFO, 1, {"bind_to": "l3"}, PROGRAM)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("HYDRA build details:\n    Version:                 5.0.2\n    Release Date: x", "5.0.2"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.12 Build 2024", "2021.12"),
        ("mpirun (Open MPI) 5.0.11", None),
    ],
)
def test_the_version(text: str, version: str | None) -> None:
    assert MPICH().version(text) == version
