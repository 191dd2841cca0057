"""What is left of a trial: read from the system itself, not from what ``tune`` knows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

#: In the environment of all that a bench starts; its value is the bench's own.
VARIABLE = "TUNE_TEST_BENCH"

CGROUPS = Path("/sys/fs/cgroup")
DEPTH = 4


def _start(pid: int) -> int | None:
    """When a process began, clock ticks; ``None`` where it has ended (a zombie too)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _command(pid: int) -> str:
    try:
        line = (
            Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        )
    except OSError:
        return "?"
    return line.strip()[:80]


def notes(folder: Path) -> list[dict[str, Any]]:
    """What the processes of the trainer left of themselves."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def alive(noted: Iterable[dict[str, Any]]) -> list[int]:
    """Which of those still run."""
    return [note["pid"] for note in noted if _start(note["pid"]) == note["start"]]


def marked(name: str) -> list[int]:
    """The processes that carry a bench's variable."""
    wanted = f"{VARIABLE}={name}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                environ = Path(f"/proc/{entry.name}/environ").read_bytes()
            except OSError:
                continue
            if wanted in environ.split(b"\0") and _start(int(entry.name)) is not None:
                found.append(int(entry.name))
    return found


def processes(name: str, noted: Path) -> list[int]:
    """The processes that are left, by either."""
    return sorted({*marked(name), *alive(notes(noted))})


def _cgroups(markers: Iterable[str]) -> Iterator[Path]:
    """Groups of that name, a few levels deep (groups of others come and go meanwhile)."""
    names = {f"tune-{marker[:16]}" for marker in markers}
    for top, folders, _ in os.walk(CGROUPS):
        yield from (Path(top, name) for name in folders if name in names)
        if top.count("/") - str(CGROUPS).count("/") >= DEPTH:
            folders.clear()


def everything(name: str, folder: Path, markers: Iterable[str]) -> list[str]:
    """What is left, in words: processes, shared memory, temporary files, groups, notes."""
    found = [f"process {pid}: {_command(pid)}" for pid in processes(name, folder / "noted")]
    shared = {path for note in notes(folder / "noted") for path in note["segments"]}
    found += [f"shared memory {path}" for path in sorted(shared) if Path(path).exists()]
    found += [f"temporary {path.name}" for path in (folder / "tmp").iterdir()]
    found += [f"control group {path}" for path in _cgroups(markers)]
    for name in ("live.sock", "meeting-*"):
        found += [f"{path.name} of a running job" for path in (folder / "outputs").rglob(name)]
    found += [f"note {path.name}" for path in (folder / "lock").glob("in-flight*")]
    return found
