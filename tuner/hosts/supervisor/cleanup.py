"""Ending what is left of a trial until a scan proves that nothing is, and removing its files."""

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
from tuner.hosts.procfs import TICKS, Stat, processes, read
from tuner.hosts.supervisor.cgroup import Cgroup
from tuner.hosts.supervisor.table import carriers, descendants

#: After this long, what SIGKILL has not ended (it sits in the kernel) is reported instead, s.
GIVE_UP_S = 60.0

#: What Open MPI 5 and 4 and MPICH call their files; those of other programs may be for others.
_SEGMENTS = (b"/dev/shm/sm_segment.", b"/dev/shm/vader_segment.", b"/dev/shm/mpich_shm_")

Segments = set[tuple[bytes, int]]


class Remains(NamedTuple):
    """What may be left of a trial, and how it is known.

    ``root`` is the supervisor, ``None`` if it is gone. Nothing older than ``since`` (clock ticks)
    belongs to the trial. ``seen`` are (id, start) of processes that once were below ``root``: if
    it was killed, a daemon without the marker is known by nothing else.
    """

    marker: str
    root: int | None
    since: int
    seen: Collection[tuple[int, int]] = ()
    group: Cgroup = Cgroup("")

    def survivors(self) -> list[Stat]:
        """What is alive below ``root``, carries the marker, was ``seen``, or is in the group.

        What is below any of those belongs to it as well; ``root`` itself is left out.
        """
        table = processes()
        members = self.group.members()
        roots = set() if self.root is None else {self.root}
        known = {
            each.pid: each
            for each in table
            if each.pid in members or (each.pid, each.started) in self.seen
        }
        known |= {each.pid: each for each in descendants(table, {*roots, *known})}
        others = [
            each
            for each in table
            if each.started >= self.since and not each.dead and each.pid not in known
        ]
        known |= {each.pid: each for each in carriers(others, self.marker)}
        known |= {each.pid: each for each in descendants(table, known)}
        spared = {*roots, os.getpid()}
        return [each for each in known.values() if each.pid not in spared and not each.dead]

    def sweep(
        self,
        *,
        reap: Callable[[], bool] = lambda: False,
        pause: Callable[[float], object] = time.sleep,
    ) -> tuple[int, list[int]]:
        """Kill it until a scan proves that nothing is left.

        ``reap`` collects dead children and says whether some are left: with a subreaper "none" is
        the proof for the whole tree, whatever the scan may have missed.

        Returns:
            How many were killed, and the ids of those that SIGKILL could not end.
        """
        killed: set[tuple[int, int]] = set()
        segments: Segments = set()
        deadline, delay_s = time.monotonic() + GIVE_UP_S, 0.001
        while True:
            children = reap()
            left = self.survivors()
            if not left and not children and not self.group.populated():
                remove(segments | abandoned(self.since))
                return len(killed), []
            if time.monotonic() > deadline:
                return len(killed), [process.pid for process in left]
            segments |= segments_of(left)
            killed.update((each.pid, each.started) for each in left if send(each, signal.SIGKILL))
            self.group.kill()  # with what was forked since the scan
            pause(delay_s)
            delay_s = min(2 * delay_s, 0.1)

    def end(self, folder: str, grace_s: float) -> tuple[int, list[int]]:
        """End a trial whose supervisor was killed; remove its control group and its ``folder``.

        It gets ``grace_s`` to end by itself: the kernel has sent SIGTERM to the command. The
        result is that of :meth:`sweep`; ``folder`` may be empty.
        """
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and self.survivors():
            time.sleep(0.01)
        killed, left = self.sweep()
        if not left:
            self.group.remove()
            if folder:
                remove_folder(folder)
        return killed, left


def send(process: Stat, number: int) -> bool:
    """Signal exactly this process, never a later one of the same id; False if it is gone."""
    handle = None
    try:
        if hasattr(os, "pidfd_open"):
            try:
                handle = os.pidfd_open(process.pid)
            except ProcessLookupError:
                return False
            except OSError:  # Linux before 5.3
                handle = None
        current = procfs.stat(process.pid)
        if current is None or current.started != process.started:
            return False
        if handle is None:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


# --- files -------------------------------------------------------------------------------


def shared_segments(root: int) -> Segments:
    """The MPI's files in /dev/shm that processes below ``root`` use: (path, inode).

    A killed MPI leaves them behind, and MPICH does so on SIGTERM too: some MB a rank.
    """
    return segments_of(descendants(processes(), [root]))


def segments_of(users: Iterable[Stat]) -> Segments:
    """Those that these processes use."""
    found = set()
    for process in users:
        # Not splitlines(): a file's name may hold a CR, and what follows would be a line.
        for line in read(f"/proc/{process.pid}/maps").split(b"\n"):
            fields = line.split(None, 5)  # address, permissions, offset, device, inode, path
            if len(fields) == 6 and fields[5].startswith(_SEGMENTS) and fields[5].count(b"/") == 3:
                found.add((fields[5], int(fields[4])))
    return found


def abandoned(since: int) -> Segments:
    """Those of ours that were made since then (clock ticks since boot) and that nobody uses.

    If the ranks died before anybody could look, nothing else tells whose they were.
    """
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    found = set()
    with contextlib.suppress(OSError), os.scandir(b"/dev/shm") as entries:
        for entry in entries:
            if entry.path.startswith(_SEGMENTS) and entry.is_file(follow_symlinks=False):
                made = entry.stat(follow_symlinks=False)
                is_new = made.st_ctime >= booted_s + since / TICKS
                if is_new and made.st_uid == os.geteuid() and _is_free(entry.path):
                    found.add((entry.path, made.st_ino))
    return found


def _is_free(path: bytes) -> bool:
    """True if no process has this file open or mapped, in whatever container.

    A write lease is given for no other: fcntl(2), F_SETLEASE. It is given back at once.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Who opens it just now has us sent a signal: SIGIO, unless told, which would end us.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError:  # in use, or a file system without leases
        return False
    finally:
        os.close(fd)
    return True


def remove(segments: Iterable[tuple[bytes, int]]) -> None:
    """Remove those files, unless somebody has made them anew."""
    for path, inode in segments:
        with contextlib.suppress(OSError):  # gone already, or marked "(deleted)"
            if os.stat(path).st_ino == inode:  # noqa: PTH116 (pathlib costs start-up time)
                os.unlink(path)  # noqa: PTH108


def make_folder(path: str) -> bool:
    """Make a folder for the temporary files of a trial, for its owner only; False without one."""
    try:
        os.mkdir(path, 0o700)  # noqa: PTH102
    except OSError:
        return False
    return True


def remove_folder(path: str) -> None:
    """Remove a trial's folder with all that is in it, as far as it is ours.

    Links are removed, never followed; where something is mounted below, it is left as it is.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or _has_mounts(path):
        return
    import shutil  # costs start-up time

    with contextlib.suppress(OSError, RecursionError):  # what is nested too deep stays
        _open_up(path)
        shutil.rmtree(path, ignore_errors=True)


def _open_up(path: str) -> None:
    """Give ourselves the rights to every folder below: a program may have taken them away."""
    os.chmod(path, 0o700)  # noqa: PTH101
    for _, folders, _, fd in os.fwalk(path):
        for name in folders:
            with contextlib.suppress(OSError):
                if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                    os.chmod(name, 0o700, dir_fd=fd)


def _has_mounts(path: str) -> bool:
    lines = read("/proc/self/mountinfo").splitlines()
    places = (line.split()[4] for line in lines)
    return any((place + b"/").startswith(os.fsencode(path) + b"/") for place in places)
