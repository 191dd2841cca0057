"""The probe inside Python ranks: what brings it in, and what it reports.

The probe (``wrappers/probe/sitecustomize.py``) writes one report a rank when the rank ends. What
of one is not as the probe writes it is passed over.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tuner.hosts import procfs
from tuner.hosts.untrusted_files import read_untrusted
from tuner.model.wording import one_line

#: A longer report is not the probe's, bytes.
_MOST_BYTES = 1 << 20

#: Library names (prefixes) whose pool is a BLAS: the other pools are OpenMP runtimes.
BLAS_PREFIXES = ("libscipy_openblas", "libopenblas", "libblas", "libmkl_rt", "libblis")


def probe_environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that bring the probe into the ranks of the trial in `folder`.

    Args:
        folder: The trial's own folder; the reports go to ``probe/`` below it.
        environ: The environment to be extended; its ``PYTHONPATH`` is kept behind the probe.

    Returns:
        ``PYTHONPATH`` and ``TUNE_PROBE_DIR`` alone, to be merged into the environment.
    """
    probe = Path(import_module("tuner.wrappers").__path__[0]) / "probe"
    rest = environ.get("PYTHONPATH", "")
    return {
        "PYTHONPATH": f"{probe}{os.pathsep}{rest}" if rest else str(probe),
        "TUNE_PROBE_DIR": str(probe_folder(folder)),
    }


def probe_folder(folder: Path) -> Path:
    """Where the reports of the trial in `folder` lie; absolute, since a rank may change folders."""
    return folder.absolute() / "probe"


# --- its thread -----------------------------------------------------------------------------------

#: What the thread of ours in a rank calls itself (``wrappers/probe/rank_phases.py``). It reads
#: and writes a little each second, whatever the program does: that is no sign of life.
THREAD_NAME = b"tune-probe"


def is_probe_thread(folder: str) -> bool:
    """Whether the thread of this folder in ``/proc`` is ours."""
    return procfs.read(f"{folder}/comm").strip() == THREAD_NAME


def probe_transfers(pid: int, proc: str = "/proc") -> int:
    """Bytes that the live thread of ours in this process has read and written; 0 without one."""
    task = f"{proc}/{pid}/task"
    try:
        threads = os.listdir(task)  # noqa: PTH208
    except OSError:
        return 0
    ours = [f"{task}/{thread}/io" for thread in threads if is_probe_thread(f"{task}/{thread}")]
    return sum(transferred(procfs.read(path)) for path in ours)


def transferred(io: bytes) -> int:
    """Bytes read and written, of the text of an ``io`` file in ``/proc``."""
    return sum(map(int, re.findall(rb"(?:rchar|wchar|read_bytes|write_bytes): (\d+)", io)))


# --- its report -----------------------------------------------------------------------------------


class Pool(NamedTuple):
    """A library's pool of threads."""

    library: str  # as ``folder/file``
    threads: int
    built_for: int | None  # the most it can have


@dataclass(frozen=True)
class Report:
    """What the probe says of one rank; ``None`` or empty if it does not."""

    rank: int
    pid: Any = None
    affinity: tuple[int, ...] = ()
    pools: tuple[Pool, ...] = ()
    opencv_threads: int | None = None
    in_mpi: bool = False
    world_size: int | None = None  # MPI's own word in the rank, else the launcher's
    mpi_library: str | None = None
    allocator: str | None = None

    @property
    def blas(self) -> Pool | None:
        """NumPy's own BLAS before those that came with other packages (OpenCV brings one too)."""
        found = [
            pool for pool in self.pools if pool.library.rpartition("/")[2].startswith(BLAS_PREFIXES)
        ]
        found.sort(key=lambda pool: ("opencv" in pool[0], not pool[0].startswith("numpy")))
        return found[0] if found else None


def read_reports(folder: Path) -> dict[int, Report]:
    """The probe's reports by rank; what is missing or is not such a report is passed over."""
    reports: dict[int, Report] = {}
    for path in sorted(folder.glob("rank-*.json")):
        try:
            report = parse_report(read_untrusted(path, _MOST_BYTES))
        except OSError:
            continue
        if report is not None:
            reports[report.rank] = report
    return reports


def parse_report(data: bytes) -> Report | None:
    """One rank's report; ``None`` for what is not such a report."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    rank = _count(found.get("rank")) if isinstance(found, dict) else None
    if rank is None:
        return None
    mpi, affinity, pools = (found.get(name) for name in ("mpi", "affinity", "pools"))
    mpi = mpi if isinstance(mpi, dict) else {}
    sizes = (_count(mpi.get("world_size")), _count(found.get("launcher_size")))
    kept = []
    for pool in pools if isinstance(pools, list) else []:
        threads = _count(pool.get("threads")) if isinstance(pool, dict) else None
        if threads is not None:
            name = one_line("/".join(str(pool.get("library", "")).split("/")[-2:]))
            kept.append(Pool(name, threads, _count(pool.get("built_for"))))
    library, allocator = mpi.get("library"), found.get("allocator")
    return Report(
        rank=rank,
        pid=found.get("pid"),
        affinity=tuple(
            cpu for cpu in (affinity if isinstance(affinity, list) else []) if isinstance(cpu, int)
        ),
        pools=tuple(kept),
        opencv_threads=_count(found.get("opencv_threads")),
        in_mpi=bool(mpi),
        world_size=next((size for size in sizes if size is not None), None),
        mpi_library=one_line(library) if isinstance(library, str) else None,
        allocator=one_line(allocator) if isinstance(allocator, str) else None,
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
