"""What can start the ranks of a trial: found on this host, and put into its own words.

Other packages add theirs by entry points of the group ``tuner.launchers``; the shipped ones
load the same way.
"""

from tuner.launch.launchers.discovery import find, missing_srun, with_carrier
from tuner.launch.launchers.kinds import (
    carrier_of,
    in_slurm,
    launcher_for,
    launchers,
    once_per_host,
    ssh_wrapper,
    wrapper_argv,
)

__all__ = [
    "carrier_of",
    "find",
    "in_slurm",
    "launcher_for",
    "launchers",
    "missing_srun",
    "once_per_host",
    "ssh_wrapper",
    "with_carrier",
    "wrapper_argv",
]
