"""The command that measures a study once more, as far as options can say it. Pure."""

from __future__ import annotations

import shlex

from tuner.exporters import ExportInput
from tuner.model import CLOCK, Domain, IntRange, Knob, ObjectiveSpec, StudySpec


def command(data: ExportInput) -> str:
    """``tune …`` with what was asked for; a study file stands for all that it holds."""
    spec = data.spec
    words = ["tune", "--mpi-procs", str(spec.layout.ranks), "--trials", str(spec.trials)]
    words += ["--seed", str(spec.seed)] if spec.seed else []
    words += ["--name", spec.name]
    words += ["--storage", data.result.storage] if data.result.storage else []
    words += [word for name, value in spec.fixed.items for word in ("--fix", f"{name}={value}")]
    if spec.source.endswith(".toml"):
        words += ["--study", spec.source]
    elif not _is_shipped(spec):
        words += [*_objective(spec.objective), *_space(spec), "--", *spec.command]
    folder = f"cd {shlex.quote(spec.folder)} && " if spec.folder else ""
    return folder + shlex.join(words)


def _is_shipped(spec: StudySpec) -> bool:
    return any(word.startswith("{workloads}/") for word in spec.command)


def _objective(spec: ObjectiveSpec) -> list[str]:
    argument = spec.pattern or ("steady" if spec.statistic == "steady" else "")
    if not argument and spec.key != CLOCK:
        argument = spec.key
    kind = f"{spec.kind}:{argument}" if argument else spec.kind
    words = ["--objective", kind] if kind != "logreport" else []
    words += ["--unit", spec.unit] if spec.unit else []
    words += ["--maximize"] if spec.maximize else []
    return words + (["--log", spec.filename] if spec.filename is not None else [])


def _space(spec: StudySpec) -> list[str]:
    """Every knob with its range, so that none is cut, and what was left out all the same."""
    fixed = spec.fixed.as_dict()
    words = [
        word
        for knob in spec.knobs
        if knob.name not in fixed
        for word in ("--knob", f"{knob.name}={_text(knob.domain)}", *_default(knob))
    ]
    if spec.oversubscription is not None:
        words += ["--oversubscribe", f"{spec.oversubscription:g}"]
    return words


def _default(knob: Knob) -> list[str]:
    return ["--default", f"{knob.name}={knob.default}"] if knob.default is not None else []


def _text(domain: Domain) -> str:
    if isinstance(domain, IntRange):
        return f"{domain.low}..{domain.high}"
    return ",".join(str(value) for value in domain.values)
