"""What the processes of a job do, from ``/proc``: CPU used, bytes moved, where a thread computes.

A thread that waits in MPI burns a core like one that computes, and the kernel tells the two
apart by nothing but the code that runs. So a thread is stopped for some microseconds and its
program counter looked up in the map of its process (ptrace; if that is not allowed, a
process that spends most of its time in the kernel, as ``sched_yield`` does, is taken to wait).
"""

from __future__ import annotations

import ctypes
import os
import random
import re
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from tuner.hosts import procfs

#: Code in which a thread waits (MPIs and what they are made of, OpenMP's barriers), or that works
#: for its caller and says nothing by itself (the C library).
_WAITS = re.compile(
    r"lib(mpi|open-|openpmix|pmix|prrte|mpich|fabric|uc[pstm]|psm|efa|event|hwloc|ibverbs|rdmacm"
    r"|gomp|iomp|omp)[\w.+-]*\.so|mca_\w+\.so"
    r"|(libc|libpthread|librt)[.-][\w.-]*|ld-(linux|musl)[\w.-]*|\[v\w+\]"
)
#: What the probe's threads in a rank call themselves (``wrappers/probe/rank_thread.py``). They read
#: and write a little each second, whatever the program does: that is no sign of life.
THREAD_NAME = b"tune-probe"
#: A thread counts as not computing after this many looks, a moment apart.
LOOKS = 3
#: The looks at all threads take this long at most, as nothing else is noticed meanwhile, s.
MOST_S = 0.5


@dataclass(frozen=True)
class Activity:
    """What one process of a job has done so far.

    ``rank`` is ``None`` for mpirun's own; ``started`` tells a recycled ``pid``; ``state`` is
    the kernel's letter; ``transfers`` counts bytes read and written, and pages read. ``host`` is
    empty if the job runs on one host.
    """

    pid: int
    started: int
    rank: int | None
    state: str
    cpu_s: float
    transfers: int
    host: str = ""


def activities(ranks: Mapping[int, int | None]) -> tuple[Activity, ...]:
    """Return what each live process of ``ranks`` has done; mpirun's own have the rank ``None``."""
    stats = ((procfs.stat(pid), rank) for pid, rank in ranks.items())
    return tuple(
        # Major faults are pages from a file.
        Activity(*stat.key, rank, stat.state, stat.cpu_s, transfers(stat.pid) + stat.major_faults)
        for stat, rank in stats
        if stat is not None
    )


def transfers(pid: int, proc: str = "/proc") -> int:
    """Return the bytes that a process has read and written, without the probe's thread.

    The kernel counts its threads that have ended, and the children that it has waited for, too.
    """

    def probe_bytes() -> int:
        return sum(_moved_bytes(folder) for _, folder in _threads(pid, proc, of_probe=True))

    all_bytes, ours = 0, probe_bytes()
    for _ in range(LOOKS):
        all_bytes, before, ours = _moved_bytes(f"{proc}/{pid}"), ours, probe_bytes()
        if ours == before:  # else what the probe moved in between would look like a sign of life
            break
    return all_bytes - ours


def _moved_bytes(folder: str) -> int:
    io = procfs.read(f"{folder}/io")
    return sum(map(int, re.findall(rb"(?:rchar|wchar|read_bytes|write_bytes): (\d+)", io)))


def _threads(pid: int, proc: str = "/proc", *, of_probe: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the threads of a process, each with its folder: the program's, or the probe's."""
    task = f"{proc}/{pid}/task"
    for name in procfs.names(task):
        if (procfs.read(f"{task}/{name}/comm").strip() == THREAD_NAME) is of_probe:
            yield int(name), f"{task}/{name}"


class ComputeDetector:
    """Tells processes that compute from those that use a CPU only to wait."""

    def __init__(self) -> None:
        #: The CPU time in the program and in the kernel at the last look, s, by process.
        self._cpu_times: dict[int, tuple[float, float]] = {}

    def any_computes(self, pids: Collection[int], most_s: float = MOST_S) -> bool:
        """Return whether a thread of one of these processes was seen in code of its own.

        This takes no longer than ``most_s``: threads that were left out may be seen the next time.
        """
        # ptrace belongs to a thread, and its end lets go of whatever it still holds.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self._any_computes, pids, most_s).result()

    def _any_computes(self, pids: Collection[int], most_s: float) -> bool:
        # All are read now: the next call compares its times with these.
        is_in_kernel = {pid: self._mostly_in_kernel(pid) for pid in pids}
        deadline_s = time.monotonic() + most_s
        for _ in range(LOOKS):
            threads = [(pid, thread) for pid in pids for thread in running_threads(pid)]
            random.shuffle(threads)  # time may be short
            for pid, thread in threads:
                if time.monotonic() > deadline_s:
                    return False
                try:
                    address = program_counter(thread)
                except OSError:  # not allowed
                    computes = not is_in_kernel[pid]
                else:
                    computes = address is not None and is_own(_mapped_file(pid, address))
                if computes:
                    return True
        return False

    def _mostly_in_kernel(self, pid: int) -> bool:
        """Return whether a process is gone, or was mostly in the kernel since the last call."""
        stat = procfs.stat(pid)
        if stat is None:
            return True
        user_s, system_s = self._cpu_times.get(pid, (0.0, 0.0))
        self._cpu_times[pid] = stat.user_s, stat.system_s
        return stat.system_s - system_s > stat.user_s - user_s


def is_own(path: str) -> bool:
    """Return whether a thread in this file of code computes: it is no MPI, OpenMP or C library."""
    return not _WAITS.match(path.rpartition("/")[2])


def running_threads(pid: int) -> list[int]:
    """Return the threads of a process that are on a CPU or wait for one, without the probe's."""
    stats = (procfs.stat(thread, f"/proc/{pid}/task") for thread, _ in _threads(pid))
    return [stat.pid for stat in stats if stat is not None and stat.state == "R"]


def _mapped_file(pid: int, address: int) -> str:
    """Return the file that the address lies in; empty for code that was made at run time."""
    for line in procfs.read(f"/proc/{pid}/maps").splitlines():
        span, _, rest = line.partition(b" ")
        low, _, high = span.partition(b"-")
        if int(low, 16) <= address < int(high, 16):
            fields = rest.split(None, 4)
            return os.fsdecode(fields[4]) if len(fields) == 5 else ""
    return ""


# --- where a thread is, by ptrace: it stands still for some microseconds --------------------------

_DETACH, _SEIZE, _INTERRUPT = 17, 0x4206, 0x4207  # linux/ptrace.h
_WALL = 0x40000000  # linux/wait.h: threads too

#: A thread has this long to stop, s: it needs a CPU for it, and others may have them all.
STOP_S = 0.25


def program_counter(thread: int) -> int | None:
    """Return the address of the thread's next instruction; ``None`` if it ended or did not stop.

    An ``OSError`` says that it may not be looked at.
    """
    try:
        _ptrace(_SEIZE, thread)
        _ptrace(_INTERRUPT, thread)
        deadline_s, pause_s = time.monotonic() + STOP_S, 50e-6
        while (change := os.waitpid(thread, _WALL | os.WNOHANG)) == (0, 0):
            if time.monotonic() > deadline_s:
                return None
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.01)
        _, status = change
        if not os.WIFSTOPPED(status):
            return None
        try:
            *_, counter = procfs.read(f"/proc/{thread}/syscall").split() or [b"-1"]
        finally:
            # It may have stopped for a signal of its own, which is passed on to it.
            has_signal = status >> 16 == 0 and os.WSTOPSIG(status) != signal.SIGTRAP
            _ptrace(_DETACH, thread, os.WSTOPSIG(status) if has_signal else 0)
    except (ProcessLookupError, ChildProcessError):
        return None
    if not counter.startswith(b"0x"):
        raise OSError(f"this kernel does not tell where thread {thread} is")
    return int(counter, 16)


def _ptrace(request: int, thread: int, data: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    if libc.ptrace(request, thread, 0, data) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
