"""What a killed job leaves behind: shared memory, and its folder for temporary files."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from collections.abc import Iterable

from tuner.hosts.procfs import read
from tuner.hosts.supervisor.table import Process, descendants, processes

#: What Open MPI 5 and 4 and MPICH call their files; those of other programs may be for others.
_SEGMENTS = (b"/dev/shm/sm_segment.", b"/dev/shm/vader_segment.", b"/dev/shm/mpich_shm_")

Segments = set[tuple[bytes, int]]


def shared_segments(root: int) -> Segments:
    """The MPI's files in /dev/shm that processes below ``root`` use: (path, inode).

    A killed MPI leaves them behind, and MPICH does so on SIGTERM too: some MB a rank.
    """
    return segments_of(descendants(processes(), [root]))


def segments_of(users: Iterable[Process]) -> Segments:
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

    If the ranks died before anybody could look, nothing else tells whose they were. The kernel
    says what is free, whoever uses it: processes of another container cannot be seen.
    """
    return {each for each in _made_since(since) if _is_free(each[0])}


def _is_free(path: bytes) -> bool:
    """True if no process in any container has this file open or mapped.

    A write lease is given for no other: fcntl(2), F_SETLEASE. It is given back at once.
    """
    import fcntl

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


def _made_since(since: int) -> Segments:
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    since_s = booted_s + since / os.sysconf("SC_CLK_TCK")
    found = set()
    with contextlib.suppress(OSError), os.scandir(b"/dev/shm") as entries:
        for entry in entries:
            if entry.path.startswith(_SEGMENTS) and entry.is_file(follow_symlinks=False):
                made = entry.stat(follow_symlinks=False)
                if made.st_uid == os.geteuid() and made.st_ctime >= since_s:
                    found.add((entry.path, made.st_ino))
    return found


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
    with contextlib.suppress(OSError, RecursionError):  # what is nested too deep stays
        _open_up(path)
        for _, folders, files, fd in os.fwalk(path, topdown=False, onerror=None):
            for name in files:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=fd)
            for name in folders:
                _remove_entry(name, fd)
        os.rmdir(path)  # noqa: PTH106


def _remove_entry(name: str, fd: int) -> None:
    """Remove an emptied folder, or the link to one."""
    with contextlib.suppress(OSError):
        if stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            os.rmdir(name, dir_fd=fd)
        else:
            os.unlink(name, dir_fd=fd)


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
