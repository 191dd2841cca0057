"""What can start the ranks of a trial: found on this host, and put into its own words.

Other packages add theirs by entry points of the group ``tuner.launchers``; the shipped ones
load the same way.
"""

from tuner.launch.launchers.discovery import VARIABLE, find
from tuner.launch.launchers.kinds import (
    GROUP,
    Launcher,
    in_slurm,
    launcher_for,
    launchers,
    ssh_wrapper,
    wrapper_argv,
)

__all__ = [
    "GROUP",
    "VARIABLE",
    "Launcher",
    "find",
    "in_slurm",
    "launcher_for",
    "launchers",
    "ssh_wrapper",
    "wrapper_argv",
]
