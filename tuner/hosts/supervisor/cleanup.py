"""Finds what is left of a trial, ends it until a scan proves that nothing is, removes its files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import stat
import time
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from tuner.hosts import procfs
from tuner.hosts.procfs import TICKS, Stat, processes, read, try_read

#: The environment variable that marks every process of a trial. The marker of a launch that has
#: processes on several hosts is its study's with the launch's number: ``STUDY.NUMBER``.
MARKER = "TUNE_TRIAL"
#: The variable that marks the supervisor itself: the next `tune` must find it, too.
SUPERVISES = "TUNE_SUPERVISES"
#: The variable with the folder of :func:`tuner.hosts.probe.connections_folder`.
CONNECTIONS = "TUNE_CONNECTIONS"

#: A process in the middle of an exec shows an empty environment for some microseconds; a scan waits
#: this long for it, s. A program that has none for good looks the same.
EXEC_WAIT_S = 0.05

#: After this long, what SIGKILL has not ended (it sits in the kernel) is reported instead, s.
GIVE_UP_S = 60.0

#: How names of files of Open MPI (5, 4), MPICH and Intel MPI begin; others may be in use later.
_SEGMENTS = tuple(
    f"/dev/shm/{name}" for name in ("sm_segment.", "vader_segment.", "mpich_shm_", "Intel_MPI_")
)


def marker_of_launch(study: str, number: int) -> str:
    """Return the marker of a launch: that of its study, then its number."""
    return f"{study}.{number}"


def study_of(marker: str) -> str:
    """Return the marker of a launch's study."""
    return marker.partition(".")[0]


def now() -> int:
    """Return the present moment as start times are given, clock ticks since boot."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS)


def descendants(table: Iterable[Stat], roots: Iterable[int]) -> list[Stat]:
    """Return the live processes below ``roots``, which are left out themselves."""
    children: dict[int, list[Stat]] = {}
    for process in table:
        children.setdefault(process.parent, []).append(process)
    live_processes: list[Stat] = []
    queue = list(roots)
    visited_pids = set(queue)
    while queue:
        below = [child for child in children.get(queue.pop(), ()) if child.pid not in visited_pids]
        visited_pids.update(child.pid for child in below)
        queue.extend(child.pid for child in below)
        live_processes.extend(child for child in below if not child.dead)
    return live_processes


def environment(process: Stat) -> bytes | None:
    """Return the environment that a process was started with; ``None`` if we may not read it."""
    if process.state not in "ZXx":
        return try_read(f"/proc/{process.pid}/environ")
    tasks = f"/proc/{process.pid}/task"  # its main thread has ended before the others
    environments = (try_read(f"{tasks}/{task}/environ") for task in procfs.names(tasks))
    return next(filter(None, environments), None)


def carriers(
    candidates: Iterable[Stat],
    marker: str,
    *,
    environ: Callable[[Stat], bytes | None] = environment,
    wait_s: float = EXEC_WAIT_S,
) -> list[Stat]:
    """Return the processes whose environment marks them as a trial's, or as its supervisor.

    The marker of a study finds those of all its launches. A process that shows no environment is
    looked at again for ``wait_s``: during an exec there is none for a moment.
    """
    entries = [
        os.fsencode(f"\0{name}={marker}{end}") for name in (MARKER, SUPERVISES) for end in "\0."
    ]
    matches = []
    deadline_s, delay_s = time.monotonic() + wait_s, 0.001
    while True:
        unclear = []
        for process in candidates:
            text = environ(process)
            if text:
                if any(entry in b"\0%b\0" % text for entry in entries):
                    matches.append(process)
            elif text is not None and not process.kernel:
                unclear.append(process)
        if not unclear or time.monotonic() > deadline_s:
            return matches
        time.sleep(delay_s)
        delay_s = min(2 * delay_s, 0.01)
        stats = ((process, procfs.stat(process.pid)) for process in unclear)
        candidates = [old for old, new in stats if new and new.started == old.started]


class Remains(NamedTuple):
    """How the processes of a trial are told from others, also after its supervisor was killed.

    ``root`` is the process id of the supervisor, ``None`` if it is gone. Nothing that started
    before ``since`` (clock ticks after boot) belongs to the trial. ``process_keys`` name processes
    that once were below ``root``, so that a daemon is found that has dropped the marker.
    """

    marker: str
    root: int | None
    since: int
    process_keys: Collection[tuple[int, int]] = ()

    def survivors(self, *, wait_s: float = EXEC_WAIT_S) -> list[Stat]:
        """Return the live processes of the trial, without ``root`` itself and this process.

        They descend from ``root``, are in ``process_keys``, carry the marker, or descend from one
        that does. ``wait_s`` is that of :func:`carriers`.
        """
        table = processes()
        roots = set() if self.root is None else {self.root}
        ours = {process for process in table if process.key in self.process_keys}
        ours.update(descendants(table, roots | {process.pid for process in ours}))
        candidates = [p for p in table if p.started >= self.since and not p.dead and p not in ours]
        ours.update(carriers(candidates, self.marker, wait_s=wait_s))
        ours.update(descendants(table, [process.pid for process in ours]))
        spared = {*roots, os.getpid()}
        return [process for process in ours if process.pid not in spared and not process.dead]

    def sweep(
        self,
        *,
        reap: Callable[[], bool] = lambda: False,
        pause: Callable[[float], object] = time.sleep,
    ) -> tuple[int, list[int]]:
        """Send SIGKILL to the trial's processes until a scan finds none.

        Return how many were killed, and the ids of those that SIGKILL could not end. ``reap``
        collects dead children and returns whether some are left: below a subreaper "none" proves
        that the whole tree is gone, whatever the scan may have missed.
        """
        killed: set[tuple[int, int]] = set()
        deadline_s, delay_s = time.monotonic() + GIVE_UP_S, 0.001
        while True:
            has_children = reap()
            left = self.survivors()
            if not left and not has_children:
                remove_segments(self.since)
                return len(killed), []
            if time.monotonic() > deadline_s:
                return len(killed), [process.pid for process in left]
            killed.update(process.key for process in left if send(process, signal.SIGKILL))
            pause(delay_s)
            delay_s = min(2 * delay_s, 0.1)

    def end(self, folder: str, grace_s: float) -> tuple[int, list[int]]:
        """End a trial whose supervisor was killed, and remove its ``folder`` ("": there is none).

        The trial gets ``grace_s`` to end by itself: the kernel has sent SIGTERM to the command.
        The result is that of :meth:`sweep`.
        """
        deadline_s = time.monotonic() + grace_s
        while time.monotonic() < deadline_s and self.survivors():
            time.sleep(0.01)
        killed, left = self.sweep()
        if folder and not left:
            remove_folder(folder)
        return killed, left


def send(process: Stat, number: int) -> bool:
    """Signal exactly this process, never a later one of the same id; False if it is gone."""
    current = procfs.stat(process.pid)
    if current is None or current.key != process.key:
        return False
    try:
        os.kill(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


# --- files -------------------------------------------------------------------------------


def remove_segments(since: int) -> None:
    """Remove the MPI's files in /dev/shm that are ours, made since then, and used by nobody.

    A killed MPI leaves them behind, and MPICH does so on SIGTERM too: some MB a rank. ``since`` is
    in clock ticks since boot.
    """
    oldest_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since / TICKS
    with contextlib.suppress(OSError), os.scandir("/dev/shm") as entries:
        for entry in entries:
            if entry.path.startswith(_SEGMENTS) and entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                is_ours = status.st_uid == os.geteuid() and status.st_ctime >= oldest_s
                if is_ours and _is_free(entry.path):
                    os.unlink(entry.path)  # noqa: PTH108 (pathlib costs start-up time)


def _is_free(path: str) -> bool:
    """Return whether no process has this file open or mapped, in whatever container.

    The kernel gives a write lease for no other file: fcntl(2), F_SETLEASE. Closing gives it back.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # If a process opens the file just now, the kernel sends us a signal: SIGIO would end us.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:  # in use, or a file system without leases
        return False
    finally:
        os.close(fd)
    return True


def remove_folder(path: str) -> None:
    """Remove a trial's folder with all that is in it, as far as it is ours.

    Links are removed, never followed. A folder below which something is mounted is left as it is.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return
    mounts = (line.split()[4] + b"/" for line in read("/proc/self/mountinfo").splitlines())
    is_mounted = any(mount.startswith(os.fsencode(path) + b"/") for mount in mounts)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or is_mounted:
        return
    import shutil  # costs start-up time

    with contextlib.suppress(OSError, RecursionError):  # what is nested too deep stays
        os.chmod(path, 0o700)  # noqa: PTH101
        for _, folders, _, fd in os.fwalk(path):  # a program may have taken away our rights
            for name in folders:
                with contextlib.suppress(OSError):
                    if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                        os.chmod(name, 0o700, dir_fd=fd)
        shutil.rmtree(path, ignore_errors=True)
