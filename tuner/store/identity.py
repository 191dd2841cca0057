"""What a study belongs to: times are comparable only where all of this is the same."""

from __future__ import annotations

from typing import Any

from tuner.errors import UsageError
from tuner.model import JsonDict, StudySpec

GIB = 1 << 30

_LABELS = {
    "command": "command",
    "folder": "folder of the command's relative paths",
    "ranks": "ranks",
    "hosts": "hosts",
    "mpi": "MPI",
    "mpirun_args": "mpirun arguments",
    "objective": "objective",
    "hostname": "host",
    "cpu_model": "CPU",
    "cores": "cores",
    "affinity": "CPUs by affinity",
    "quota": "CPUs by cgroup quota",
    "memory_gib": "memory (GiB)",
    "gpus": "GPUs",
}


def identity(spec: StudySpec) -> JsonDict:
    """The parts of a study that must not change while it goes on, as plain JSON values.

    Memory is in whole GiB: kernels reserve a little more or less of it at each boot.
    """
    machine, objective = spec.machine, spec.objective
    return {
        "command": list(spec.command),
        "folder": spec.folder,
        "ranks": spec.layout.ranks,
        "hosts": list(spec.layout.hosts),
        "mpi": f"{spec.launcher.kind} {spec.launcher.version}",
        "mpirun_args": list(spec.launcher.extra_args),
        "objective": f"{objective.kind} {objective.key} in {objective.filename}",
        "hostname": machine.hostname,
        "cpu_model": machine.cpu_model,
        "cores": machine.physical_cores,
        "affinity": machine.affinity_cpus,
        "quota": machine.quota_cpus,
        "memory_gib": round(machine.memory_bytes / GIB),
        "gpus": list(machine.gpus),
    }


def difference(old: JsonDict, new: JsonDict) -> list[str]:
    """What differs, one text each: ``ranks: 8 -> 4``."""
    keys = [*new, *(key for key in old if key not in new)]
    return [
        f"{_LABELS.get(key, key)}: {_text(old.get(key))} -> {_text(new.get(key))}"
        for key in keys
        if old.get(key) != new.get(key)
    ]


def require_same(name: str, old: JsonDict, new: JsonDict) -> None:
    """Refuse to continue a study that belongs to something else.

    Raises:
        UsageError: Naming every difference.
    """
    differences = difference(old, new)
    if differences:
        raise UsageError(
            f"the study {name} was made for something else: " + "; ".join(differences),
            "Give this one a name of its own with --name NAME, or start anew with --fresh,"
            " which deletes what was measured.",
        )


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(str(item) for item in value) or "none"
    return "none" if value in {None, ""} else str(value)
