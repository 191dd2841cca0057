"""What each check of ``tune doctor`` says of a host that is made of files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.host_files import plant
from tuner.hosts import interference, lock
from tuner.hosts.networks import Network
from tuner.hosts.survey import Space
from tuner.model import LauncherInfo, Load
from tuner.results.doctor import Finding, HostView, State, diagnose, look
from tuner.results.doctor.host_view import ProgramPython
from tuner.store import Store

Look = Callable[..., HostView]
OPENMPI = LauncherInfo("openmpi", "/opt/ompi/bin/mpirun", "5.0.11")
MPICH = LauncherInfo("mpich", "/opt/mpich/bin/mpirun", "4.1.2")


def script(path: Path, text: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def view_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Look:
    """Looks at a tree with these files; ``load`` and what `look` takes may be given."""

    def call(files: dict[str, str] | None = None, **given: Any) -> HostView:
        load = given.pop("load", Load(0.0))
        monkeypatch.setattr(interference, "before", lambda: load)
        mpirun = script(tmp_path / "bin" / "mpirun", "echo 'mpirun (Open MPI) 5.0.11'")
        (tmp_path / "root").mkdir(exist_ok=True)
        plant(tmp_path / "root", files or {})
        environ = {"PATH": os.environ["PATH"], "TUNE_LOCK_DIR": str(tmp_path)}
        usual = {
            "command": ("sh", "train.sh"),
            "mpirun": mpirun,
            "storage": str(tmp_path / "tune.db"),
        }
        given["environ"] = environ | given.get("environ", {})
        return look(root=tmp_path / "root", **{**usual, **given})

    return call


@pytest.fixture
def view(view_of: Look) -> HostView:
    return view_of()


def finding(view: HostView, name: str) -> Finding:
    (found,) = [each for each in diagnose(view) if each.name == name]
    assert found.why.endswith("."), "each says why it matters"
    assert bool(found.mend) or found.state in {State.OK, State.NOT_SEEN}, "and what mends it"
    return found


def test_what_cannot_be_read_is_not_seen_and_no_error(view: HostView) -> None:
    states = {each.name: each.state for each in diagnose(view)}
    unseen = {name for name, state in states.items() if state is State.NOT_SEEN}
    assert unseen == {
        *("Python", "MPI library", "CUDA-aware MPI", "NCCL"),
        *("clock source", "processes", "locked memory", "shared memory", "CPU clock"),
    }
    assert State.FAILURE not in states.values()


@pytest.mark.parametrize("text", ["", "\0\n", "9" * 5000, "²"])
def test_a_foreign_file_is_no_error(view_of: Look, text: str) -> None:
    names = [
        *("proc/self/limits", "sys/fs/cgroup/pids.max"),
        *("sys/fs/cgroup/pids.current", "sys/devices/system/node/node0/meminfo"),
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    ]
    cgroup = {"proc/self/cgroup": "0::/\n"}
    diagnose(view_of(cgroup | dict.fromkeys(names, f"{text}\nMax processes    {text}\n")))


# --- what a launch starts ---------------------------------------------------------------------


def test_a_program_that_is_not_there(view_of: Look) -> None:
    found = finding(view_of(command=("no-such-program",)), "program")
    assert (found.state, "'no-such-program'" in found.saw) == (State.FAILURE, True)


def test_no_mpirun_and_one_that_is_broken(view_of: Look, tmp_path: Path) -> None:
    broken = script(tmp_path / "broken" / "mpirun", "echo no library; exit 127")
    for mpirun, words in (("/nowhere/mpirun", "there is no"), (broken, "fails with 127")):
        found = finding(view_of(mpirun=mpirun), "launcher")
        assert (found.state, words in found.saw) == (State.FAILURE, True), found
    found = finding(view_of(), "launcher")
    assert found.saw.startswith("Open MPI 5.0.11, /"), found


def loads(mpi: str, version: str, fault: str = "") -> ProgramPython:
    packages = {"mpi4py": "4.1.2"}
    return ProgramPython("/v/bin/python", "3.11", packages, mpi, version, "/lib/libmpi", "", fault)


@pytest.mark.parametrize(
    ("python", "launcher", "state", "words"),
    [
        (loads("Open MPI", "5.0.11"), OPENMPI, State.OK, "Open MPI 5.0.11, /lib/libmpi"),
        (loads("MPICH", "4.1.2"), OPENMPI, State.FAILURE, "but mpirun is of Open MPI 5.0.11"),
        (loads("Open MPI", "5.0.11"), MPICH, State.FAILURE, "but mpirun is of MPICH 4.1.2"),
        (loads("Open MPI", "4.1.8"), OPENMPI, State.WARNING, "loads Open MPI 4.1.8"),
        (loads("Intel MPI", "2021.9"), MPICH, State.OK, "Intel MPI 2021.9"),
        (loads("", "", "RuntimeError: cannot load"), OPENMPI, State.FAILURE, "cannot load"),
        (ProgramPython("/v/bin/python", "3.11"), OPENMPI, State.NOT_SEEN, "no mpi4py"),
        (loads("", "", "no MPI"), replace(OPENMPI, kind="torchrun"), State.NOT_SEEN, "need none"),
    ],
)
def test_the_mpi_of_the_ranks_must_be_that_of_mpirun(
    view: HostView, python: ProgramPython, launcher: LauncherInfo, state: State, words: str
) -> None:
    found = finding(replace(view, python=python, launcher=launcher), "MPI library")
    assert (found.state, words in found.saw) == (state, True), found


def test_the_programs_own_python_is_asked(
    view_of: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    view = view_of(command=(sys.executable, "train.py"))
    assert view.python is not None and view.python.path == sys.executable
    found = finding(view, "Python")
    assert found.saw.startswith("{}.{}.{}, /".format(*sys.version_info)) and "numpy" in found.saw
    (tmp_path / "train.py").unlink()
    assert view_of(command=(sys.executable, "train.py")).python == view.python
    broken = script(tmp_path / "old" / "python3", "echo no such library >&2; exit 127")
    found = finding(view_of(command=(broken, "train.py")), "Python")
    assert (found.state, "no such library" in found.saw) == (State.FAILURE, True), found


def test_chainer_with_a_numpy_that_is_too_new(view: HostView) -> None:
    packages = {"numpy": "2.1.0", "chainer": "7.8.1"}
    python = ProgramPython("/v/bin/python", "3.11", packages)
    found = finding(replace(view, python=python, names_chainer=True), "Python")
    assert found.state is State.WARNING and "numpy<" in found.mend
    assert finding(replace(view, python=python), "Python").state is State.OK


def test_advice_on_chainer_is_for_programs_that_name_it(
    view_of: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mn.py").write_text("import chainermn")
    (tmp_path / "ddp.py").write_text("import torch")
    assert view_of(command=(sys.executable, "mn.py")).names_chainer
    assert not view_of(command=(sys.executable, "ddp.py")).names_chainer
    assert not view_of().names_chainer, "the shipped trainers know how"


@pytest.mark.parametrize(("value", "state"), [("true", State.OK), ("false", State.WARNING)])
def test_gpus_want_a_cuda_aware_mpi_and_nccl(
    view_of: Look, tmp_path: Path, value: str, state: State
) -> None:
    line = f"mca:mpi:base:param:mpi_built_with_cuda_support:value:{value}"
    script(tmp_path / "bin" / "ompi_info", f"echo {line}")
    view = view_of({"dev/nvidia0": ""})
    assert finding(view, "CUDA-aware MPI").state is state
    python = ProgramPython("/v/bin/python", "3.11")
    assert finding(replace(view, python=python), "NCCL").state is State.WARNING
    python = replace(python, packages={"nvidia-nccl-cu12": "2.27"})
    assert finding(replace(view, python=python), "NCCL").saw == "nvidia-nccl-cu12 2.27"


# --- the host ---------------------------------------------------------------------------------

NETWORKS = (
    Network("docker0", "172.17.0.1", "172.17.0.0/16"),
    Network("eth0", "192.168.0.7", "192.168.0.0/24"),
)


def test_each_network_is_named(view: HostView) -> None:
    found = finding(replace(view, networks=NETWORKS, address="192.168.0.7"), "network")
    assert "docker0 172.17.0.0/16, eth0 192.168.0.0/24" in found.saw and found.state is State.OK
    found = finding(replace(view, address=""), "network")
    assert found.state is State.WARNING and found.mend.endswith("/etc/hosts")


@pytest.mark.parametrize(
    ("value", "state"), [("=eth0", State.OK), ("^docker", State.OK), ("ib0", State.WARNING)]
)
def test_a_chosen_interface_must_be_up(view_of: Look, value: str, state: State) -> None:
    view = view_of(environ={"NCCL_SOCKET_IFNAME": value})
    found = finding(replace(view, networks=NETWORKS, address="192.168.0.7"), "network")
    assert found.state is state
    assert found.mend == ("unset NCCL_SOCKET_IFNAME" if state is State.WARNING else "")


CLOCK = "sys/devices/system/clocksource/clocksource0"
NODE = "sys/devices/system/node"
GOVERNOR = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
PSTATE = "sys/devices/system/cpu/intel_pstate/no_turbo"
LIMITS = "Max processes             {}   {}   processes\nMax locked memory  {}  {}  bytes\n"
OF_ONE = "0::/a\n"


@pytest.mark.parametrize(
    ("name", "files", "state", "words"),
    [
        ("clock source", {f"{CLOCK}/current_clocksource": "tsc\n"}, State.OK, "tsc"),
        (
            "clock source",
            {
                f"{CLOCK}/current_clocksource": "hpet\n",
                f"{CLOCK}/available_clocksource": "hpet tsc acpi_pm\n",
            },
            State.WARNING,
            f"echo tsc | sudo tee /{CLOCK}/current_clocksource",
        ),
        (
            "processes",
            {"proc/self/limits": LIMITS.format(*["unlimited"] * 4)},
            State.OK,
            "no limit",
        ),
        ("processes", {"proc/self/limits": LIMITS.format(9, 9, 9, 9)}, State.FAILURE, "ulimit -u"),
        (
            "processes",
            {
                "proc/self/cgroup": OF_ONE,
                "sys/fs/cgroup/a/pids.max": "80\n",
                "sys/fs/cgroup/a/pids.current": "20\n",
            },
            State.FAILURE,
            "room for 60",
        ),
        ("locked memory", {"proc/self/limits": LIMITS.format(9, 9, 65536, 9)}, State.OK, "0 MiB"),
        (
            "locked memory",
            {
                "proc/self/limits": LIMITS.format(9, 9, 8 << 20, 9),
                "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
            },
            State.WARNING,
            "at most 8 MiB, with InfiniBand",
        ),
        (
            "CPU quota",
            {"proc/self/cgroup": OF_ONE, "sys/fs/cgroup/a/cpu.max": "50000 100000\n"},
            State.WARNING,
            "taskset -c",
        ),
        (
            "CPU clock",
            {GOVERNOR.format(0): "performance\n", GOVERNOR.format(1): "powersave\n", PSTATE: "0\n"},
            State.WARNING,
            "governor performance, governor powersave, turbo on",
        ),
        (
            "CPU clock",
            {GOVERNOR.format(0): "performance\n", PSTATE: "1\n"},
            State.OK,
            "governor performance, turbo off",
        ),
        ("NUMA", {f"{NODE}/online": "0-1\n"}, State.OK, "2 nodes"),
        (
            "NUMA",
            {
                f"{NODE}/online": "0-1\n",
                f"{NODE}/node1/meminfo": "Node 1 MemTotal:       0 kB\n",
                f"{NODE}/node1/cpulist": "4-7\n",
            },
            State.WARNING,
            "node1 has no memory",
        ),
        ("container", {}, State.OK, "no"),
        ("container", {"run/.containerenv": ""}, State.OK, "only CPU time is seen"),
    ],
)
def test_the_kernels_files(
    view_of: Look, name: str, files: dict[str, str], state: State, words: str
) -> None:
    found = finding(view_of(files), name)
    assert (found.state, words in f"{found.saw} {found.mend}") == (state, True), found


@pytest.mark.parametrize(
    ("space", "state", "mend"),
    [
        (Space("/dev/shm", 2**40, 2**40, True), State.OK, ""),
        (Space("/dev/shm", 64 << 20, 60 << 20, True), State.WARNING, "docker run --shm-size="),
        (Space("/dev/shm", 64 << 20, 0, True), State.FAILURE, "docker run --shm-size="),
        (Space("/dev/shm", 2**40, 2**40, False), State.FAILURE, "sudo chmod 1777 /dev/shm"),
    ],
)
def test_shared_memory(view_of: Look, space: Space, state: State, mend: str) -> None:
    view = view_of({".dockerenv": ""})
    found = finding(replace(view, folders={"shared memory": space}), "shared memory")
    assert (found.state, found.mend.startswith(mend)) == (state, True), found


@pytest.mark.parametrize(
    ("container", "answer", "state", "words"),
    [
        ({}, "exit 0", State.OK, "py-spy may look at processes"),
        ({}, "exit 1", State.WARNING, "sudo sysctl kernel.yama.ptrace_scope=0"),
        ({".dockerenv": ""}, "exit 1", State.WARNING, "docker run --cap-add SYS_PTRACE"),
        ({}, "exec /no/py-spy", State.NOT_SEEN, "py-spy is not installed"),
    ],
)
def test_whether_python_stacks_can_be_read(
    view_of: Look,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    container: dict[str, str],
    answer: str,
    state: State,
    words: str,
) -> None:
    py_spy = script(tmp_path / "bin" / "py-spy", f'[ -d "/proc/$4" ] && {answer}')
    monkeypatch.setattr("tuner.hosts.stacks.find_py_spy", lambda: py_spy)
    found = finding(view_of(container), "Python stacks")
    assert (found.state, words in f"{found.saw} {found.mend}") == (state, True), found


# --- the study --------------------------------------------------------------------------------


def test_a_database_in_the_container_itself_is_lost_with_it(view_of: Look) -> None:
    for files, state in (({}, State.OK), ({".dockerenv": ""}, State.WARNING)):
        found = finding(replace(view_of(files), file_system="overlay"), "database")
        assert (found.state, "docker run --volume" in found.mend) == (state, bool(files)), found


def test_a_database_on_a_network_file_system(view_of: Look, tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    line = f"2 1 {os.major(device)}:{os.minor(device)} / /b rw - nfs4 server:/ rw\n"
    found = finding(view_of({"proc/self/mountinfo": line}), "database")
    assert (found.state, "network file system (nfs4)" in found.saw) == (State.FAILURE, True)
    assert "--storage" in found.mend


def test_a_database_that_no_study_could_be_kept_in(view_of: Look, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("no database " * 50)
    for storage, words in (
        (tmp_path / "a file", "not an SQLite database"),
        (tmp_path / "a file" / "tune.db", "Not a directory"),
        (tmp_path, "is a folder"),
        ("mysql://host/name", "only SQLite and PostgreSQL"),
    ):
        found = finding(view_of(storage=str(storage)), "database")
        assert (found.state, words in found.saw) == (State.FAILURE, True), found


def test_a_database_is_neither_made_nor_changed(view_of: Look, tmp_path: Path) -> None:
    path = tmp_path / "new" / "tune.db"
    assert finding(view_of(storage=str(path)), "database").state is State.OK
    assert not path.parent.exists()
    Store.open(f"sqlite:///{path}", create=True).close()
    before = path.read_bytes()
    assert finding(view_of(storage=str(path)), "database").state is State.OK
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("launches", "temporary", "state", "mend"),
    [
        ((2**40, True), (2**40, True), State.OK, ""),
        ((500 << 20, True), (2**40, True), State.WARNING, "tune --run-dir FOLDER"),
        ((2**40, True), (1 << 20, True), State.FAILURE, "export TMPDIR=FOLDER"),
        ((2**40, False), (1 << 20, True), State.FAILURE, "tune --run-dir FOLDER"),
    ],
)
def test_free_disk(
    view: HostView,
    launches: tuple[int, bool],
    temporary: tuple[int, bool],
    state: State,
    mend: str,
) -> None:
    folders = {
        "launches": Space("/a", 2**40, *launches),
        "temporary files": Space("/b", 2**40, *temporary),
    }
    found = finding(replace(view, folders=folders), "disk")
    assert (found.state, found.mend) == (state, mend)


def test_what_else_runs_here(view_of: Look, tmp_path: Path) -> None:
    assert finding(view_of(), "other work").state is State.OK
    found = finding(view_of(load=Load(1.5, "pid 4711 (make)")), "other work")
    assert (found.state, found.mend) == (State.WARNING, "ps -fp 4711")
    assert "pid 4711 (make)" in found.saw
    with lock.measuring("mnist-n8", environ={"TUNE_LOCK_DIR": str(tmp_path)}):
        found = finding(view_of(), "other work")
    assert found.saw == f"process {os.getpid()} (study mnist-n8) measures here"
    assert finding(view_of(), "other work").state is State.OK
