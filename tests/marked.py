"""What tests of the clean-up share: an independent reading of /proc, and patience."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tuner.hosts.process import MARKER

PATIENCE_S = 60.0


def eventually(done: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + patience_s
    while not done():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.005)


def alive(pid: int, started: int | None = None) -> bool:
    """Whether there is such a process, started at that clock tick, and it is no zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in "ZX" and started in (None, int(fields[19]))


def marked(value: str, name: str = MARKER) -> list[int]:
    """The ids of the living processes with this variable in their environment."""
    wanted = f"{name}={value}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:  # it ended, or is another user's
            continue
    return sorted(found)
