"""Which MPI a compiled program is linked with, if it is not mpirun's."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from tuner.hosts import process
from tuner.model import Launch, StudySpec

#: ``ldd`` takes some milliseconds, s.
_LIMIT_S = 10.0
#: The names that link programs with an MPI: MPICH, Intel MPI and MVAPICH share theirs.
_LINKED = re.compile(r"^\s*(libmpi(?:ch)?\.so\.(\d+)) => (\S+)", re.MULTILINE)
_MPICH_ABI = "12"
_NAMES = {"openmpi": "Open MPI", "mpich": "MPICH or an MPI like it"}


def other_mpi(spec: StudySpec, launch: Launch) -> str:
    """Say which MPI the launched program is linked with, and how to name it; empty if mpirun's."""
    path = shutil.which(str(launch.cwd / spec.command[0])) or shutil.which(
        spec.command[0], path=launch.env.get("PATH")
    )
    if path is None or spec.launcher.kind not in _NAMES:
        return ""
    try:
        linked = process.run_tool(["ldd", path], timeout_s=_LIMIT_S, env=launch.env).stdout
    except (OSError, TimeoutError):
        return ""
    return mismatch(linked, spec.launcher.kind)


def mismatch(linked: str, kind: str) -> str:
    """Compare what ``ldd`` printed with the kind of the launcher; empty if they agree."""
    library = _LINKED.search(linked)
    if library is None:
        return ""
    name, version, path = library.groups()
    own = "mpich" if version == _MPICH_ABI or name.startswith("libmpich") else "openmpi"
    if own == kind:
        return ""
    beside = Path(path).parent.parent / "bin" / "mpirun"
    mpirun = str(beside) if beside.exists() else "PATH"
    return (
        f"ldd shows that the program is linked with {_NAMES[own]} ({path}), and mpirun is"
        f" {'Open MPI' if kind == 'openmpi' else 'MPICH'}'s: name that MPI's own with"
        f" --mpirun {mpirun}"
    )
