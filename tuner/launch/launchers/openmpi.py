"""Open MPI 4 and 5."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence

from tuner.launch.launchers.words import Mpirun, OptionWords, options_argv
from tuner.model import LauncherInfo, Value
from tuner.model.wording import one_line

#: Ranks often share cores here, which Open MPI refuses without this word.
_WORDS: OptionWords = {
    "bind_to": (
        "--bind-to",
        {
            "none": "none",
            "core": "core:overload-allowed",
            "socket": "socket:overload-allowed",
            "numa": "numa:overload-allowed",
        },
    ),
    "map_by": ("--map-by", {"slot": "slot", "socket": "socket", "numa": "numa"}),
}
#: The component costs 1.0 s of MPI_Init in the wheels and serves one-sided calls over a
#: fabric only; naming it on a system without it is harmless.
_NO_OFI = ("--mca", "btl", "^ofi")


class OpenMPI(Mpirun):
    """mpirun of Open MPI."""

    kind = "openmpi"
    programs = ("mpirun", "mpirun.openmpi")

    def version(self, text: str) -> str | None:
        """From ``mpirun (Open MPI) 5.0.11``; Debian's says ``mpirun.openmpi (OpenRTE) 4.1.4``."""
        found = re.search(r"\((?:Open MPI|OpenRTE)\) (\S+)", text)
        return one_line(found.group(1), 60) if found else None

    def inherited(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """The user's ``OMPI_MCA_btl``, which our own choice of components would override."""
        chosen = environ.get("OMPI_MCA_btl")
        return ("--mca", "btl", chosen) if chosen else ()

    def mpi_file_names(self) -> tuple[str, ...]:
        """The file with the library's version first: ``libmpi.so`` may be a linker script."""
        return ("libmpi.so.40", "libmpi.so.[0-9]*", "libmpi.so")

    def argv(
        self,
        info: LauncherInfo,
        ranks: int,
        options: Mapping[str, Value],
        program: Sequence[str],
    ) -> tuple[str, ...]:
        """The whole command.

        Raises:
            UsageError: An unknown option or value, or one that the user's own arguments set.
        """
        root = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
        return (
            info.mpirun,
            *root,
            "--oversubscribe",
            *options_argv(_WORDS, info, options),
            *(() if _chooses_btl(info.extra_args) else _NO_OFI),
            *info.extra_args,
            "-n",
            str(ranks),
            *program,
        )


def _chooses_btl(args: Sequence[str]) -> bool:
    """Whether the user's arguments name byte transfer layers: a second list is an error."""
    return any(
        option.lstrip("-") in {"mca", "gmca", "omca"} and name == "btl"
        for option, name in itertools.pairwise(args)
    )
