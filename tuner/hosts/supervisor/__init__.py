"""Runs one command and ends everything that came of it.

A program of the standard library alone, started by :mod:`tuner.hosts.process` as
``python -I -S FOLDER STATUS_FD CONTROL_FD``, so that it outlives a ``kill -9`` of tune.

The control pipe carries one JSON line (argv, env, cwd, marker, parent, foreground, and where a
control group and a folder for temporary files may be made; text is bytes read as latin-1), then
single bytes: each is a signal number to hand on to the command. Its end of file means: end it
all. A signal that comes while it ends means: without waiting. The status pipe gets one JSON line
when the command has started or could not be, and one when nothing is left of it.

What may be killed: descendants of this process (a child subreaper, so nothing leaves the
tree), the members of the trial's control group, and processes that carry the trial's marker in
``/proc/PID/environ``.
"""

from __future__ import annotations

from tuner.hosts.supervisor.cgroup import Cgroup, place_for
from tuner.hosts.supervisor.cleanup import GIVE_UP_S, end_orphans, send, survivors, sweep
from tuner.hosts.supervisor.resource_cleanup import (
    abandoned,
    remove,
    remove_folder,
    shared_segments,
)
from tuner.hosts.supervisor.table import (
    MARKER,
    SUPERVISES,
    Process,
    descendants,
    is_alive,
    look_up,
    now,
    processes,
)

__all__ = [
    "GIVE_UP_S",
    "MARKER",
    "SUPERVISES",
    "Cgroup",
    "Process",
    "abandoned",
    "descendants",
    "end_orphans",
    "is_alive",
    "look_up",
    "now",
    "place_for",
    "processes",
    "remove",
    "remove_folder",
    "send",
    "shared_segments",
    "survivors",
    "sweep",
]
