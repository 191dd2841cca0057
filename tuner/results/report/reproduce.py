"""The command that measures a study once more, as far as options can say it. Pure."""

from __future__ import annotations

import shlex

from tuner.config.options import OPTIONS
from tuner.launch import command as templates
from tuner.launch.launchers import launcher_for
from tuner.model import CLOCK, Domain, IntRange, LauncherInfo, ObjectiveSpec, StudySpec
from tuner.model.errors import UsageError
from tuner.results.study_view import StudyView

#: What stands behind the name of a study file that comes with the tool.
_SHIPPED = " (shipped)"


def command(data: StudyView) -> str:
    """``tune …`` with what was asked for.

    A study file is named for what options cannot say: the routes of knobs, the whole job.
    Beside one all else is said too, even if it is the default: the file may say otherwise.
    """
    spec = data.spec
    file = spec.source.removesuffix(_SHIPPED) if _has_file(spec) else ""
    words = ["tune", "--mpi-procs", str(spec.layout.ranks), "--trials", str(spec.trials)]
    words += [*_option("--study", file), *_option("--name", spec.name)]
    words += _option("--storage", data.result.storage)
    words += [*_launcher(spec), *_objective(spec.objective, is_whole=bool(file))]
    words += [*_options(spec, is_whole=bool(file)), *_space(spec)]
    if not (file and spec.job):  # a job is of a file whose own command was run
        words += ["--", *spec.command]
    folder = f"cd {shlex.quote(spec.folder)} && " if spec.folder else ""
    return folder + shlex.join(words)


def _has_file(spec: StudySpec) -> bool:
    return spec.source.endswith((".toml", _SHIPPED))


def _option(name: str, value: str) -> list[str]:
    """The option with its value, in one word if that looks like an option; none without one."""
    if value.startswith("-"):
        return [f"{name}={value}"]
    return [name, value] if value else []


def _launcher(spec: StudySpec) -> list[str]:
    info = spec.launcher
    words = [*_option("--launcher", info.kind), *_option("--mpirun", info.mpirun)]
    own = info.extra_args[: len(info.extra_args) - len(_inherited(spec, info))]
    return words + [word for each in own for word in _option("--mpirun-arg", each)]


def _inherited(spec: StudySpec, info: LauncherInfo) -> tuple[str, ...]:
    """The last of the arguments, where the user's environment brings them once more."""
    try:
        brought = launcher_for(info.kind).inherited(dict(spec.environment))
    except UsageError:  # the package that brought this launcher is gone
        return ()
    return brought if brought and info.extra_args[-len(brought) :] == brought else ()


def _objective(spec: ObjectiveSpec, *, is_whole: bool) -> list[str]:
    argument = spec.pattern or ("steady" if spec.statistic == "steady" else "")
    if not argument and spec.kind != "wall" and (is_whole or spec.key != CLOCK):
        argument = spec.key
    kind = f"{spec.kind}:{argument}" if argument else spec.kind
    words = ["--objective", kind] if kind != "logreport" else []
    words += _option("--unit", spec.unit)
    words += ["--maximize"] if spec.maximize else []
    return words + _option("--log", spec.filename or "")


def _options(spec: StudySpec, *, is_whole: bool) -> list[str]:
    """The options of the table; those with their default only if ``is_whole``."""
    words: list[str] = []
    for option in OPTIONS:
        if option.field and option.key != "trials":
            value = getattr(spec, option.field)
            if value != option.default or (is_whole and value is not None):
                words += option.words(value)
    return words


def _space(spec: StudySpec) -> list[str]:
    """Every knob with its range, so that none is cut, and what was left out all the same."""
    fixed, placed = spec.fixed.as_dict(), templates.knobs_in(spec.command)
    words = [word for name, value in fixed.items() for word in ("--fix", f"{name}={value}")]
    for knob in spec.knobs:
        if knob.name not in fixed:
            words += ["--knob", f"{knob.name}={_text(knob.domain)}"]
        if knob.name in placed and knob.default is not None:
            words += ["--baseline", f"{knob.name}={knob.default}"]
    return words


def _text(domain: Domain) -> str:
    if isinstance(domain, IntRange):
        return f"{domain.low}..{domain.high}"
    return ",".join(str(value) for value in domain.values)
