"""The probe inside Python ranks: what brings it in, and what it reports.

The probe (``wrappers/probe/sitecustomize.py``) writes one report a rank when the rank ends. What
of one is not as the probe writes it is passed over.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from tuner.hosts.process.left_over import MEMORY, name_of
from tuner.hosts.supervisor.cleanup import study_of
from tuner.hosts.untrusted_files import read_untrusted
from tuner.model import PHASES, PhaseShare, RankView
from tuner.model.wording import one_line

#: A longer report is not the probe's, bytes.
_MOST_BYTES = 1 << 20

#: Library names (prefixes) whose pool is a BLAS: the other pools are OpenMP runtimes.
BLAS_PREFIXES = ("libscipy_openblas", "libopenblas", "libblas", "libmkl_rt", "libblis")

#: The place of the probe's code in a host's private folder.
CODE = "code"

#: What tells the ranks of a launch how to reach the tool, in its folder or in the private ones.
LIVE = "live.json"

#: The files that tell of phases: the rank, and the process that wrote it.
_PHASES = re.compile(r"rank-(\d{1,9})\.\d{1,9}\.phases")


def probe_environment(
    folder: Path, environ: Mapping[str, str], probe: Path | None = None
) -> dict[str, str]:
    """Return the variables that bring the probe into the ranks of the trial in ``folder``.

    The ``PYTHONPATH`` of ``environ`` is kept after the probe. There is a ``TUNE_LIVE_FILE`` only
    if the launch is measured live. ``probe`` is where the probe's code is; by default with ours.
    """
    probe = probe or shipped_probe()
    rest = environ.get("PYTHONPATH", "")
    return {
        "PYTHONPATH": f"{probe}{os.pathsep}{rest}" if rest else str(probe),
        "TUNE_PROBE_DIR": str(probe_folder(folder)),
        "TUNE_LIVE_FILE": str(live_file(folder)),
    }


# --- places ---------------------------------------------------------------------------------------


def shipped_probe() -> Path:
    """Return the folder of the probe's code."""
    return Path(import_module("tuner.wrappers").__path__[0]) / "probe"


def private_folder(marker: str) -> Path:
    """Return the folder in memory that each of several hosts has of a study or of a launch.

    Nothing needs to be shared or installed for it. A launch's is in that of its study.
    """
    study = study_of(marker)
    return MEMORY / name_of(study) / marker[len(study) + 1 :]


def probe_folder(folder: Path) -> Path:
    """Return where the reports of a trial lie; absolute, since a rank may change folders."""
    return folder.absolute() / "probe"


def live_file(folder: Path) -> Path:
    """Return :data:`LIVE` of a trial."""
    return folder.absolute() / LIVE


def connections_folder(folder: Path) -> Path:
    """Return where ``ssh_wrapper.sh`` notes how each ssh of a trial's launcher has ended."""
    return folder.absolute() / "connections"


# --- reports --------------------------------------------------------------------------------------


class Report(NamedTuple):
    """What the probe says of one rank; of the view, what only others can tell is missing."""

    view: RankView
    pid: Any = None
    #: It ran in the program, not in a Python which only helps one in another language.
    is_program: bool = False
    ended_s: float = 0.0  # since boot


def read_reports(folder: Path) -> dict[int, Report]:
    """Return the probe's reports by rank."""
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
    """Return one rank's report; ``None`` for what is not such a report."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    rank = _count(content.get("rank")) if isinstance(content, dict) else None
    if rank is None:
        return None
    mpi, packages = (_of(dict, content.get(name)) for name in ("mpi", "packages"))
    affinity, all_pools = (_of(list, content.get(name)) for name in ("affinity", "pools"))
    pools: list[tuple[str, int, int | None]] = []  # (folder/file, threads, the most it can have)
    for pool in all_pools:
        if (threads := _count(_of(dict, pool).get("threads"))) is not None:
            name = one_line("/".join(str(pool.get("library", "")).split("/")[-2:]))
            pools.append((name, threads, _count(pool.get("built_for"))))
    # NumPy's own BLAS before those that came with other packages (OpenCV brings one too).
    _, blas_threads, blas_limit = min(
        (pool for pool in pools if pool[0].rpartition("/")[2].startswith(BLAS_PREFIXES)),
        key=lambda pool: ("opencv" in pool[0], not pool[0].startswith("numpy")),
        default=("", None, None),
    )
    library, allocator, uncaught = (
        one_line(text) if isinstance(text, str) else None
        for text in (mpi.get("library"), content.get("allocator"), content.get("uncaught"))
    )
    # MPI's own word in the rank, else the launcher's.
    sizes = (_count(mpi.get("world_size")), _count(content.get("launcher_size")))
    view = RankView(
        rank=rank,
        threads=0,
        children=0,
        affinity=tuple(cpu for cpu in affinity if isinstance(cpu, int)),
        blas_threads=blas_threads,
        opencv_threads=_count(content.get("opencv_threads")),
        world_size=next((size for size in sizes if size is not None), None),
        mpi_library=library,
        pools=tuple((name, threads) for name, threads, _ in pools),
        blas_limit=blas_limit,
        allocator=allocator,
        packages=tuple(
            (one_line(name), one_line(version))
            for name, version in packages.items()
            if isinstance(version, str)
        ),
        uncaught=uncaught or "",
    )
    ended_s = content.get("ended_s")
    return Report(
        view,
        content.get("pid"),
        is_program=bool(mpi or pools),
        ended_s=ended_s if isinstance(ended_s, float) else 0.0,
    )


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _of(kind: type, value: Any) -> Any:
    """The value if it is of this kind, else an empty one."""
    return value if isinstance(value, kind) else kind()


# --- phases ---------------------------------------------------------------------------------------


def read_phases(folder: Path) -> tuple[PhaseShare, ...]:
    """Return how the ranks' main threads spent their time, as the probe saw it, by rank and phase.

    Of several Pythons in a rank (a launcher around the trainer) the one that kept a CPU busy the
    longest counts. Phases without time are left out.
    """
    shares_by_rank: dict[int, list[PhaseShare]] = {}
    work_s: dict[int, float] = {}
    for path in sorted(probe_folder(folder).glob("rank-*.phases")):
        name = _PHASES.fullmatch(path.name)
        if name is None:
            continue
        rank = int(name[1])
        try:
            shares, busy_s = parse_phases(read_untrusted(path, _MOST_BYTES), rank)
        except OSError:
            continue
        if shares and busy_s >= work_s.get(rank, 0.0):
            shares_by_rank[rank], work_s[rank] = shares, busy_s
    return tuple(share for rank in sorted(shares_by_rank) for share in shares_by_rank[rank])


def parse_phases(data: bytes, rank: int) -> tuple[list[PhaseShare], float]:
    """Return the phases of one file, and the seconds on a CPU or waiting for one."""
    rows: dict[str, tuple[list[float], str]] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        phase, *rest = line.split("\t")
        try:
            numbers = [float(text) for text in rest[:3]]
        except ValueError:
            return [], 0.0
        sound = len(rest) == 4 and all(0 <= number < math.inf for number in numbers)
        if phase not in PHASES or not sound:
            return [], 0.0
        rows[phase] = numbers, one_line(rest[3])
    all_s = sum(sum(numbers) for numbers, _ in rows.values())
    if not 0 < all_s < math.inf:
        return [], 0.0
    shares = []
    for phase in PHASES:
        numbers, where = rows.get(phase, ([0.0] * 3, ""))
        running, queued, blocked = (number / all_s for number in numbers)
        share = running + queued + blocked
        if share > 0:
            shares.append(PhaseShare(rank, phase, share, running, queued, blocked, where))
    return shares, sum(numbers[0] + numbers[1] for numbers, _ in rows.values())
