"""PyTorch's torchrun (``python -m torch.distributed.run``), on this host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tuner.launch.launchers.base import Launcher, sets_option
from tuner.launch.launchers.discovery import interpreter_of, is_python
from tuner.model import LauncherInfo, Value
from tuner.model.errors import UsageError

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

#: What chooses another rendezvous than the free port of this host that ``--standalone`` takes.
_RENDEZVOUS = ("standalone", "rdzv", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf",
               "master-addr", "master-port", "node-rank", "local-addr")  # fmt: skip


class Torchrun(Launcher):
    """torchrun, or the interpreter that runs it as a module."""

    kind = "torchrun"
    programs = ("python", "torchrun")
    versions = (r"(?m)^torchrun of torch (\S+)",)

    def question(self, program: Path) -> tuple[str, ...]:
        """The program's Python, asked for the version of its torch."""
        python = interpreter_of(program)
        return (python, "-c", _ASK) if python else ()

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
        for option, value in options.items():
            if (option, value) != ("bind_to", "none"):
                raise UsageError(
                    f"{option}={value}: torchrun has no such option; it starts ranks as they are",
                    "leave this knob out, or tune it under an mpirun; --mpirun-arg"
                    " --numa-binding=node binds each rank near its GPU (torch 2.9 and later)",
                )
        # torchrun also takes ``--rdzv_backend``.
        dashed = [word.replace("_", "-") for word in info.extra_args]
        if sets_option(dashed, "nnodes", "nproc-per-node"):
            raise UsageError(
                f"--mpirun-arg {' '.join(dashed)}: how many ranks torchrun starts is for tune to"
                " say",
                "give their number with --mpi-procs; they run on this host",
            )
        starter = (info.mpirun, "-m", MODULE) if is_python(Path(info.mpirun)) else (info.mpirun,)
        return (
            *starter,
            *(() if sets_option(dashed, *_RENDEZVOUS) else ("--standalone",)),
            *info.extra_args,
            *("--nnodes", "1", "--nproc-per-node", str(ranks), "--no-python"),
            *program,
        )
