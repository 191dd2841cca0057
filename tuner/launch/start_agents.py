"""Starts the agents on the hosts of a job, with the launcher of its launches."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence

from tuner.hosts.remote.remote_hosts import Hosts
from tuner.launch.launchers import carrier_of, in_slurm, launcher_for, once_per_host
from tuner.launch.launchers.discovery import missing_srun
from tuner.model import LauncherInfo
from tuner.model.errors import UsageError


def reach(
    info: LauncherInfo,
    names: Sequence[str],
    environ: Mapping[str, str],
    cancelled: Callable[[], bool] = lambda: False,
) -> Hosts:
    """Start an agent on each of these hosts; ``KeyboardInterrupt`` if that is cancelled.

    Inside an allocation ``srun`` starts them, beside whatever else it runs (``--overlap``), and
    they stay in its foreground: Slurm ends what is left when a step ends.

    Raises:
        TunerError: There is no such ssh, or no srun; two names are of one host; a host cannot be
            reached, or cannot be used.
    """
    if info.ssh and shutil.which(info.ssh[0], path=environ.get("PATH")) is None:
        raise UsageError(f"--ssh: there is no program {info.ssh[0]!r}", '--ssh "ssh -F config"')
    info = carrier_of(info)
    slurm = in_slurm(environ)
    if slurm and shutil.which("srun", path=environ.get("PATH")) is None:
        raise missing_srun()
    mpirun = os.path.realpath(info.mpirun)
    if info.kind == "openmpi" and not slurm and len(mpirun.split()) > 1:
        raise UsageError(
            f"{mpirun}: Open MPI cannot start ranks on other hosts if its path has a blank",
            "install it into another folder, and name that one's with --mpirun PATH",
        )

    def argv(names: Sequence[str], program: Sequence[str]) -> Sequence[str]:
        count = str(len(names))
        if slurm:
            nodes = ("--nodelist", ",".join(names), "--nodes", count, "--ntasks", count)
            # Any other distribution takes the hosts in the order of the allocation, not in ours.
            return ("srun", "--overlap", *nodes, "--distribution", "arbitrary", *program)
        return once_per_host(info, names, program)

    env = {**environ, **launcher_for(info.kind).environment(info)}
    return Hosts(names, argv, env, stays=slurm, cancelled=cancelled)
