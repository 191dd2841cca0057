"""MPICH and its kin (MVAPICH, Intel MPI), started by Hydra."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tuner.launch.launchers.words import Mpirun, OptionWords, options_argv
from tuner.model import LauncherInfo, Value
from tuner.model.wording import one_line

_PLACES = {"core": "core", "socket": "socket", "numa": "numa"}
_WORDS: OptionWords = {
    "bind_to": ("-bind-to", {"none": "none", **_PLACES}),
    # Hydra's slots are not in the order of anything: by core is what others call by slot.
    "map_by": ("-map-by", {"slot": "core", "socket": "socket", "numa": "numa"}),
}


class MPICH(Mpirun):
    """mpirun of MPICH: Hydra's mpiexec."""

    kind = "mpich"
    programs = ("mpirun", "mpirun.mpich", "mpiexec.hydra")

    def version(self, text: str) -> str | None:
        """From ``HYDRA build details:`` and its line ``Version: 5.0.2``, or Intel's banner."""
        found = re.search(r"HYDRA build details:\s+Version:\s+(\S+)", text)
        found = found or re.search(r"Intel\(R\) MPI Library.*Version (\S+)", text)
        return one_line(found.group(1), 60) if found else None

    def inherited(self, environ: Mapping[str, str]) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing: Hydra gets no flag from us that a variable could set."""
        return ()

    def mpi_file_names(self) -> tuple[str, ...]:
        """The file with the library's version first: ``libmpi.so`` may be a linker script."""
        return ("libmpi.so.12", "libmpich.so.12", "libmpi.so.[0-9]*", "libmpi.so")

    def argv(
        self,
        info: LauncherInfo,
        ranks: int,
        options: Mapping[str, Value],
        program: Sequence[str],
    ) -> tuple[str, ...]:
        """The whole command; Hydra takes no ``--`` before the program.

        Raises:
            UsageError: An unknown option or value, or one that the user's own arguments set.
        """
        return (
            info.mpirun,
            *options_argv(_WORDS, info, options),
            *info.extra_args,
            "-n",
            str(ranks),
            *program,
        )
