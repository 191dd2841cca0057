"""Files as the kernel has them, for a host made of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def plant(root: Path, files: Mapping[str, str]) -> None:
    """Write these files, named from the root."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def stat_line(
    pid: int,
    *,
    started: int,
    name: str = "python",
    state: str = "S",
    parent: int = 1,
    ticks: int = 0,
    threads: int = 1,
    pages: int = 0,
) -> str:
    """``/proc/PID/stat`` of a process that has used so many clock ticks of CPU time."""
    fields = [state, parent, *[0] * 9, ticks, *[0] * 5, threads, 0, started, 0, pages]
    return f"{pid} ({name}) {' '.join(map(str, fields))}\n"
