"""The probe inside Python ranks: what brings it in, and what it reports.

The probe (``wrappers/probe/sitecustomize.py``) writes one report a rank when the rank ends. Another
file in its place is passed over.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tuner.hosts.process.left_over import MEMORY, name_of
from tuner.hosts.supervisor.cleanup import study_of
from tuner.hosts.untrusted_files import read_untrusted
from tuner.model import PHASES, PhaseShare, RankView, codec
from tuner.model.wording import one_line

#: A longer report is not the probe's, bytes.
_MOST_BYTES = 1 << 20

#: How the libraries of BLAS pools are called, at the begin: the other pools are OpenMP runtimes.
BLAS_PREFIXES = ("libscipy_openblas", "libopenblas", "libblas", "libmkl_rt", "libblis")

#: The place of the probe's code in a host's private folder; beside `wrappers` lies ``tuner.live``.
CODE = "code/wrappers/probe"

#: The file that tells the ranks of a launch how to reach the tool, in its folder or a private one.
LIVE = "live.json"

#: The names of files of phases: the rank, and the process that wrote the file.
_PHASES = re.compile(r"rank-(\d{1,9})\.\d{1,9}\.phases")


def probe_environment(
    folder: Path, environ: Mapping[str, str], probe: Path | None = None
) -> dict[str, str]:
    """Return the variables that bring the probe into the ranks of the trial in ``folder``.

    The ``TUNE_LIVE_FILE`` exists only if the launch is measured live. ``probe`` is the folder of
    the probe's code, by default ours.
    """
    return {
        **python_path(environ, probe),
        "TUNE_PROBE_DIR": str(probe_folder(folder)),
        "TUNE_LIVE_FILE": str(live_file(folder)),
    }


def python_path(environ: Mapping[str, str], probe: Path | None = None) -> dict[str, str]:
    """Return the ``PYTHONPATH`` by which any Python can import ``tuner.live``.

    That of ``environ`` is kept after the folder of the probe's code.
    """
    folders = (str(probe or shipped_probe()), environ.get("PYTHONPATH", ""))
    return {"PYTHONPATH": os.pathsep.join(filter(None, folders))}


# --- places ---------------------------------------------------------------------------------------


def shipped_probe() -> Path:
    """Return the folder of the probe's code."""
    return Path(import_module("tuner.wrappers").__path__[0]) / "probe"


def private_folder(marker: str) -> Path:
    """Return the folder in memory that each of several hosts has of a study or of a launch.

    Hosts need to share or install nothing for it. That of a launch lies in that of its study.
    """
    study = study_of(marker)
    return MEMORY / name_of(study) / marker[len(study) + 1 :]


def probe_folder(folder: Path) -> Path:
    """Return where the reports of a trial lie; absolute, since a rank may change folders."""
    return folder.absolute() / "probe"


def live_file(folder: Path) -> Path:
    """Return the file that tells a trial's ranks how to reach the tool."""
    return folder.absolute() / LIVE


def connections_folder(folder: Path) -> Path:
    """Return where ``ssh_wrapper.sh`` notes how each ssh of a trial's launcher has ended."""
    return folder.absolute() / "connections"


# --- reports --------------------------------------------------------------------------------------


class Report(NamedTuple):
    """What the probe says of one rank; its view lacks what only ``/proc`` can tell."""

    view: RankView
    pid: int
    #: The probe ran in the program, not in a Python which only helps one in another language.
    is_program: bool
    ended_s: float  # since boot


@dataclass(frozen=True)
class _Pool:
    library: str
    threads: int
    built_for: int | None = None  # the most threads that the library can have


@dataclass(frozen=True)
class _Mpi:
    world_size: int
    library: str


@dataclass(frozen=True)
class _ReportFile:
    """What the probe writes of a rank; a part that failed is ``None``."""

    rank: int
    pid: int = 0
    launcher_size: int | None = None
    uncaught: str = ""
    ended_s: float = 0.0
    affinity: tuple[int, ...] | None = None
    pools: tuple[_Pool, ...] | None = None
    opencv_threads: int | None = None
    allocator: str | None = None
    mpi: _Mpi | None = None
    packages: Mapping[str, str] | None = None


def read_reports(folder: Path) -> dict[int, Report]:
    """Return the probe's reports by rank; files that are no such reports are passed over."""
    reports: dict[int, Report] = {}
    for path in sorted(folder.glob("rank-*.json")):
        try:
            file = codec.loads(_ReportFile, read_untrusted(path, _MOST_BYTES).decode())
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if file.rank >= 0:
            reports[file.rank] = _report_of(file)
    return reports


def _report_of(file: _ReportFile) -> Report:
    pools = [
        replace(pool, library=one_line("/".join(pool.library.split("/")[-2:])))
        for pool in file.pools or ()
    ]
    # NumPy's own BLAS before those that came with other packages (OpenCV brings one too).
    blas = min(
        (pool for pool in pools if pool.library.rpartition("/")[2].startswith(BLAS_PREFIXES)),
        key=lambda pool: ("opencv" in pool.library, not pool.library.startswith("numpy")),
        default=None,
    )
    view = RankView(
        rank=file.rank,
        threads=0,
        children=0,
        affinity=file.affinity or (),
        blas_threads=blas.threads if blas else None,
        opencv_threads=file.opencv_threads,
        # As MPI says in the rank, or else as the launcher says.
        world_size=file.mpi.world_size if file.mpi else file.launcher_size,
        mpi_library=one_line(file.mpi.library) if file.mpi else None,
        pools=tuple((pool.library, pool.threads) for pool in pools),
        blas_limit=blas.built_for if blas else None,
        allocator=file.allocator and one_line(file.allocator),
        packages=tuple((one_line(n), one_line(v)) for n, v in (file.packages or {}).items()),
        uncaught=one_line(file.uncaught),
    )
    return Report(view, file.pid, is_program=bool(file.mpi or pools), ended_s=file.ended_s)


# --- phases ---------------------------------------------------------------------------------------


def read_phases(folder: Path) -> tuple[PhaseShare, ...]:
    """Return how the ranks' main threads spent their time, as the probe saw it, by rank and phase.

    Of several Pythons in a rank (a launcher around the trainer) the one that kept a CPU busy the
    longest counts. Phases without time are left out, and files that are not the probe's.
    """
    by_rank: dict[int, tuple[float, list[PhaseShare]]] = {}
    for path in sorted(probe_folder(folder).glob("rank-*.phases")):
        if name := _PHASES.fullmatch(path.name):
            rank = int(name[1])
            with suppress(OSError, ValueError):
                parsed = _parse_phases(read_untrusted(path, _MOST_BYTES).decode(), rank)
                by_rank[rank] = max(parsed, by_rank.get(rank, parsed), key=lambda pair: pair[0])
    return tuple(share for rank in sorted(by_rank) for share in by_rank[rank][1])


def _parse_phases(text: str, rank: int) -> tuple[float, list[PhaseShare]]:
    """Return the seconds on a CPU or waiting for one, and the phases; or raise ``ValueError``.

    A line has the phase, the seconds on a CPU, waiting for one and asleep, and the costliest place.
    """
    rows = [line.split("\t") for line in text.splitlines()]
    all_s = sum(float(number) for row in rows for number in row[1:4])
    if not 0 < all_s < math.inf:
        raise ValueError(text)
    shares: list[PhaseShare] = []
    busy_s = 0.0
    for phase, *numbers, where in rows:
        running, queued, blocked = states = [float(number) / all_s for number in numbers]
        if phase not in PHASES or min(states) < 0:
            raise ValueError(text)
        busy_s += all_s * (running + queued)
        if any(states):
            place = one_line(where)
            shares.append(PhaseShare(rank, phase, sum(states), running, queued, blocked, place))
    return busy_s, shares
