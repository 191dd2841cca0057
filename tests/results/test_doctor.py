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
from tests.study_samples import MACHINE
from tuner.hosts import interference, lock
from tuner.hosts.networks import Network
from tuner.hosts.survey import FolderSpace, ProgramOutput
from tuner.model import LauncherInfo, Load
from tuner.results.doctor.checks import CheckedItem, CheckState, diagnose
from tuner.results.doctor.host_view import HostView, ProgramPython, look
from tuner.results.doctor.several import common_network, together
from tuner.store.store import Store

Look = Callable[..., HostView]
OK, WARNING, FAILURE = CheckState.OK, CheckState.WARNING, CheckState.FAILURE
NOT_SEEN = CheckState.NOT_SEEN
OPENMPI = LauncherInfo("openmpi", "/opt/ompi/bin/mpirun", "5.0.11")
MPICH = LauncherInfo("mpich", "/opt/mpich/bin/mpirun", "4.1.2")
INTELMPI = LauncherInfo("intelmpi", "/opt/intel/bin/mpirun", "2021.13")
TORCHRUN = LauncherInfo("torchrun", "/v/bin/torchrun", "2.7")


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
        monkeypatch.setattr(interference, "load_now", lambda: load)
        mpirun = script(tmp_path / "bin" / "mpirun", "echo 'mpirun (Open MPI) 5.0.11'")
        (tmp_path / "root").mkdir(exist_ok=True)
        plant(tmp_path / "root", files or {})
        environ = {"PATH": os.environ["PATH"], "TUNE_LOCK_DIR": str(tmp_path)}
        given["environ"] = environ | given.get("environ", {})
        usual = {"command": ("sh", "train.sh"), "mpirun": mpirun, "storage": f"{tmp_path}/tune.db"}
        return look(root=tmp_path / "root", **{**usual, **given})

    return call


def item(view: HostView, name: str) -> CheckedItem:
    (checked,) = [each for each in diagnose(view) if each.name == name]
    assert checked.why.endswith("."), "each says why it matters"
    assert bool(checked.mend) or checked.state in {OK, NOT_SEEN}, "and what mends it"
    return checked


def test_what_cannot_be_read_is_not_seen_and_no_error(view_of: Look) -> None:
    environ = {"OMP_NUM_THREADS": "3", "NCCL_API_TOKEN": "7d2ba7c44f1e4f6b8c"}
    view = view_of(environ=environ)
    states = {each.name: each.state for each in diagnose(view)}
    unseen = {name for name, state in states.items() if state is NOT_SEEN}
    assert unseen == {"Python", "MPI library", "shared memory"}
    assert FAILURE not in states.values()
    assert "optuna 5" in item(view, "tune").saw
    variables = item(view, "environment").saw
    assert "OMP_NUM_THREADS=3" in variables and "7d2ba7c44f1e4f6b8c" not in variables


# --- what a launch starts ---------------------------------------------------------------------


def test_programs_and_launchers_that_are_not_there_or_broken(view_of: Look, tmp_path: Path) -> None:
    broken = script(tmp_path / "broken" / "mpirun", "echo no library; exit 127")
    for mpirun, words in (("/nowhere/mpirun", "there is no"), (broken, "fails with 127")):
        launcher = item(view_of(mpirun=mpirun), "launcher")
        assert (launcher.state, words in launcher.saw) == (FAILURE, True), launcher
    assert item(view_of(), "launcher").saw.startswith("Open MPI 5.0.11, /")


def test_the_programs_own_python_is_asked(
    view_of: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    view = view_of(command=(sys.executable, "train.py"))
    assert view.python is not None and view.python.path == sys.executable
    saw = item(view, "Python").saw
    assert saw.startswith("{}.{}.{}, /".format(*sys.version_info)) and "numpy" in saw
    (tmp_path / "train.py").unlink()
    assert view_of(command=(sys.executable, "train.py")).python == view.python
    broken = script(tmp_path / "old" / "python3", "echo no such library >&2; exit 127")
    python = item(view_of(command=(broken, "train.py")), "Python")
    assert (python.state, "no such library" in python.saw) == (FAILURE, True), python


# --- the host ---------------------------------------------------------------------------------

#: A host on which nothing is wrong.
VIEW = HostView(
    *(MACHINE, (0, 1, 2, 3), (), "192.168.0.7", False, {}, {}, Load(0.0), ""),
    *({}, "", {}, True, "/bin/sh", None, OPENMPI, "/a/tune.db", "ext4", {}),  # type: ignore[arg-type]
)
NETWORKS = (
    Network("docker0", "172.17.0.1", "172.17.0.0/16"),
    Network("eth0", "192.168.0.7", "192.168.0.0/24"),
)
LITTLE = FolderSpace("/dev/shm", 64 << 20, 60 << 20, True)
PLENTY = FolderSpace("/a", 2**40, 2**40, True)
FULL, HALF_GIB = replace(LITTLE, free_bytes=0), replace(PLENTY, free_bytes=500 << 20)
NOT_OURS = replace(PLENTY, is_writable=False)
INSIDE = {"is_container": True}


def loads(launcher: LauncherInfo, mpi: str, version: str, fault: str = "") -> dict[str, Any]:
    what = ({"mpi4py": "4.1.2"}, mpi, version, "/lib/libmpi", fault)
    return {"python": ProgramPython("/v/bin/python", "3.11", *what), "launcher": launcher}


def shm(space: FolderSpace) -> dict[str, Any]:
    return {"folders": {"shared memory": space}}


def disks(launches: FolderSpace, temporary: FolderSpace) -> dict[str, Any]:
    return {"folders": {"launches": launches, "temporary files": temporary}}


def stacks(fault: str) -> dict[str, Any]:
    return {"said": {"stacks": ProgramOutput("", fault)}}


@pytest.mark.parametrize(
    ("name", "changes", "state", "words"),
    [
        # The MPI of the ranks must be that of mpirun.
        ("MPI library", loads(OPENMPI, "Open MPI", "5.0.11"), OK, "5.0.11, /lib/libmpi"),
        ("MPI library", loads(OPENMPI, "MPICH", "4.1.2"), FAILURE, "mpirun is of Open MPI"),
        ("MPI library", loads(OPENMPI, "Open MPI", "4.1.8"), WARNING, "loads Open MPI 4.1"),
        ("MPI library", loads(INTELMPI, "Intel MPI", "2021.9"), OK, "Intel MPI 2021.9"),
        ("MPI library", loads(INTELMPI, "Open MPI", "5.0.11"), FAILURE, "is of Intel MPI 2021.13"),
        ("MPI library", loads(OPENMPI, "", "", "cannot load"), FAILURE, "cannot load"),
        ("MPI library", loads(TORCHRUN, "", "", "no MPI"), NOT_SEEN, "need none"),
        ("network", {"networks": NETWORKS}, OK, "docker0 172.17.0.0/16, eth0 192.168.0.0/24"),
        ("network", {"address": ""}, WARNING, "/etc/hosts"),
        ("CPU quota", {"machine": replace(MACHINE, quota_cpus=0.5)}, WARNING, "taskset -c"),
        ("container", INSIDE, OK, "only CPU time is seen"),
        ("shared memory", INSIDE | shm(LITTLE), WARNING, "docker run --shm-size="),
        ("shared memory", shm(FULL), FAILURE, "sudo mount -o remount,size="),
        ("shared memory", shm(NOT_OURS), FAILURE, "sudo chmod 1777 /dev/shm"),
        ("Python stacks", stacks(""), OK, "py-spy may look at processes"),
        ("Python stacks", INSIDE | stacks("exit 1"), WARNING, "docker run --cap-add SYS_PTRACE"),
        ("Python stacks", stacks("sh: py-spy: not found"), NOT_SEEN, "py-spy is not installed"),
        ("disk", disks(HALF_GIB, PLENTY), WARNING, "tune --run-dir FOLDER"),
        ("disk", disks(PLENTY, LITTLE), FAILURE, "export TMPDIR=FOLDER"),
        ("database", {"file_system": "overlay"}, OK, "overlay"),
        ("database", INSIDE | {"file_system": "overlay"}, WARNING, "docker run --volume"),
    ],
)
def test_what_a_host_has(name: str, changes: dict[str, Any], state: CheckState, words: str) -> None:
    result = item(replace(VIEW, **changes), name)
    assert (result.state, words in f"{result.saw} {result.mend}") == (state, True), result


def test_a_job_without_a_launcher_has_nothing_to_ask_it(view_of: Look) -> None:
    assert item(view_of(mpirun=None, kind="none"), "launcher").saw == "no launcher"


def test_gpus_that_cannot_be_read_name_the_extra(
    view_of: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert item(view_of(), "GPUs").state is OK
    gpus = item(view_of({"dev/nvidia0": ""}), "GPUs")
    assert (gpus.state, gpus.mend) == (WARNING, "pip install 'runtime-tuner[gpu]'")


# --- the study --------------------------------------------------------------------------------


def test_a_database_that_no_study_could_be_kept_in(view_of: Look, tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("no database " * 50)
    for storage, words in (
        (tmp_path / "a file", "not an SQLite database"),
        ("mysql://host/name", "only SQLite and PostgreSQL"),
    ):
        database = item(view_of(storage=str(storage)), "database")
        assert (database.state, words in database.saw) == (FAILURE, True), database
    device = tmp_path.stat().st_dev
    line = f"2 1 {os.major(device)}:{os.minor(device)} / /b rw - nfs4 server:/ rw\n"
    database = item(view_of({"proc/self/mountinfo": line}), "database")
    assert (database.state, "network file system (nfs4)" in database.saw) == (FAILURE, True)


def test_a_database_is_neither_made_nor_changed(view_of: Look, tmp_path: Path) -> None:
    path = tmp_path / "new" / "tune.db"
    assert item(view_of(storage=str(path)), "database").state is OK
    assert not path.parent.exists()
    Store.open(f"sqlite:///{path}", create=True).close()
    before = path.read_bytes()
    assert item(view_of(storage=str(path)), "database").state is OK
    assert path.read_bytes() == before


def test_what_else_runs_here(view_of: Look, tmp_path: Path) -> None:
    work = item(view_of(load=Load(1.5, "pid 4711 (make)")), "other work")
    assert (work.state, work.mend) == (WARNING, "ps -fp 4711")
    assert "pid 4711 (make)" in work.saw
    with lock.measuring("mnist-n8", environ={"TUNE_LOCK_DIR": str(tmp_path)}):
        work = item(view_of(), "other work")
    assert work.saw == f"process {os.getpid()} (study mnist-n8) measures here"
    assert item(view_of(), "other work").state is OK


# --- several hosts ----------------------------------------------------------------------------


def test_what_hosts_agree_on_is_said_once_and_else_which_host_it_is() -> None:
    fine = CheckedItem("CPU quota", OK, "none", "Why.")
    bad = CheckedItem("CPU quota", WARNING, "1 of 4 CPUs", "Why.", "taskset")
    assert together({"h1": [fine], "h2": [fine]}) == [fine]
    (merged,) = together({"h1": [fine], "h2": [bad], "h3": [fine]})
    assert merged == replace(bad, saw="h2: 1 of 4 CPUs")
    (merged,) = together({"h0": [fine], **{f"h{number}": [bad] for number in range(1, 100)}})
    assert merged.saw.startswith("h1: 1 of 4 CPUs; h2: ") and merged.saw.endswith("; 91 more")
    for name, state in (("Python", FAILURE), ("disk", OK)):  # versions must be the same
        (merged,) = together({f"h{n}": [CheckedItem(name, OK, f"3.{n}", "Why.")] for n in (11, 12)})
        assert (merged.state, merged.saw) == (state, "h11: 3.11; h12: 3.12")


def eth(interface: str, subnet: int, number: int) -> Network:
    return Network(interface, f"10.0.{subnet}.{number}", f"10.0.{subnet}.0/24")


def test_the_common_network_is_none_of_docker() -> None:
    docker = NETWORKS[0]
    one = [(docker, eth("eth0", 0, number)) for number in (1, 2)]
    fix = "tune --fix interface=eth0"
    assert common_network(one) == (OK, "eth0 10.0.0.0/24; not shared: docker0", fix)
    two = [(*host, eth("eth1", 1, number)) for number, host in enumerate(one, 1)]
    assert common_network(two)[2] == "tune --knob interface"
    apart = [(docker, eth("eth0", number, 1)) for number in (1, 2)]
    assert common_network(apart)[:2] == (WARNING, "none; not shared: docker0, eth0")
