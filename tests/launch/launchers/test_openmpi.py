"""Open MPI's words."""

from __future__ import annotations

import os

import pytest

from tuner.launch.launchers.openmpi import OpenMPI
from tuner.model import LauncherInfo, Value
from tuner.model.errors import UsageError

INFO = LauncherInfo("openmpi", "/mpi/bin/mpirun", "5.0.11", "/mpi/lib/libmpi.so.40")
PROGRAM = ("python", "-m", "mpi4py", "train.py")


def info(*extra: str) -> LauncherInfo:
    return LauncherInfo("openmpi", "/mpi/bin/mpirun", "5.0.11", None, extra)


@pytest.fixture(autouse=True)
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def test_the_whole_command() -> None:
    assert OpenMPI().argv(INFO, 8, {"bind_to": "none"}, PROGRAM) == (
        "/mpi/bin/mpirun",
        *("--oversubscribe", "--bind-to", "none", "--mca", "btl", "^ofi", "-n", "8"),
        *PROGRAM,
    )


def test_the_flag_for_root_is_for_root_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--allow-run-as-root" not in OpenMPI().argv(INFO, 1, {}, PROGRAM)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert OpenMPI().argv(INFO, 1, {}, PROGRAM)[1] == "--allow-run-as-root"


@pytest.mark.parametrize(
    ("bind_to", "word"),
    [
        ("none", "none"),
        ("core", "core:overload-allowed"),
        ("socket", "socket:overload-allowed"),
        ("numa", "numa:overload-allowed"),
    ],
)
def test_binding(bind_to: str, word: str) -> None:
    argv = OpenMPI().argv(INFO, 1, {"bind_to": bind_to}, PROGRAM)
    assert argv[argv.index("--bind-to") + 1] == word


def test_an_unknown_binding() -> None:
    with pytest.raises(UsageError, match="bind_to=board: openmpi knows none, core, socket, numa"):
        OpenMPI().argv(INFO, 1, {"bind_to": "board"}, PROGRAM)


@pytest.mark.parametrize("flag", ["--bind-to", "-bind-to"])
def test_the_users_own_binding_replaces_ours(flag: str) -> None:
    argv = OpenMPI().argv(info(flag, "core"), 1, {"bind_to": "none"}, PROGRAM)
    assert [word for word in argv if word.endswith("bind-to")] == [flag]
    with pytest.raises(UsageError, match="say it too"):
        OpenMPI().argv(info(flag, "core"), 1, {"bind_to": "socket"}, PROGRAM)


@pytest.mark.parametrize("flag", ["--mca", "-mca", "--gmca"])
def test_the_users_own_components_replace_ours(flag: str) -> None:
    argv = OpenMPI().argv(info(flag, "btl", "self,tcp"), 1, {}, PROGRAM)
    assert "^ofi" not in argv
    assert argv[argv.index(flag) : argv.index("-n")] == (flag, "btl", "self,tcp")


def test_other_arguments_of_the_user_are_added() -> None:
    options: dict[str, Value] = {"bind_to": "none"}
    argv = OpenMPI().argv(info("--mca", "btl_tcp_if_include", "lo"), 2, options, PROGRAM)
    assert argv[5:13] == ("btl", "^ofi", "--mca", "btl_tcp_if_include", "lo", "-n", "2", "python")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("mpirun (Open MPI) 5.0.11\n\nReport bugs to …", "5.0.11"),
        ("mpirun.openmpi (OpenRTE) 4.1.4\n", "4.1.4"),
        ("a warning first\nmpiexec (Open MPI) 4.1.8\n", "4.1.8"),
        ("HYDRA build details:\n    Version:    5.0.2", None),
        ("", None),
    ],
)
def test_the_version(text: str, version: str | None) -> None:
    assert OpenMPI().version(text) == version


def test_a_path_that_mpi4py_would_take_for_two_is_left_out() -> None:
    odd = LauncherInfo("openmpi", "/a:b/bin/mpirun", "5.0.11", "/a:b/lib/libmpi.so.40")
    assert OpenMPI().environment(odd) == {}
