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
from tuner.results.doctor.host_view import NCCL, HostView

MIB, GIB = 1 << 20, 1 << 30
UNLIMITED = 1 << 62

_NUMBER = re.compile(r"[0-9]{1,19}")

#: Reading one of these is a call of the kernel, not a few ns in the process itself.
SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen"})

NO_PYTHON = "the program is no Python script, or not there"

#: With less than this no launch runs: processes and threads, shared memory, space on a disk.
FEWEST_PROCESSES, FEWEST_SHARED_BYTES, FEWEST_BYTES = 64, 8 * MIB, 64 * MIB


class State(StrEnum):
    """How serious a finding is, from good to bad."""

    NOT_SEEN = "not seen"  # it could not be read, or does not apply here
    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


#: State, what was seen, and the commands that mend it, one a line.
Seen = tuple[State, str, str]
Check = Callable[[HostView], Seen]

_CHECKS: list[tuple[str, Check]] = []


@dataclass(frozen=True)
class Finding:
    """What a check came to; `why` it matters."""

    name: str
    state: State
    saw: str
    why: str
    mend: str = ""


def diagnose(view: HostView) -> list[Finding]:
    """The findings of all checks, in the order in which a study would meet the causes."""
    return [finding(name, check, check(view)) for name, check in _CHECKS]


def finding(name: str, check: Callable[..., Seen], result: Seen) -> Finding:
    """Return the finding of a check: its result, and its docstring, which says why it matters."""
    state, saw, mend = result
    return Finding(name, state, saw, " ".join((check.__doc__ or "").split()), mend)


def _check(name: str) -> Callable[[Check], Check]:
    """Add a function to the checks."""

    def add(function: Check) -> Check:
        _CHECKS.append((name, function))
        return function

    return add


def _ok(saw: str, more: str = "") -> Seen:
    return State.OK, saw, more


def _not_seen(what: str) -> Seen:
    return State.NOT_SEEN, what, ""


def _size(count: int) -> str:
    """Bytes in short: ``64 MiB``, ``1.5 GiB``."""
    return f"{count / GIB:.3g} GiB" if count >= GIB else f"{count // MIB} MiB"


# --- what a launch starts -----------------------------------------------------------------


@_check("program")
def program(view: HostView) -> Seen:
    """A launch starts it on every rank."""
    if "program" in view.faults:  # without a command nobody may want the shipped trainer
        state = State.FAILURE if view.has_command else State.WARNING
        return state, *view.faults["program"]
    return _ok(view.program if view.has_command else "none named: the shipped ChainerMN trainer")


@_check("Python")
def python(view: HostView) -> Seen:
    """The ranks run in this interpreter, with its packages."""
    python = view.python
    if python is None:
        return _not_seen(NO_PYTHON)
    install = f"{shlex.quote(python.path)} -m pip install"
    if not python.version:
        return (
            State.FAILURE,
            f"{python.path} does not run: {python.fault}",
            f"{install} --upgrade pip",
        )
    packages = ", ".join(f"{name} {version}" for name, version in python.packages.items())
    saw = f"{python.version}, {python.path}" + f" ({packages})" * bool(packages)
    numpy = [int(n) for n in re.findall(r"\d{1,6}", python.packages.get("numpy", ""))[:2]]
    if view.names_chainer and "chainer" in python.packages and numpy >= [1, 24]:
        return State.WARNING, f"{saw}; Chainer 7 fails with this NumPy", f"{install} 'numpy<1.24'"
    return _ok(saw)


@_check("launcher")
def launcher(view: HostView) -> Seen:
    """It starts the ranks of every launch."""
    if view.launcher is None:
        return State.FAILURE, *view.faults["launcher"]
    return _ok(f"{wording.launcher(view.launcher)}, {view.launcher.mpirun}")


@_check("MPI library")
def mpi_library(view: HostView) -> Seen:
    """If the ranks load another MPI than mpirun's, each of them is alone in a world of one rank."""
    python, info = view.python, view.launcher
    unneeded = {
        NO_PYTHON: python is None,
        "torchrun starts the ranks, and they need none": info and info.kind == "torchrun",
        "there is no mpi4py": python and "mpi4py" not in python.packages,
    }
    if python is None or any(unneeded.values()):
        return _not_seen(next(why for why, holds in unneeded.items() if holds))
    mend = f"{shlex.quote(python.path)} -m pip install --upgrade 'mpi4py>=4.1'"
    if not python.mpi:
        return State.FAILURE, f"mpi4py loads no MPI: {python.fault}", mend
    saw = f"mpi4py loads {python.mpi} {python.mpi_version}, {python.libmpi}"
    if info is None or info.kind not in {"openmpi", "mpich"}:
        return _ok(saw)
    mend = f"tune --mpirun PATH\n{mend}"
    saw_both = f"{saw}, but mpirun is of {wording.launcher(info)}"
    if (python.mpi == "Open MPI") != (info.kind == "openmpi"):
        return State.FAILURE, saw_both, mend
    # MPICH's kin have version numbers of their own.
    versions = [text.split(".")[:2] for text in (python.mpi_version, info.version)]
    if python.mpi in {"Open MPI", "MPICH"} and versions[0] != versions[1]:
        return State.WARNING, saw_both, mend
    return _ok(saw)


@_check("CUDA-aware MPI")
def cuda_aware_mpi(view: HostView) -> Seen:
    """Otherwise each message from a GPU is first copied to the host's memory."""
    if not view.machine.gpus:
        return _not_seen("no GPU")
    output = view.said["cuda"].output if "cuda" in view.said else ""
    is_aware = re.search(r"mpi_built_with_cuda_support:value:(\w+)", output)
    if is_aware is None:
        return _not_seen("the MPI does not say what it was built for")
    if is_aware[1] == "true":
        return _ok("Open MPI was built for CUDA")
    saw = "Open MPI was built without CUDA; another one can be named"
    return State.WARNING, saw, "tune --mpirun PATH"


@_check("NCCL")
def nccl(view: HostView) -> Seen:
    """ChainerMN's pure_nccl and PyTorch's nccl exchange gradients between GPUs with it."""
    if not view.machine.gpus or view.python is None:
        return _not_seen(NO_PYTHON if view.machine.gpus else "no GPU")
    wheels = [f"{name} {v}" for name, v in view.python.packages.items() if name in NCCL]
    if wheels or view.python.nccl:
        return _ok(", ".join(wheels) or view.python.nccl)
    mend = f"{shlex.quote(view.python.path)} -m pip install {NCCL[-1]}"
    return State.WARNING, "no wheel of it, and the loader finds no libnccl.so.2", mend


# --- the host -----------------------------------------------------------------------------


@_check("network")
def network(view: HostView) -> Seen:
    """Ranks find each other by the host's name, and talk by one of its interfaces."""
    for variable, value in view.variables.items():
        for name in re.split(r"[,:]", value.lstrip("=")):
            up = ["lo", *(each.interface for each in view.networks)]
            if value[0] != "^" and "/" not in name and not any(n.startswith(name) for n in up):
                saw = f"{variable} names {name}, which is not up with an IPv4 address"
                return State.WARNING, saw, f"unset {variable}"
    host = view.machine.hostname
    if not view.address:
        mend = f"echo {shlex.quote(f'127.0.1.1 {host}')} | sudo tee -a /etc/hosts"
        return State.WARNING, f"the host's own name {host} has no address", mend
    networks = ", ".join(f"{each.interface} {each.subnet}" for each in view.networks)
    return _ok(f"{host} is {view.address}; {networks or 'only the loopback'}")


@_check("clock source")
def clock_source(view: HostView) -> Seen:
    """Programs ask for the time often; with a slow clock each time is a call of the kernel."""
    folder = "sys/devices/system/clocksource/clocksource0"
    source = view.file(f"{folder}/current_clocksource")
    if source not in SLOW_CLOCKS:
        return _ok(source) if source else _not_seen("the kernel does not name it")
    others = view.file(f"{folder}/available_clocksource").split()
    better = next((other for other in others if other not in SLOW_CLOCKS), "tsc")
    return State.WARNING, source, f"echo {better} | sudo tee /{folder}/current_clocksource"


@_check("processes")
def processes(view: HostView) -> Seen:
    """Each rank starts a thread and a loader worker for each core, if nothing tells it not to."""
    rooms = [(room, "ulimit -u")] if (room := _limit(view, "Max processes")) is not None else []
    for path in view.files:
        counts = [view.file(path), view.file(path.replace("pids.max", "pids.current"))]
        if path.endswith("/pids.max") and all(map(_NUMBER.fullmatch, counts)):
            rooms.append((int(counts[0]) - int(counts[1]), "docker run --pids-limit"))
    if not rooms:
        return _not_seen("/proc/self/limits")
    room, command = min(rooms)
    needed = FEWEST_PROCESSES + 2 * view.machine.cores**2
    if room >= needed:
        return _ok("no limit" if room >= UNLIMITED else f"room for {room}")
    state = State.FAILURE if room < FEWEST_PROCESSES else State.WARNING
    return state, f"room for {room}, but {needed} may be needed", f"{command} {needed}"


def _limit(view: HostView, name: str) -> int | None:
    """A soft limit of ``/proc/self/limits``; `UNLIMITED` if there is none."""
    line = re.search(rf"^{name} +(\w+)", view.file("proc/self/limits"), re.MULTILINE)
    if line is None:
        return None
    return int(line[1]) if _NUMBER.fullmatch(line[1]) else UNLIMITED


@_check("locked memory")
def locked_memory(view: HostView) -> Seen:
    """InfiniBand needs the memory of messages to stay in its place."""
    limit = _limit(view, "Max locked memory")
    if limit is None:
        return _not_seen("/proc/self/limits")
    saw = "no limit" if limit >= UNLIMITED else f"at most {_size(limit)}"
    if not any(path.startswith("sys/class/infiniband/") for path in view.files):
        return _ok(f"{saw}; no InfiniBand")
    if limit >= GIB:
        return _ok(saw)
    mend = "echo '* - memlock unlimited' | sudo tee -a /etc/security/limits.conf"
    return State.WARNING, f"{saw}, with InfiniBand", f"ulimit -l unlimited\n{mend}"


@_check("shared memory")
def shared_memory(view: HostView) -> Seen:
    """MPI's messages and the batches of loader workers pass through /dev/shm."""
    space = view.folders.get("shared memory")
    if space is None:
        return _not_seen("/dev/shm")
    if not space.is_writable:
        return State.FAILURE, "it is not yours to write to", "sudo chmod 1777 /dev/shm"
    needed_bytes = view.machine.shared_bytes
    saw = f"{_size(space.free_bytes)} free of {_size(space.total_bytes)}"
    if space.free_bytes >= needed_bytes:
        return _ok(saw)
    size = f"size={-(-needed_bytes // GIB)}g"
    mend = f"sudo mount -o remount,{size} /dev/shm"
    mend = f"docker run --shm-{size}" if view.is_container else mend
    return State.FAILURE if space.free_bytes < FEWEST_SHARED_BYTES else State.WARNING, saw, mend


@_check("container")
def container(view: HostView) -> Seen:
    """What runs outside a container makes launches slower, and cannot be named from inside."""
    saw = "yes: outside only CPU time is seen; a study goes on under the same --hostname"
    return _ok(saw if view.is_container else "no")


@_check("Python stacks")
def python_stacks(view: HostView) -> Seen:
    """They say where each rank of a job that hangs stands."""
    said = view.said.get("stacks")
    if said is None or said.fault.endswith(("not found", "No such file or directory")):
        return _not_seen("py-spy is not installed")  # another host is asked for that of this one
    if not said.fault:
        return _ok("py-spy may look at processes")
    mend = "sudo sysctl kernel.yama.ptrace_scope=0"
    mend = "docker run --cap-add SYS_PTRACE" if view.is_container else mend
    return State.WARNING, "none: py-spy may not look at other processes (ptrace)", mend


@_check("CPU quota")
def cpu_quota(view: HostView) -> Seen:
    """Programs start a thread for each CPU that they see; a used-up quota stops all of them."""
    quota, cpus = view.machine.quota_cpus, wording.count(view.machine.affinity_cpus, "CPU")
    if quota is None or quota >= view.machine.affinity_cpus:
        return _ok(f"none below the {cpus}")
    numbers = ",".join(map(str, view.cpus[: view.machine.cores]))
    return State.WARNING, f"{quota:.3g} of {cpus}", f"taskset -c {numbers} tune …"


@_check("CPU clock")
def cpu_clock(view: HostView) -> Seen:
    """If the clock follows the load, the same launch takes another time."""
    governors = sorted({view.file(p) for p in view.files if p.endswith("/scaling_governor")})
    turbo = {"0": "off", "1": "on"}.get(view.file("sys/devices/system/cpu/cpufreq/boost"))
    no_turbo = view.file("sys/devices/system/cpu/intel_pstate/no_turbo")
    turbo = {"0": "on", "1": "off"}.get(no_turbo, turbo)
    saw = [f"governor {governor}" for governor in governors] + [f"turbo {turbo}"] * bool(turbo)
    if not saw:
        return _not_seen("no governor, as in most virtual machines")
    if {*governors} <= {"performance"}:
        return _ok(", ".join(saw))
    return State.WARNING, ", ".join(saw), "sudo cpupower frequency-set -g performance"


@_check("NUMA")
def numa(view: HostView) -> Seen:
    """The memory of another node is slower; a node without memory has no other."""
    nodes = wording.count(view.machine.numa_nodes, "node")
    for path in view.files:
        node = re.fullmatch(r"sys/devices/system/node/(node\d+)/meminfo", path)
        has_cpus = view.file(path.replace("meminfo", "cpulist"))
        if node and has_cpus and re.search(r"MemTotal:\s+0 kB", view.file(path)):
            return State.WARNING, f"{nodes}, {node[1]} has no memory", "numactl --hardware"
    return _ok(nodes, "tune --knob bind_to --knob map_by" * (view.machine.numa_nodes > 1))


# --- the study ----------------------------------------------------------------------------


@_check("database")
def database(view: HostView) -> Seen:
    """Each launch is written there at once."""
    if "database" in view.faults:
        return State.FAILURE, *view.faults["database"]
    if view.is_container and view.file_system == "overlay":
        saw = f"{view.storage}, which is lost with the container"
        return State.WARNING, saw, 'docker run --volume "$PWD:$PWD" --workdir "$PWD"'
    return _ok(f"{view.storage} ({view.file_system})" if view.file_system else view.storage)


@_check("disk")
def disk(view: HostView) -> Seen:
    """Each launch has a folder, for its output and what the program writes."""
    spaces = [view.folders[use] for use in ("launches", "temporary files") if use in view.folders]
    if not spaces:
        return _not_seen("no folder")
    saw = "; ".join(f"{_size(folder.free_bytes)} free in {folder.path}" for folder in spaces)
    space = min(spaces, key=lambda folder: (folder.is_writable, folder.free_bytes))
    is_temporary = space is view.folders.get("temporary files")
    mend = "export TMPDIR=FOLDER" if is_temporary else "tune --run-dir FOLDER"
    if not space.is_writable:
        return State.FAILURE, f"{space.path} is not yours to write to", mend
    if space.free_bytes >= GIB:
        return _ok(saw)
    return State.FAILURE if space.free_bytes < FEWEST_BYTES else State.WARNING, saw, mend


@_check("other work")
def other_work(view: HostView) -> Seen:
    """What else runs here makes launches slower, and not all of them alike."""
    if view.owner:
        return State.WARNING, f"{view.owner} measures here", "tune --wait"
    complaint = interference.complaint(view.load, view.machine)
    if not complaint:
        return _ok("none")
    pid = re.match(r"pid (\d+)", view.load.busiest)
    return State.WARNING, complaint, f"ps -fp {pid[1]}" if pid else "top"
