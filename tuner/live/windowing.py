"""Where no running job can measure many settings, as far as a study says before it starts. Pure.

A window of a running job shows the pace of its iterations, so the figure must follow from that.
And rank 0 must be on this host: it is spoken to by a socket in the launch's folder.
"""

from __future__ import annotations

from collections.abc import Mapping

from tuner.launch.hang_detector import may_be_elsewhere
from tuner.model import LauncherInfo, ObjectiveSpec


def why_cold(objective: ObjectiveSpec, launcher: LauncherInfo, environ: Mapping[str, str]) -> str:
    """Why each setting needs a launch of its own; empty where nothing speaks against windows.

    Args:
        objective: What is compared.
        launcher: What starts the ranks.
        environ: Its environment.
    """
    if objective.clock == "wall":
        return "the objective wall is the time of a whole launch, with its start"
    if objective.clock == "none":
        what = f"{objective.kind}:{objective.key}" if objective.kind == "logreport" else ""
        return f"of the objective {what or objective.kind} a part of a run tells nothing"
    if may_be_elsewhere(launcher.extra_args, environ):
        return "the ranks may run on other hosts"
    return ""
