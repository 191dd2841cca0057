"""Small disks of our own: a tmpfs in a mount namespace, which ends with its processes."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

SIZE = 3 << 20  # bytes

_CLONE_NEWNS = 0x00020000  # linux/sched.h
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY = 1  # linux/mount.h
_MS_REMOUNT = 32
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def own_mounts() -> None:
    """From now on this process, and what it starts, has mounts of its own.

    An ordinary user gets them in a user namespace, where the system allows that.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    else:
        _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWUSER), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "mount")


def mount(folder: Path) -> None:
    """A small disk at this folder."""
    options = f"size={SIZE}".encode()
    _check(_libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options), "mount")


def protect(folder: Path) -> None:
    """From now on nothing can be made in it or opened for writing.

    By another mount on top: the file system itself refuses as long as a file is open.
    """
    path = os.fsencode(folder)
    _check(_libc.mount(path, path, None, _MS_BIND, None), "mount")
    _check(_libc.mount(b"none", path, None, _MS_BIND | _MS_REMOUNT | _MS_RDONLY, None), "mount")


def unprotect(folder: Path) -> None:
    """The inverse."""
    _check(_libc.umount2(os.fsencode(folder), _MNT_DETACH), "umount")


def fill(path: Path) -> None:
    """Write a file until there is no space left."""
    with path.open("wb", buffering=0) as file:
        size = 1 << 16
        while size:
            try:
                written = file.write(bytes(size))
            except OSError:
                written = 0
            if written < size:
                size //= 2
