"""Torchrun's words, and whose torch it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.launch.launchers.torchrun import Torchrun
from tuner.model import LauncherInfo, Value
from tuner.model.errors import UsageError

INFO = LauncherInfo("torchrun", "/venv/bin/torchrun", "2.13.0+cpu")
PROGRAM = ("/bin/sh", "task_wrapper.sh", "A=1", "--", "python", "train.py")


def info(*args: str, mpirun: str = INFO.mpirun) -> LauncherInfo:
    return LauncherInfo("torchrun", mpirun, "2.13.0", None, args)


@pytest.mark.parametrize(
    ("mpirun", "starter"),
    [
        ("/venv/bin/torchrun", ("/venv/bin/torchrun",)),
        ("/venv/bin/python", ("/venv/bin/python", "-m", "torch.distributed.run")),
        ("/usr/bin/python3.12", ("/usr/bin/python3.12", "-m", "torch.distributed.run")),
    ],
)
def test_the_whole_command(mpirun: str, starter: tuple[str, ...]) -> None:
    assert Torchrun().argv(info(mpirun=mpirun), 8, {"bind_to": "none"}, PROGRAM) == (
        *starter,
        *("--standalone", "--nnodes", "1", "--nproc-per-node", "8", "--no-python"),
        *("/bin/sh", "task_wrapper.sh", "A=1", "--", "python", "train.py"),
    )


def test_the_users_own_arguments() -> None:
    assert Torchrun().argv(info("--numa-binding=node"), 2, {}, ("train",)) == (
        *("/venv/bin/torchrun", "--standalone", "--numa-binding=node"),
        *("--nnodes", "1", "--nproc-per-node", "2", "--no-python", "train"),
    )


@pytest.mark.parametrize("word", ["--rdzv-endpoint=host:29500", "--rdzv_backend", "--master_port"])
def test_a_meeting_point_of_the_users_own_stays(word: str) -> None:
    argv = Torchrun().argv(info(word, "x"), 2, {}, ("train",))
    assert argv[:3] == ("/venv/bin/torchrun", word, "x")


@pytest.mark.parametrize("word", ["--nnodes=2", "--nproc-per-node", "--nproc_per_node=gpu"])
def test_the_number_of_ranks_is_ours_to_say(word: str) -> None:
    with pytest.raises(UsageError, match="how many ranks torchrun starts") as caught:
        Torchrun().argv(info(word), 2, {}, ("train",))
    assert "--mpi-procs" in caught.value.hint


@pytest.mark.parametrize("option", [{"bind_to": "core"}, {"btl": "self"}])
def test_what_it_cannot_set(option: dict[str, Value]) -> None:
    with pytest.raises(UsageError, match="torchrun has no such option"):
        Torchrun().argv(INFO, 2, option, ("train",))


@pytest.mark.parametrize(
    ("head", "python"),
    [
        ("#!/venv/bin/python\nimport sys", "/venv/bin/python"),
        ("#!/venv/bin/python3.12 -s\n", "/venv/bin/python3.12"),
        ("#!/usr/bin/env python3\n", "python3"),
        # pip, where the path is too long for the kernel or has a space
        ("#!/bin/sh\n'''exec' /a/long/bin/python \"$0\" \"$@\"\n' '''\n", "/a/long/bin/python"),
        ("#!/bin/sh\n'''exec' \"/a b/bin/python3\" \"$0\" \"$@\"\n' '''\n", "/a b/bin/python3"),
        ("#!/bin/sh\nexec something\n", None),
        ("\x7fELF", None),
    ],
)
def test_the_python_of_a_script_is_asked(tmp_path: Path, head: str, python: str | None) -> None:
    script = tmp_path / "torchrun"
    script.write_text(head)
    assert Torchrun().question(script)[:1] == ((python,) if python else ())


def test_an_interpreter_is_asked_itself() -> None:
    assert Torchrun().question(Path("/x/python3.12"))[:2] == ("/x/python3.12", "-c")
    assert Torchrun().question(Path("/x/no-such-script")) == ()


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("torchrun of torch 2.13.0+cpu\n", "2.13.0+cpu"),
        ("a warning\ntorchrun of torch 1.13.1\n", "1.13.1"),
        ("mpirun (Open MPI) 5.0.11", None),
    ],
)
def test_the_version(text: str, version: str | None) -> None:
    assert Torchrun().version(text) == version


def test_it_brings_no_mpi() -> None:
    assert Torchrun().environment(INFO) == {}
    assert Torchrun().mpi_file_names() == ()
