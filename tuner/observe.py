"""Sees what a trial's ranks really run: from ``/proc`` for any program, and by the probe in Python.

The probe (``wrappers/probe/sitecustomize.py``) writes one report a rank when the rank ends;
``/proc`` is sampled while it runs. Both are joined into one `Observation`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tuner import procfs
from tuner.model import Observation, RankView
from tuner.wording import one_line

#: Where the launchers of Open MPI, PMIx and Hydra say which rank a process is, and of how many.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
#: Where torchrun says so. Clusters set the two for every process of a job: they count only in
#: one that torchrun has started, which has the third.
TORCHRUN_RANK, TORCHRUN_SIZE, TORCHRUN = "RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"

#: Library names (prefixes) whose pool is a BLAS: the other pools are OpenMP runtimes.
BLAS_PREFIXES = ("libscipy_openblas", "libopenblas", "libblas", "libmkl_rt", "libblis")


#: A rank or a size; a variable of a longer number says something else.
_NUMBER = re.compile(r"[0-9]{1,9}")


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


class Member(NamedTuple):
    """A process of a trial: ``started`` (clock ticks since boot) tells it from a later one."""

    pid: int
    started: int
    rank: int | None  # None: the launcher's own


class _Seen(NamedTuple):
    """A process of a rank in one sample."""

    started: int
    pid: int
    threads: int
    world_size: int | None


@dataclass
class _Rank:
    """What was seen of one rank so far."""

    root: _Seen
    threads: int = 0
    children: int = 0
    affinity: tuple[int, ...] = ()


class Watcher:
    """Samples the processes of one trial, cheaply: one read of ``stat`` a process and sample.

    Args:
        folder: The trial's own folder, where the probe's reports are.
        proc: The mounted procfs; another folder in tests.
    """

    def __init__(self, folder: Path, proc: Path = Path("/proc")) -> None:
        self._folder = folder
        self._proc = str(proc)
        self._known: dict[tuple[int, int], tuple[int, int | None]] = {}
        self._ranks: dict[int, _Rank] = {}
        #: The processes of the last sample; another thread may read them at any time.
        self.members: tuple[Member, ...] = ()

    def sample(self, pids: Iterable[int]) -> None:
        """Look at the live processes `pids` of the trial; those that are gone are passed over."""
        groups: dict[int, list[_Seen]] = {}
        members = []
        for pid in pids:
            stat = procfs.stat(pid, self._proc)
            if stat is None:
                continue
            identity = self._identity(pid, stat.started)
            members.append(Member(pid, stat.started, identity[0] if identity else None))
            if identity is not None:
                rank, world_size = identity
                seen = _Seen(stat.started, pid, stat.threads, world_size)
                groups.setdefault(rank, []).append(seen)
        self.members = tuple(members)
        for rank, group in groups.items():
            self._note(rank, group)

    def _note(self, rank: int, group: list[_Seen]) -> None:
        # The rank's own process is its oldest: the others inherited the variable from it, also
        # those that lost their parent and were adopted.
        root = min(group, key=lambda seen: (seen.started, seen.pid))
        noted = self._ranks.setdefault(rank, _Rank(root))
        is_root = (root.started, root.pid) == (noted.root.started, noted.root.pid)
        noted.threads = max(noted.threads, *(seen.threads for seen in group))
        noted.children = max(noted.children, len(group) - is_root)
        if is_root:
            noted.affinity = _affinity(root.pid) or noted.affinity

    def ranks(self) -> dict[int, int | None]:
        """The rank of each process of the last sample."""
        return {member.pid: member.rank for member in self.members}

    def _identity(self, pid: int, started: int) -> tuple[int, int | None] | None:
        """The rank and world size in a process's environment; None for the launcher's own.

        Only ranks are remembered: between fork and exec a rank still has its launcher's.
        """
        known = self._known.get((pid, started))
        if known is None:
            environ = _variables(procfs.read(f"{self._proc}/{pid}/environ"))
            torchrun = TORCHRUN in environ
            rank = _first_number(environ, (*RANK_VARIABLES, *((TORCHRUN_RANK,) * torchrun)))
            if rank is None:
                return None
            size = _first_number(environ, (*SIZE_VARIABLES, *((TORCHRUN_SIZE,) * torchrun)))
            known = self._known[pid, started] = (rank, size)
        return known

    def result(self) -> Observation:
        """Everything seen so far, joined with the reports of the probe."""
        folder = probe_folder(self._folder)
        reports = read_reports(folder)
        return Observation(
            tuple(
                _view(
                    rank,
                    self._ranks.get(rank),
                    reports.get(rank, {}),
                    opencv_loaded=(folder / f"rank-{rank}.cv2").exists(),
                )
                for rank in sorted({*self._ranks, *reports})
            )
        )


def read_reports(folder: Path) -> dict[int, dict[str, Any]]:
    """The probe's reports by rank; what is missing or is not such a report is passed over."""
    reports: dict[int, dict[str, Any]] = {}
    for path in sorted(folder.glob("rank-*.json")):
        report = parse_report(procfs.read(str(path)))
        if report is not None:
            reports[report["rank"]] = report
    return reports


def parse_report(data: bytes) -> dict[str, Any] | None:
    """One rank's report; ``None`` for what is not such a report."""
    try:
        report = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) and _count(report.get("rank")) is not None else None


def _view(
    rank: int, seen: _Rank | None, report: Mapping[str, Any], *, opencv_loaded: bool
) -> RankView:
    mpi = report.get("mpi")
    mpi = mpi if isinstance(mpi, dict) else {}
    pools = _pools(report.get("pools"))
    blas = _numpy_first([pool for pool in pools if _is_blas(pool[0])])
    affinity = report.get("affinity")
    cpus = affinity if isinstance(affinity, list) else []
    # MPI's own word in the rank, else the launcher's.
    sizes = (_count(mpi.get("world_size")), _count(report.get("launcher_size")))
    seen_size = seen.root.world_size if seen else None
    return RankView(
        rank=rank,
        threads=seen.threads if seen else 0,
        children=seen.children if seen else 0,
        affinity=(seen.affinity if seen else ()) or tuple(c for c in cpus if isinstance(c, int)),
        blas_threads=blas[0][1] if blas else None,
        opencv_threads=_count(report.get("opencv_threads")),
        opencv_loaded=opencv_loaded,
        world_size=next((size for size in sizes if size is not None), seen_size),
        mpi_library=one_line(library) if isinstance(library := mpi.get("library"), str) else None,
        pools=tuple((name, threads) for name, threads, _ in pools),
        blas_limit=blas[0][2] if blas else None,
        allocator=one_line(name) if isinstance(name := report.get("allocator"), str) else None,
        reported=bool(report) and (bool(mpi or pools) or _is_of_the_rank_itself(report, seen)),
    )


def _is_of_the_rank_itself(report: Mapping[str, Any], seen: _Rank | None) -> bool:
    """False for that of a Python which only helps a program in another language."""
    return seen is None or report.get("pid") == seen.root.pid


def _pools(found: Any) -> list[tuple[str, int, int | None]]:
    """(library as ``folder/file``, threads, the most it was built for), the names kept short."""
    pools = []
    for pool in found if isinstance(found, list) else []:
        threads = _count(pool.get("threads")) if isinstance(pool, dict) else None
        if threads is not None:
            name = one_line("/".join(str(pool.get("library", "")).split("/")[-2:]))
            pools.append((name, threads, _count(pool.get("built_for"))))
    return pools


def _is_blas(name: str) -> bool:
    return name.rpartition("/")[2].startswith(BLAS_PREFIXES)


def _numpy_first(pools: list[tuple[str, int, int | None]]) -> list[tuple[str, int, int | None]]:
    """NumPy's own BLAS before those that came with other packages (OpenCV brings one too)."""
    return sorted(pools, key=lambda pool: ("opencv" in pool[0], not pool[0].startswith("numpy")))


def _affinity(pid: int) -> tuple[int, ...]:
    try:
        return tuple(sorted(os.sched_getaffinity(pid)))
    except OSError:
        return ()


def _variables(environ: bytes) -> dict[str, str]:
    lines = environ.decode("utf-8", "replace").split("\0")
    return dict(line.split("=", 1) for line in lines if "=" in line)


def _first_number(environ: Mapping[str, str], names: Iterable[str]) -> int | None:
    values = (environ.get(name, "") for name in names)
    return next((int(value) for value in values if _NUMBER.fullmatch(value)), None)


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
