"""The checks of a host, one function each (pure): what was seen, and the command that mends it.

Why a check matters is its function's docstring, which is shown. What would make a study or all its
launches fail is a failure; what makes them slow, noisy or likely to fail is a warning.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tuner.hosts import interference
from tuner.model import wording
from tuner.results.doctor.host_view import HostView

MIB, GIB = 1 << 20, 1 << 30

NO_PYTHON = "the program is no Python script, or not there"

#: With less than this no launch runs: shared memory, space on a disk.
FEWEST_SHARED_BYTES, FEWEST_BYTES = 8 * MIB, 64 * MIB


class CheckState(StrEnum):
    """How serious the result of a check is, from good to bad."""

    NOT_SEEN = "not seen"  # the fact could not be read, or does not apply here
    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


#: State, what was seen, and the commands that mend it, one a line.
CheckResult = tuple[CheckState, str, str]
Check = Callable[[HostView], CheckResult]

_CHECKS: list[tuple[str, Check]] = []


@dataclass(frozen=True)
class CheckedItem:
    """What a check has seen and what mends it; `why` says why the check matters."""

    name: str
    state: CheckState
    saw: str
    why: str
    mend: str = ""

    @classmethod
    def of(cls, name: str, check: Callable[..., CheckResult], result: CheckResult) -> CheckedItem:
        """Join the result of a check with its docstring, which says why it matters."""
        state, saw, mend = result
        return cls(name, state, saw, " ".join((check.__doc__ or "").split()), mend)


def diagnose(view: HostView) -> list[CheckedItem]:
    """Make all checks, in the order in which a study would meet their faults."""
    return [CheckedItem.of(name, check, check(view)) for name, check in _CHECKS]


def _check(name: str) -> Callable[[Check], Check]:
    """Add a function to the checks."""

    def add(function: Check) -> Check:
        _CHECKS.append((name, function))
        return function

    return add


def _ok(saw: str) -> CheckResult:
    return CheckState.OK, saw, ""


def _not_checkable(saw: str) -> CheckResult:
    return CheckState.NOT_SEEN, saw, ""


def _size(size_bytes: int) -> str:
    """Return bytes in short: ``64 MiB``, ``1.5 GiB``."""
    return f"{size_bytes / GIB:.3g} GiB" if size_bytes >= GIB else f"{size_bytes // MIB} MiB"


# --- what a launch starts -----------------------------------------------------------------


@_check("tune")
def tune(view: HostView) -> CheckResult:
    """A bug report needs it."""
    return _ok(view.tune)


@_check("environment")
def environment(view: HostView) -> CheckResult:
    """Launches inherit these variables, which bear on speed."""
    return _ok(" ".join(f"{name}={value}" for name, value in view.environment.items()) or "none")


@_check("program")
def program(view: HostView) -> CheckResult:
    """A launch starts it on every rank."""
    if "program" in view.faults:  # without a command nobody may want the shipped trainer
        state = CheckState.FAILURE if view.has_command else CheckState.WARNING
        return state, *view.faults["program"]
    return _ok(view.program if view.has_command else "none named: the shipped ChainerMN trainer")


@_check("Python")
def python(view: HostView) -> CheckResult:
    """The ranks run in this interpreter, with its packages."""
    python = view.python
    if python is None:
        return _not_checkable(NO_PYTHON)
    if not python.version:
        mend = f"{shlex.quote(python.path)} -m pip install --upgrade pip"
        return CheckState.FAILURE, f"{python.path} does not run: {python.fault}", mend
    packages = ", ".join(f"{name} {version}" for name, version in python.packages.items())
    return _ok(f"{python.version}, {python.path}" + f" ({packages})" * bool(packages))


@_check("launcher")
def launcher(view: HostView) -> CheckResult:
    """It starts the ranks of every launch."""
    if view.launcher is None:
        return CheckState.FAILURE, *view.faults["launcher"]
    return _ok(f"{wording.launcher(view.launcher)}, {view.launcher.mpirun}".removesuffix(", "))


@_check("MPI library")
def mpi_library(view: HostView) -> CheckResult:
    """If the ranks load another MPI than mpirun's, each of them is alone in a world of one rank."""
    python, info = view.python, view.launcher
    if python is None or "mpi4py" not in python.packages or (info and info.kind == "torchrun"):
        return _not_checkable("the ranks need none: no mpi4py, or torchrun starts them")
    mend = f"{shlex.quote(python.path)} -m pip install --upgrade 'mpi4py>=4.1'"
    if not python.mpi:
        return CheckState.FAILURE, f"mpi4py loads no MPI: {python.fault}", mend
    saw = f"mpi4py loads {python.mpi} {python.mpi_version}, {python.libmpi}"
    if info is None or info.kind not in {"openmpi", "mpich", "intelmpi"}:
        return _ok(saw)
    mend = f"tune --mpirun PATH\n{mend}"
    saw_both = f"{saw}, but mpirun is of {wording.launcher(info)}"
    if (python.mpi == "Open MPI") != (info.kind == "openmpi"):
        return CheckState.FAILURE, saw_both, mend
    # MPICH's kin have version numbers of their own.
    versions = [text.split(".")[:2] for text in (python.mpi_version, info.version)]
    if python.mpi in {"Open MPI", "MPICH"} and versions[0] != versions[1]:
        return CheckState.WARNING, saw_both, mend
    return _ok(saw)


# --- the host -----------------------------------------------------------------------------


@_check("network")
def network(view: HostView) -> CheckResult:
    """Ranks find each other by the host's name, and talk by one of its interfaces."""
    host = view.machine.hostname
    if not view.address:
        mend = f"echo {shlex.quote(f'127.0.1.1 {host}')} | sudo tee -a /etc/hosts"
        return CheckState.WARNING, f"the host's own name {host} has no address", mend
    networks = ", ".join(f"{each.interface} {each.subnet}" for each in view.networks)
    return _ok(f"{host} is {view.address}; {networks or 'only the loopback'}")


@_check("shared memory")
def shared_memory(view: HostView) -> CheckResult:
    """MPI's messages and the batches of loader workers pass through /dev/shm."""
    space = view.folders.get("shared memory")
    if space is None:
        return _not_checkable("/dev/shm")
    if not space.is_writable:
        return CheckState.FAILURE, "it is not yours to write to", "sudo chmod 1777 /dev/shm"
    needed_bytes = view.machine.shared_bytes
    saw = f"{_size(space.free_bytes)} free of {_size(space.total_bytes)}"
    if space.free_bytes >= needed_bytes:
        return _ok(saw)
    size = f"size={-(-needed_bytes // GIB)}g"  # rounded up
    mend = f"sudo mount -o remount,{size} /dev/shm"
    mend = f"docker run --shm-{size}" if view.is_container else mend
    is_too_small = space.free_bytes < FEWEST_SHARED_BYTES
    return CheckState.FAILURE if is_too_small else CheckState.WARNING, saw, mend


@_check("container")
def container(view: HostView) -> CheckResult:
    """What runs outside a container makes launches slower, and cannot be named from inside."""
    saw = "yes: outside only CPU time is seen; a study goes on under the same --hostname"
    return _ok(saw if view.is_container else "no")


@_check("GPUs")
def gpus(view: HostView) -> CheckResult:
    """How busy they are says whether they wait, their memory whether two launches fit at once."""
    if view.machine.gpus and "GPUs" in view.faults:
        return CheckState.WARNING, *view.faults["GPUs"]
    return _ok(", ".join(view.machine.gpus) or "none")


@_check("Python stacks")
def python_stacks(view: HostView) -> CheckResult:
    """They say where each rank of a job that hangs stands."""
    answer = view.said.get("stacks")
    if answer is None or answer.fault.endswith(("not found", "No such file or directory")):
        return _not_checkable("py-spy is not installed")  # other hosts look for it at this path
    if not answer.fault:
        return _ok("py-spy may look at processes")
    mend = "sudo sysctl kernel.yama.ptrace_scope=0"
    mend = "docker run --cap-add SYS_PTRACE" if view.is_container else mend
    return CheckState.WARNING, "none: py-spy may not look at other processes (ptrace)", mend


@_check("CPU quota")
def cpu_quota(view: HostView) -> CheckResult:
    """Programs start a thread for each CPU that they see; a used-up quota stops all of them."""
    quota, cpus = view.machine.quota_cpus, wording.count(view.machine.affinity_cpus, "CPU")
    if quota is None or quota >= view.machine.affinity_cpus:
        return _ok(f"none below the {cpus}")
    numbers = ",".join(map(str, view.cpus[: view.machine.cores]))
    return CheckState.WARNING, f"{quota:.3g} of {cpus}", f"taskset -c {numbers} tune …"


# --- the study ----------------------------------------------------------------------------


@_check("database")
def database(view: HostView) -> CheckResult:
    """Each launch is written there at once."""
    if "database" in view.faults:
        return CheckState.FAILURE, *view.faults["database"]
    if view.is_container and view.file_system == "overlay":
        saw = f"{view.storage}, which is lost with the container"
        return CheckState.WARNING, saw, 'docker run --volume "$PWD:$PWD" --workdir "$PWD"'
    return _ok(f"{view.storage} ({view.file_system})" if view.file_system else view.storage)


@_check("disk")
def disk(view: HostView) -> CheckResult:
    """Each launch has a folder, for its output and what the program writes."""
    mends = {"launches": "tune --run-dir FOLDER", "temporary files": "export TMPDIR=FOLDER"}
    spaces = [(view.folders[use], mend) for use, mend in mends.items() if use in view.folders]
    if not spaces:
        return _not_checkable("no folder")
    saw = "; ".join(f"{_size(space.free_bytes)} free in {space.path}" for space, _ in spaces)
    space, mend = min(spaces, key=lambda pair: (pair[0].is_writable, pair[0].free_bytes))
    if not space.is_writable:
        return CheckState.FAILURE, f"{space.path} is not yours to write to", mend
    if space.free_bytes >= GIB:
        return _ok(saw)
    is_too_small = space.free_bytes < FEWEST_BYTES
    return CheckState.FAILURE if is_too_small else CheckState.WARNING, saw, mend


@_check("other work")
def other_work(view: HostView) -> CheckResult:
    """What else runs here makes launches slower, and not all of them alike."""
    if view.owner:
        return CheckState.WARNING, f"{view.owner} measures here", "tune --wait"
    complaint = interference.complaint(view.load, view.machine)
    if not complaint:
        return _ok("none")
    pid = re.match(r"pid (\d+)", view.load.busiest)
    return CheckState.WARNING, complaint, f"ps -fp {pid[1]}" if pid else "top"
