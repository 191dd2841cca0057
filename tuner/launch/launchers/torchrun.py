"""PyTorch's torchrun (``python -m torch.distributed.run``), on this host."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.launch.launchers.words import interpreter_of, is_python, sets_option
from tuner.model import LauncherInfo, Value
from tuner.model.errors import UsageError
from tuner.model.wording import one_line

MODULE = "torch.distributed.run"

#: torchrun has no ``--version``, and to import torch takes seconds: only its files are looked at.
_ASK = """
import importlib.util, pathlib, runpy, sys
spec = importlib.util.find_spec("torch")
if spec is None or not spec.origin:
    sys.exit(f"there is no torch for {sys.executable}")
folder = pathlib.Path(spec.origin).parent
if not (folder / "distributed" / "run.py").is_file():
    sys.exit(f"{folder} has no torch.distributed.run (it came with torch 1.9)")
print("torchrun of torch", runpy.run_path(str(folder / "version.py"))["__version__"])
"""

#: What chooses another meeting point than the free port of this host that ``--standalone`` takes.
_MEETING = ("standalone", "rdzv", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf",
            "master-addr", "master-port", "node-rank", "local-addr")  # fmt: skip
#: What is ours to say.
_OURS = ("nnodes", "nproc-per-node")


class Torchrun:
    """torchrun, or the interpreter that runs it as a module."""

    kind = "torchrun"
    programs = ("python", "torchrun")

    def question(self, program: Path) -> tuple[str, ...]:
        """The program's Python, asked for the version of its torch."""
        python = interpreter_of(program)
        return (python, "-c", _ASK) if python else ()

    def version(self, text: str) -> str | None:
        """From ``torchrun of torch 2.13.0+cpu``, which the question prints."""
        found = re.search(r"^torchrun of torch (\S+)", text, re.MULTILINE)
        return one_line(found.group(1), 60) if found else None

    def inherited(self, environ: Mapping[str, str]) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing: its variables (``PET_…``) are for flags that we do not give."""
        return ()

    def mpi_file_names(self) -> tuple[str, ...]:
        """None: it starts no MPI."""
        return ()

    def argv(
        self,
        info: LauncherInfo,
        ranks: int,
        options: Mapping[str, Value],
        program: Sequence[str],
    ) -> tuple[str, ...]:
        """The whole command; ``program`` is no Python script, but a program of any kind.

        Raises:
            UsageError: An option that torchrun does not have, or an argument of the user's that
                says how many ranks there are.
        """
        _refuse(info, options)
        starter = (info.mpirun, "-m", MODULE) if is_python(Path(info.mpirun)) else (info.mpirun,)
        return (
            *starter,
            *(() if sets_option(_dashed(info.extra_args), *_MEETING) else ("--standalone",)),
            *info.extra_args,
            *("--nnodes", "1", "--nproc-per-node", str(ranks), "--no-python"),
            *program,
        )

    def environment(self, info: LauncherInfo) -> dict[str, str]:  # noqa: ARG002
        """Nothing: torchrun itself tells its ranks all they need."""
        return {}


def _refuse(info: LauncherInfo, options: Mapping[str, Value]) -> None:
    for option, value in options.items():
        if (option, value) != ("bind_to", "none"):
            raise UsageError(
                f"{option}={value}: torchrun has no such option; it starts ranks as they are",
                "leave this knob out, or tune it under an mpirun; --mpirun-arg"
                " --numa-binding=node binds each rank near its GPU (torch 2.9 and later)",
            )
    for name in _OURS:
        if sets_option(_dashed(info.extra_args), name):
            raise UsageError(
                f"--mpirun-arg --{name}: how many ranks torchrun starts is for tune to say",
                "give their number with --mpi-procs; they run on this host",
            )


def _dashed(args: Sequence[str]) -> list[str]:
    """Options as torchrun also takes them (``--rdzv_backend``), with dashes."""
    return [word.replace("_", "-") for word in args]
