"""How each ssh of a launcher has ended: a launcher's own exit code may hide the loss of a host.

``ssh_wrapper.sh`` tells it by the names of files in a folder of the launch: ``HOST`` once ssh runs,
``HOST=STATUS`` once it has ended. Nothing is read but names: a program could plant anything else.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tuner.model.wording import one_line

#: From here on a status is not the MPI daemon's own: a signal (of a shell), or an error of ssh.
_FROM_OUTSIDE = 128


def connections_folder(folder: Path) -> Path:
    """Return the folder, in that of the launch, in which ``ssh_wrapper.sh`` leaves the names."""
    return folder.absolute() / "connections"


def statuses(folder: Path) -> dict[str, int | None]:
    """Return the exit status of the ssh to each host, ``None`` for one that has not ended."""
    by_host: dict[str, int | None] = {}
    with suppress(OSError):
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 (called ten times a second)
            host, _, status = name.partition("=")
            by_host[one_line(host)] = int(status) if status.isdecimal() else None
    return by_host


def lost(statuses: dict[str, int | None], code: int | None = None) -> str:
    """Say which host is lost, by the launcher's exit code; empty if none is.

    Args:
        statuses: Those of the launcher's ssh.
        code: ``None`` while the launcher runs. After 0, each ssh must have ended with 0 too. After
            another one, the daemon on a host may end with an error for its program's sake.
    """
    for host, status in statuses.items():
        if status and (not code or status > _FROM_OUTSIDE):
            return f"the host {host} is lost: ssh to it ended with exit code {status}"
    running = [host for host, status in statuses.items() if status is None]
    if running and code == 0:
        return f"a host is lost: the launcher ended before its ssh to {', '.join(running)} did"
    return ""
