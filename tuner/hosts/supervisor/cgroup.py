"""A control group of the trial's own, if one can be made: nothing leaves it unseen.

Only cgroup v2 (also beside v1, "hybrid"); it takes root or a delegated group (systemd's user
units, most containers with a writable /sys/fs/cgroup). Everything here may fail: the trial then
goes on without.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from tuner.hosts.procfs import content, read

#: A group can be busy for a moment after its last process has ended, s.
_BUSY_S = 2.0


def _mounts() -> Iterator[tuple[str, str, str, str]]:
    """Each control group mount: its type, its root, where it is, its options."""
    for line in read("/proc/self/mountinfo").decode(errors="replace").splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) > 4 and len(tail) > 2 and tail[0] in {"cgroup", "cgroup2"}:
            yield tail[0], fields[3], fields[4], tail[2]


def _own(kind: str, controller: str = "") -> str | None:
    """The folder of this process's own group; ``None`` if it cannot be told."""
    for line in read("/proc/self/cgroup").decode(errors="replace").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if (number == "0") if kind == "cgroup2" else (controller in controllers.split(",")):
            break
    else:
        return None
    for found, root, place, options in _mounts():
        if found != kind or (controller and controller not in options.split(",")):
            continue
        below = path.removeprefix(root) if root != "/" else path
        if ".." in path.split("/") or (root != "/" and not path.startswith(root)):
            return None  # outside of what is mounted here
        return place.rstrip("/") + "/" + below.strip("/")
    return None


def place_for(name: str) -> str:
    """Where a group of this name would be; empty if there is no cgroup v2."""
    own = _own("cgroup2")
    return f"{own.rstrip('/')}/{name}" if own else ""


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
        found: set[int] = set()
        for folder in self._folders():
            text = read(f"{folder}/cgroup.procs")
            found.update(int(word) for word in text.split())
        return found - {0}  # of another pid namespace

    def kill(self) -> None:
        """Kill all of it at once (Linux 5.14; before, the caller's own SIGKILLs must do)."""
        self._write("cgroup.kill", b"1")

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


def oom_counters(group: Cgroup) -> list[str]:
    """The files that count what the kernel kills for want of memory, the narrowest first."""
    files = [f"{group.path}/memory.events"] if group.path else []
    files += [f"{own}/memory.events"] if (own := _own("cgroup2")) else []
    files += [f"{own}/memory.oom_control"] if (own := _own("cgroup", "memory")) else []
    return [file for file in files if content(file) is not None][:1]


def is_of(group: Cgroup, files: list[str]) -> bool:
    """Whether these counters are the group's own; else others are counted with it."""
    return bool(group.path and files) and all(file.startswith(f"{group.path}/") for file in files)


def oom_kills(files: list[str]) -> int | None:
    """What they count now; ``None`` if there are none."""
    if not files:
        return None
    lines = [line.split() for file in files for line in read(file).splitlines()]
    return sum(int(line[1]) for line in lines if len(line) == 2 and line[0] == b"oom_kill")
