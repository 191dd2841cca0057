"""The probe inside Python ranks: what brings it in, and what it reports.

The probe (``wrappers/probe/sitecustomize.py``) writes one report a rank when the rank ends. What
of one is not as the probe writes it is passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tuner.hosts.process.left_over import MEMORY, name_of
from tuner.hosts.supervisor.cleanup import study_of
from tuner.hosts.untrusted_files import read_untrusted
from tuner.model import RankView
from tuner.model.wording import one_line

#: A longer report is not the probe's, bytes.
_MOST_BYTES = 1 << 20

#: Library names (prefixes) whose pool is a BLAS: the other pools are OpenMP runtimes.
BLAS_PREFIXES = ("libscipy_openblas", "libopenblas", "libblas", "libmkl_rt", "libblis")


def probe_environment(
    folder: Path, environ: Mapping[str, str], probe: Path | None = None
) -> dict[str, str]:
    """The variables that bring the probe into the ranks of the trial in `folder`.

    Args:
        folder: The trial's own folder; the reports go to ``probe/`` below it.
        environ: The environment to be extended; its ``PYTHONPATH`` is kept after the probe.
        probe: Where the probe's code is; ``None``: with ours.

    Returns:
        ``PYTHONPATH``, ``TUNE_PROBE_DIR`` and ``TUNE_LIVE_FILE`` alone, to be merged into the
        environment. There is such a file only if the launch is measured live.
    """
    probe = probe or shipped_probe()
    rest = environ.get("PYTHONPATH", "")
    return {
        "PYTHONPATH": f"{probe}{os.pathsep}{rest}" if rest else str(probe),
        "TUNE_PROBE_DIR": str(probe_folder(folder)),
        "TUNE_LIVE_FILE": str(live_file(folder)),
    }


def shipped_probe() -> Path:
    """The folder of the probe's code."""
    return Path(import_module("tuner.wrappers").__path__[0]) / "probe"


#: The place of the probe's code in a host's private folder.
CODE = "code"

#: What tells the ranks of a launch how to reach the tool, in its folder or in the private ones.
LIVE = "live.json"


def private_folder(marker: str) -> Path:
    """The folder that each of several hosts has of its own, in memory, of a study or of a launch.

    Nothing needs to be shared or installed for it. A launch's is in that of its study.
    """
    study = study_of(marker)
    return MEMORY / name_of(study) / marker[len(study) + 1 :]


def probe_folder(folder: Path) -> Path:
    """Where the reports of the trial in `folder` lie; absolute, since a rank may change folders."""
    return folder.absolute() / "probe"


def live_file(folder: Path) -> Path:
    """:data:`LIVE` of the trial in `folder`."""
    return folder.absolute() / LIVE


class Report(NamedTuple):
    """What the probe says of one rank; of the view, what only others can tell is missing."""

    view: RankView
    pid: Any = None
    #: It ran in the program, not in a Python which only helps one in another language.
    is_program: bool = False
    ended_s: float = 0.0  # since boot


def read_reports(folder: Path) -> dict[int, Report]:
    """The probe's reports by rank; what is missing or is not such a report is passed over."""
    reports: dict[int, Report] = {}
    for path in sorted(folder.glob("rank-*.json")):
        try:
            report = parse_report(read_untrusted(path, _MOST_BYTES))
        except OSError:
            continue
        if report is not None:
            reports[report.view.rank] = report
    return reports


def parse_report(data: bytes) -> Report | None:
    """One rank's report; ``None`` for what is not such a report."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    rank = _count(content.get("rank")) if isinstance(content, dict) else None
    if rank is None:
        return None
    mpi, affinity, pools = (content.get(name) for name in ("mpi", "affinity", "pools"))
    mpi = mpi if isinstance(mpi, dict) else {}
    sizes = (_count(mpi.get("world_size")), _count(content.get("launcher_size")))
    kept: list[tuple[str, int, int | None]] = []  # (folder/file, threads, the most it can have)
    for pool in pools if isinstance(pools, list) else []:
        threads = _count(pool.get("threads")) if isinstance(pool, dict) else None
        if threads is not None:
            name = one_line("/".join(str(pool.get("library", "")).split("/")[-2:]))
            kept.append((name, threads, _count(pool.get("built_for"))))
    # NumPy's own BLAS before those that came with other packages (OpenCV brings one too).
    blas = min(
        (pool for pool in kept if pool[0].rpartition("/")[2].startswith(BLAS_PREFIXES)),
        key=lambda pool: ("opencv" in pool[0], not pool[0].startswith("numpy")),
        default=("", None, None),
    )
    library, allocator = mpi.get("library"), content.get("allocator")
    packages, uncaught, ended_s = (content.get(n) for n in ("packages", "uncaught", "ended_s"))
    view = RankView(
        rank=rank,
        threads=0,
        children=0,
        affinity=tuple(
            cpu for cpu in (affinity if isinstance(affinity, list) else []) if isinstance(cpu, int)
        ),
        blas_threads=blas[1],
        opencv_threads=_count(content.get("opencv_threads")),
        # MPI's own word in the rank, else the launcher's.
        world_size=next((size for size in sizes if size is not None), None),
        mpi_library=one_line(library) if isinstance(library, str) else None,
        pools=tuple((name, threads) for name, threads, _ in kept),
        blas_limit=blas[2],
        allocator=one_line(allocator) if isinstance(allocator, str) else None,
        packages=tuple(
            (one_line(name), one_line(version))
            for name, version in (packages if isinstance(packages, dict) else {}).items()
            if isinstance(version, str)
        ),
        uncaught=one_line(uncaught) if isinstance(uncaught, str) else "",
    )
    ended_s = ended_s if isinstance(ended_s, float) else 0.0
    return Report(view, content.get("pid"), is_program=bool(mpi or kept), ended_s=ended_s)


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None
