"""A control group of the trial's own, if one can be made: nothing leaves it unseen.

Only cgroup v2 (also beside v1, "hybrid"); it takes root or a delegated group (systemd's user
units, most containers with a writable /sys/fs/cgroup). Everything here may fail: the trial then
goes on without.
"""

from __future__ import annotations

import contextlib
import os
import time

from tuner.hosts.procfs import cgroup_folders, read, try_read

#: A group can be busy for a moment after its last process has ended, s.
_BUSY_S = 2.0

#: What is in a group stands still sooner, s, unless it hangs in the kernel.
_FREEZE_S = 1.0


def place_for(name: str) -> str:
    """Where a group of this name would be; empty if there is no cgroup v2."""
    own = (f for f in cgroup_folders() if try_read(f"{f}/cgroup.controllers") is not None)
    folder = next(own, "")
    return f"{folder}/{name}" if folder else ""


class Cgroup:
    """One group; ``path`` is empty if there is none."""

    def __init__(self, path: str) -> None:
        self.path = path

    def make(self) -> None:
        """Make it, or go on without."""
        try:
            os.mkdir(self.path)  # noqa: PTH102 (pathlib costs start-up time)
        except OSError:
            self.path = ""

    def join(self) -> None:
        """Move this process in."""
        self._write("cgroup.procs", b"0")

    def members(self) -> set[int]:
        """The ids of the live processes in it and in the groups below."""
        pids: set[int] = set()
        for folder in self._folders():
            text = read(f"{folder}/cgroup.procs")
            pids.update(int(word) for word in text.split())
        return pids - {0}  # of another pid namespace

    def kill(self) -> None:
        """Kill all of it at once (Linux 5.14; before, the caller's own SIGKILLs must do)."""
        self._write("cgroup.kill", b"1")

    def freeze(self) -> bool:
        """Stop all that is in it; False if that cannot be done (Linux before 5.2)."""
        if not self.path or try_read(f"{self.path}/cgroup.freeze") is None:
            return False
        self._write("cgroup.freeze", b"1")
        deadline = time.monotonic() + _FREEZE_S
        while b"frozen 1" not in read(f"{self.path}/cgroup.events"):
            if time.monotonic() > deadline:  # one of them hangs in the kernel
                self.thaw()
                return False
            time.sleep(0.0005)
        return True

    def thaw(self) -> None:
        """Let all that is in it go on."""
        self._write("cgroup.freeze", b"0")

    def _write(self, name: str, text: bytes) -> None:
        if self.path:
            with contextlib.suppress(OSError):
                fd = os.open(f"{self.path}/{name}", os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(fd, text)
                finally:
                    os.close(fd)

    def populated(self) -> bool:
        """True while something lives in it."""
        return bool(self.path) and b"populated 1" in read(f"{self.path}/cgroup.events")

    def remove(self) -> None:
        """Remove it, and what programs made below it."""
        deadline = time.monotonic() + _BUSY_S
        while self.path:
            try:
                for folder in reversed(self._folders()):
                    os.rmdir(folder)  # noqa: PTH106
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.01)
            else:
                return

    def _folders(self) -> list[str]:
        """The folder and those below it, each before its own."""
        return [folder for folder, _, _ in os.walk(self.path)] if self.path else []


def oom_counter(group: Cgroup) -> str:
    """The file that counts what the kernel kills for want of memory, the narrowest; or none."""
    files = [f"{group.path}/memory.events"] if group.path else []
    files += [f"{folder}/memory.events" for folder in cgroup_folders()]
    files += [f"{folder}/memory.oom_control" for folder in cgroup_folders("memory")]
    return next((file for file in files if try_read(file) is not None), "")


def oom_kills(file: str) -> int | None:
    """What it counts now; ``None`` without one."""
    lines = [line.split() for line in read(file).splitlines()] if file else []
    counts = [int(line[1]) for line in lines if len(line) == 2 and line[0] == b"oom_kill"]
    return sum(counts) if file else None
