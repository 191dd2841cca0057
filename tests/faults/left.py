"""What a bench has left on a host: ``python -m tests.faults.left NAME FOLDER [MARKER …]``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.marked import alive, marked

#: In the environment of all that a bench starts; its value is the bench's own.
BENCH = "TUNE_TEST_BENCH"


def notes(folder: Path) -> list[dict[str, Any]]:
    """What the processes of the trainer on this host left of themselves."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [note for note in found if note["host"] == os.uname().nodename]


def processes_left(name: str, noted: Path, markers: Iterable[str] = ()) -> list[int]:
    """The processes here that noted themselves or carry a bench's variable, and still run.

    A launcher does not give that variable to other hosts, but the marker of the launch.
    """
    living = {n["pid"] for n in notes(noted) if alive(n["pid"], n["start"])}
    return sorted({*living, *marked(name, BENCH), *(pid for m in markers for pid in marked(m))})


def everything_left(name: str, folder: Path, markers: Sequence[str]) -> list[str]:
    """Processes, shared memory, temporary files, notes: read from the system itself."""
    found = []
    for pid in processes_left(name, folder / "noted", markers):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            command = b"?"
        found.append(f"process {pid}: {command.decode(errors='replace')[:80]}")
    shared = {path for note in notes(folder / "noted") for path in note["segments"]}
    found += [f"shared memory {path}" for path in sorted(shared) if Path(path).exists()]
    found += [f"temporary {path.name}" for path in (folder / "tmp").iterdir()]
    found += [f"{path} of a running job" for path in (folder / "outputs").rglob("live.json")]
    found += [f"note {path.name}" for path in (folder / "lock").glob("in-flight*")]
    return found


if __name__ == "__main__":
    print(json.dumps(everything_left(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])))
