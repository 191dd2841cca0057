"""What is left of a trial: read from the system itself, not from what ``tune`` knows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.marked import marked

#: In the environment of all that a bench starts; its value is the bench's own.
VARIABLE = "TUNE_TEST_BENCH"

CGROUPS = Path("/sys/fs/cgroup")
DEPTH = 4


def stat_fields(pid: int) -> list[str]:
    """The fields of a process from its state on (`proc(5)`); none if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    fields = stat[stat.rindex(")") + 2 :].split()
    return [] if fields[0] in "ZX" else fields


def parent(pid: int) -> int:
    """The process that has started another."""
    return int(stat_fields(pid)[1])


def notes(folder: Path) -> list[dict[str, Any]]:
    """What the processes of the trainer left of themselves."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def alive(noted: Iterable[dict[str, Any]]) -> list[int]:
    """Which of those still run."""
    return [n["pid"] for n in noted if stat_fields(n["pid"])[19:20] == [str(n["start"])]]


def processes(name: str, noted: Path) -> list[int]:
    """The processes that noted themselves or carry a bench's variable, and still run."""
    return sorted({*alive(notes(noted)), *marked(name, VARIABLE)})


def everything(name: str, folder: Path, markers: Iterable[str]) -> list[str]:
    """What is left, in words: processes, shared memory, temporary files, groups, notes."""
    found = []
    for pid in processes(name, folder / "noted"):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            command = b"?"
        found.append(f"process {pid}: {command.decode(errors='replace')[:80]}")
    shared = {path for note in notes(folder / "noted") for path in note["segments"]}
    found += [f"shared memory {path}" for path in sorted(shared) if Path(path).exists()]
    found += [f"temporary {path.name}" for path in (folder / "tmp").iterdir()]
    groups = {f"tune-{marker[:16]}" for marker in markers}
    for top, folders, _ in os.walk(CGROUPS):  # groups of others come and go meanwhile
        found += [f"control group {top}/{each}" for each in folders if each in groups]
        if top.count("/") - str(CGROUPS).count("/") >= DEPTH:
            folders.clear()
    found += [f"{path} of a running job" for path in (folder / "outputs").rglob("live.sock")]
    found += [f"note {path.name}" for path in (folder / "lock").glob("in-flight*")]
    return found
