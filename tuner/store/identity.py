"""The identity of a study: times are comparable only if all its parts are the same."""

from __future__ import annotations

import os

from tuner.launch import command
from tuner.launch.secrets import redact_spec
from tuner.model import ANY_HOST, JsonDict, ObjectiveSpec, StudySpec
from tuner.model.errors import UsageError

#: Names of parts: two that are tables themselves, and those that other modules need.
ROUTES, ENVIRONMENT, HOST, DEFAULTS = "routes", "environment", "hostname", "command of the defaults"
PROGRAMS, FOLDER = "programs", "folder that the command runs in"


def identity(spec: StudySpec) -> JsonDict:
    """Return the parts of a study that must not change while it goes on, as plain JSON values.

    Their names are those that a user is shown. Memory is in whole GiB: kernels reserve a little
    more or less of it at each boot. Secrets are left out: a new password does not make another
    study.
    """
    spec = redact_spec(spec, os.environ)
    machine, launcher, layout = spec.machine, spec.launcher, spec.layout
    # Placeholders that differ by launch stay as they are written.
    texts = {name: f"{{{name}}}" for name in command.RESERVED}
    texts |= {k.name: str(k.default) for k in spec.knobs if k.default is not None}
    hosts = [f"{ANY_HOST if spec.hosts_from else name}:{ranks}" for name, ranks in layout.slots]
    placed = command.knobs_in(spec.command)
    digest = f" (SHA-256 {spec.input_digest[:12]}…)" if spec.input_digest else ""
    return {
        "command": list(spec.command),
        DEFAULTS: list(command.substitute(spec.command, texts)),
        PROGRAMS: dict(spec.programs),
        ROUTES: {
            k.name: f"{{{k.name}}} in the command" if k.name in placed else k.way_to_program
            for k in spec.knobs
        },
        "prepare": list(spec.prepare),
        "wait_for_children": spec.wait_for_children,
        **({"standard input": spec.input + digest} if spec.input else {}),
        FOLDER: spec.folder,
        "interpreter": spec.interpreter,
        "ranks": layout.ranks,
        **({"global batch": spec.global_batch} if spec.global_batch else {}),
        "hosts": list(layout.hosts) if layout.is_local else hosts,
        "MPI": f"{launcher.kind} {launcher.version}",
        "mpirun": launcher.mpirun,
        "MPI library": launcher.libmpi,
        "mpirun arguments": list(launcher.extra_args),
        "objective": _objective(spec.objective),
        HOST: machine.hostname,
        "CPU": machine.cpu_model,
        "cores": machine.physical_cores,
        "CPUs by affinity": machine.affinity_cpus,
        "CPUs by cgroup quota": machine.quota_cpus,
        "memory (GiB)": round(machine.memory_bytes / 2**30),
        "GPUs": list(machine.gpus),
        ENVIRONMENT: dict(spec.environment),
    }


def _objective(spec: ObjectiveSpec) -> str:
    """Return all of an objective that changes the figure, in words."""
    texts = [spec.kind]
    if spec.traits.argument == "pattern":
        texts.append(f"{spec.pattern} in {spec.filename}" if spec.filename else spec.pattern)
    elif spec.traits.has_log:
        texts.append(f"{spec.key} in {spec.log}")
    text = " ".join(texts)
    text += ", steady state" if spec.statistic == "steady" else ""
    text += f", loss in {spec.loss_key}" if spec.loss_key else ""
    text += f", in {spec.unit}" if spec.unit else ""
    return text + (", more is better" if spec.maximize else "")


def difference(old: JsonDict, new: JsonDict) -> list[str]:
    """Return what differs, one text each: ``ranks: 8 -> 4``.

    Only a knob that both sides have can differ in its route, and so it is with a program's file.
    """
    olds, news = _texts(old), _texts(new)
    if olds.get("command") != news.get("command"):  # then that of the defaults differs as well
        for texts in (olds, news):
            texts.pop(DEFAULTS, None)
    return [
        f"{label}: {olds.get(label, 'none')} -> {news.get(label, 'none')}"
        for label in [*news, *(label for label in olds if label not in news)]
        if olds.get(label, "none") != news.get(label, "none")
        and (not label.startswith((_ROUTE, _FILE)) or (label in olds and label in news))
    ]


_ROUTE, _FILE = "route of ", "file "


def _texts(identity: JsonDict) -> dict[str, str]:
    """Return each part as a text by its label, as a user is shown them."""
    texts: dict[str, str] = {}
    for key, value in identity.items():
        if isinstance(value, dict):
            prefix = {ROUTES: _ROUTE, PROGRAMS: _FILE}.get(key, "")
            texts |= {f"{prefix}{name}": str(value[name]) for name in sorted(value)}
        else:
            words = value if isinstance(value, list) else [] if value is None else [value]
            texts[key] = " ".join(map(str, words)) or "none"
    return texts


def require_same(spec: StudySpec, old: JsonDict) -> None:
    """Refuse to continue a study with another identity; the error lists every difference."""
    name, new = spec.name, identity(spec)
    if spec.same_program:
        new[PROGRAMS] = {}
    if differences := difference(old, new):
        text = f"the stored study {name} differs from what was typed: " + "; ".join(differences)
        hint = f"to keep both, add --name {name}-2; to replace the stored one, add --fresh,"
        hint += " which deletes its measurements"
        if all(line.startswith(_FILE) for line in differences):
            files = ", ".join(line[len(_FILE) :].rpartition(": ")[0] for line in differences)
            text = f"you edited {files} since the study {name} began: it has measured the old one"
            hint += "\nif the edit does not bear on its times, add --same-program"
        raise UsageError(text, hint)
