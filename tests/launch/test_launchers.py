"""What each launcher's command looks like, and whose version it says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tuner.launch.launchers import interpreter_of, launcher_for, launchers
from tuner.launch.launchers.discovery import mismatch
from tuner.model import Carrier, LauncherInfo, Layout, Value
from tuner.model.errors import UsageError

PROGRAM = ("python", "-m", "mpi4py", "train.py")
MPIRUN = "/mpi/bin/mpirun"
TORCHRUN = "/venv/bin/torchrun"
INTEL = "Intel(R) MPI Library for Linux* OS, Version"
EIGHT = Layout(8)
STARTERS = dict.fromkeys(("openmpi", "mpich", "intelmpi"), MPIRUN)
STARTERS |= {"srun": "/usr/bin/srun", "torchrun": TORCHRUN}


@pytest.fixture(autouse=True)
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def argv(
    kind: str,
    *extra: str,
    layout: Layout = EIGHT,
    version: str = "5.0.11",
    ssh: tuple[str, ...] = (),
    carrier: Carrier | None = None,
    **options: Value,
) -> tuple[str, ...]:
    info = LauncherInfo(kind, STARTERS[kind], version, None, extra, ssh, carrier)
    return launcher_for(kind).argv(info, layout, options, PROGRAM)


@pytest.mark.parametrize(
    ("kind", "extra", "options", "words"),
    [
        ("openmpi", "", {"bind_to": "numa"}, "--bind-to numa:overload-allowed -n 8"),
        ("mpich", "", {"map_by": "slot", "bind_to": "core"}, "-bind-to core -map-by core -n 8"),
        ("intelmpi", "-genv I_MPI_DEBUG 5", {"bind_to": "none"},
         "-genv I_MPI_PIN 0 -genv I_MPI_DEBUG 5 -n 8"),
        ("intelmpi", "", {"map_by": "slot", "bind_to": "core"},
         "-genv I_MPI_PIN 1 -genv I_MPI_PIN_DOMAIN core -genv I_MPI_PIN_ORDER compact -n 8"),
        ("intelmpi", "", {"map_by": "socket", "bind_to": "numa"},
         "-genv I_MPI_PIN 1 -genv I_MPI_PIN_DOMAIN numa -genv I_MPI_PIN_ORDER scatter -n 8"),
        ("openmpi", "", {"cores_per_rank": 2},
         "--map-by slot:PE=2 --bind-to core:overload-allowed -n 8"),
        ("mpich", "", {"cores_per_rank": 2}, "-bind-to core:2 -n 8"),
        ("intelmpi", "", {"cores_per_rank": 2},
         "-genv I_MPI_PIN_CELL core -genv I_MPI_PIN 1 -genv I_MPI_PIN_DOMAIN 2 -n 8"),
        (
            "torchrun",
            "--numa-binding=node",
            {},
            "--standalone --numa-binding=node --nnodes 1 --nproc-per-node 8 --no-python",
        ),
    ],
)  # fmt: skip
def test_a_launch_on_this_host(kind: str, extra: str, options: dict[str, Any], words: str) -> None:
    assert argv(kind, *extra.split(), **options) == (STARTERS[kind], *words.split(), *PROGRAM)


def test_open_mpi_is_told_of_more_ranks_than_slots_and_then_only() -> None:
    crowded = Layout(8, room=4)
    assert argv("openmpi", layout=crowded)[1:] == ("--oversubscribe", "-n", "8", *PROGRAM)
    assert argv("openmpi", "--oversubscribe", layout=crowded).count("--oversubscribe") == 1
    assert argv("mpich", layout=crowded) == argv("mpich")
    # 5.0 refuses to bind more ranks than cores, and they are named with their slots.
    on_hosts = Layout(3, ("h1", "h2"), (2, 1), room=1)
    words = argv("openmpi", layout=on_hosts)
    assert words[1:5] == ("--host", "h1:2,h2:1", "--bind-to", "none")
    assert "--bind-to" not in argv("openmpi", "-bind-to", "numa", layout=on_hosts)


def test_open_mpi_does_not_bind_a_program_of_one_process() -> None:
    alone = Layout(1)
    assert argv("openmpi", layout=alone)[1:] == ("--bind-to", "none", "-n", "1", *PROGRAM)
    own = ("--map-by", "slot:pe=2")  # pe= cannot stand beside none
    assert argv("openmpi", *own, layout=alone) == (MPIRUN, *own, "-n", "1", *PROGRAM)
    assert "none" not in argv("openmpi", layout=Layout(1, ("h1",)))
    assert "none" not in argv("openmpi", layout=alone, cores_per_rank=2)


def test_a_value_that_a_launcher_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="bind_to=l3: mpich knows none, core, socket, numa"):
        argv("mpich", bind_to="l3")
    with pytest.raises(UsageError, match="map_by=numa: intelmpi knows slot, socket"):
        argv("intelmpi", map_by="numa")
    for extra in (("-genv", "I_MPI_PIN_DOMAIN", "omp"), ("-genv", "I_MPI_PIN=0")):
        with pytest.raises(UsageError, match=r"bind_to=core, but the arguments .* I_MPI_PIN"):
            argv("intelmpi", *extra, bind_to="core")
    with pytest.raises(UsageError, match="cores_per_rank=0: openmpi knows a number"):
        argv("openmpi", cores_per_rank=0)
    with pytest.raises(UsageError, match="arguments for mpirun say it too: --bind-to l3") as error:
        argv("openmpi", "--bind-to", "l3", cores_per_rank=2)
    assert "leave map-by and bind-to out of --mpirun-arg" in error.value.hint


SEVERAL = Layout(3, ("h1", "h2"), (2, 1))
EVEN = Layout(4, ("h1", "h2"), (2, 2))
SSH = ("ssh", "-F", "config")


def test_each_mpi_names_hosts_with_their_ranks() -> None:
    assert argv("openmpi", layout=SEVERAL)[1:] == ("--host", "h1:2,h2:1", "-n", "3", *PROGRAM)
    assert argv("mpich", layout=SEVERAL)[1:] == ("-hosts", "h1:2,h2:1", "-n", "3", *PROGRAM)
    for kind, name in (("torchrun", "torchrun"), ("srun", "srun"), ("intelmpi", "Intel MPI")):
        with pytest.raises(UsageError, match=rf"{name} starts as many ranks .* not h1:2, h2:1"):
            argv(kind, layout=SEVERAL)
    for rank_by, ppn in (("slot", "2"), ("node", "1")):
        words = argv("intelmpi", layout=EVEN, rank_by=rank_by)
        assert words[1:] == ("-hosts", "h1,h2", "-ppn", ppn, "-n", "4", *PROGRAM)
    words = argv("srun", layout=EVEN, bind_to="core")
    assert " ".join(words[1:-1]) == (
        "--overlap --kill-on-bad-exit=1 --nodelist h1,h2 --nodes 2 --ntasks 4 --ntasks-per-node 2"
        " --mpi=pmix --cpu-bind cores python -m mpi4py"
    )
    cores = argv("srun", layout=EVEN, cores_per_rank=4)
    assert "--cpus-per-task 4 --cpu-bind cores python" in " ".join(cores)
    assert "--mpi=pmix" not in argv("srun", "--mpi=pmi2", layout=EVEN)


def test_one_torchrun_is_started_on_each_host_and_knows_nothing_of_what_did() -> None:
    carrier = Carrier("openmpi", "/opt/mpirun", "5.0.11")
    words = argv("torchrun", layout=EVEN, carrier=carrier)
    assert words[0] == "/opt/mpirun"
    assert words[words.index("--host") + 1] == "h1:1,h2:1"
    inner = " ".join(words[words.index("env") :])
    assert "-u OMPI_COMM_WORLD_RANK" in inner
    assert "--rdzv-endpoint h1 --nnodes 2 --nproc-per-node 2 --no-python" in inner
    own = argv("torchrun", "--rdzv-endpoint=h1:1234", layout=EVEN, carrier=carrier)
    assert "c10d" not in own


def test_each_mpi_takes_the_ssh_command() -> None:
    for kind, version, words in (
        ("openmpi", "5.0.11", ("--prtemca", "plm_ssh_agent", "ssh -F config", "-n")),
        ("openmpi", "4.1.8", ("--mca", "plm_rsh_agent", "ssh -F config", "-n")),
        ("mpich", "5.0.2", ("-launcher", "ssh", "-launcher-exec", "ssh")),
    ):
        assert argv(kind, layout=SEVERAL, ssh=SSH, version=version)[3:7] == words
    info = LauncherInfo("mpich", MPIRUN, "5.0.2", ssh=SSH)
    assert launcher_for("mpich").environment(info) == {"HYDRA_LAUNCHER_EXTRA_ARGS": "-F config"}
    intel = argv("intelmpi", layout=EVEN, ssh=SSH)
    assert intel[5:9] == ("-bootstrap", "rsh", "-bootstrap-exec", "ssh")
    # Inside Slurm Intel MPI heeds -ppn only with the second variable.
    assert launcher_for("intelmpi").environment(info) == {
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-F config",
        "I_MPI_JOB_RESPECT_PROCESS_PLACEMENT": "0",
    }
    with pytest.raises(UsageError, match="cannot take a blank"):
        argv("openmpi", layout=SEVERAL, ssh=("ssh", "-F", "my config"))
    assert "ssh" not in " ".join(argv("openmpi", ssh=SSH)), "nothing is reached on one host"


def test_a_version_is_that_of_one_kind() -> None:
    for text, kind, version in (
        (f"{INTEL} 2021.12 Build 20240213 (id: 4f55822)", "intelmpi", "2021.12"),
        (f"{INTEL} 2019 Update 8 Build 20200624", "intelmpi", "2019 Update 8"),
        ("a warning\ntorchrun of torch 2.13.0+cpu\n", "torchrun", "2.13.0+cpu"),
        ("", "", None),
    ):
        for launcher in launchers():
            assert launcher.version(text) == (version if launcher.kind == kind else None)


def test_a_library_whose_path_has_a_colon_is_not_named_to_mpi4py() -> None:
    info = LauncherInfo("openmpi", MPIRUN, "5.0.2", "/a:b/libmpi.so")
    assert launcher_for("openmpi").environment(info) == {}, "it would take it for two"


def test_an_mpi_that_is_not_the_programs_is_named() -> None:
    assert mismatch("\tlibc.so.6 => /lib/libc.so.6 (0x7f12)\n", "openmpi") == ""
    said = mismatch("\tlibmpi.so.12 => /opt/mpich/lib/libmpi.so.12 (0x7f12)\n", "openmpi")
    assert "linked with MPICH" in said and said.endswith("--mpirun PATH")
    assert mismatch("\tlibmpi.so.12 => /opt/intel/lib/libmpi.so.12 (0x7f12)\n", "intelmpi") == ""


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("#!/usr/bin/env python3\n", "python3"),
        ("#!/bin/sh\n'''exec' /long/bin/python \"$0\" \"$@\"\n' '''\n", "/long/bin/python"),
        ("#!/bin/sh\n'''exec' \"/a b/bin/python3\" \"$0\" \"$@\"\n' '''\n", "/a b/bin/python3"),
        ("#!/bin/sh\n'''exec' '/a b/bin/python3' \"$0\" \"$@\"\n' '''\n", "/a b/bin/python3"),
        ("#!/bin/sh\nexec something\n", None),
    ],
)
def test_the_python_of_a_script(text: str, python: str | None, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(text)
    assert interpreter_of(script) == python
