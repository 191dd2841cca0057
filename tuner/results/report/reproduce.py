"""The command that measures a study once more, as far as options can say it. Pure."""

from __future__ import annotations

import shlex
from decimal import Decimal

from tuner.config.spec.limits import (
    DEFAULT_LIVE,
    DEFAULT_PRECISION,
    DEFAULT_STALL_LIMIT_S,
    DEFAULT_UNTIL,
    DEFAULT_WARM_UPS,
)
from tuner.launch import command as templates
from tuner.launch.launchers import launcher_for
from tuner.model import CLOCK, Domain, IntRange, LauncherInfo, ObjectiveSpec, StudySpec
from tuner.model.errors import UsageError
from tuner.results.exporters import StudyView

#: What stands behind the name of a study file that comes with the tool.
_SHIPPED = " (shipped)"


def command(data: StudyView) -> str:
    """``tune …`` with what was asked for.

    A study file is named for what options cannot say: the routes of knobs, the whole job.
    Beside one all else is said too, even where it is the default: the file may say otherwise.
    """
    spec = data.spec
    file = spec.source.removesuffix(_SHIPPED) if _has_file(spec) else ""
    words = ["tune", "--mpi-procs", str(spec.layout.ranks), "--trials", str(spec.trials)]
    words += [*_option("--study", file), *_option("--name", spec.name)]
    words += _option("--storage", data.result.storage)
    words += [*_launcher(spec), *_objective(spec.objective, is_whole=bool(file))]
    words += [*_limits(spec, is_whole=bool(file)), *_space(spec)]
    if not (file and spec.job):  # a job is of a file whose own command was run
        words += ["--", *spec.command]
    folder = f"cd {shlex.quote(spec.folder)} && " if spec.folder else ""
    return folder + shlex.join(words)


def _has_file(spec: StudySpec) -> bool:
    return spec.source.endswith((".toml", _SHIPPED))


def _option(name: str, value: str) -> list[str]:
    """The option with its value, in one word where that looks like an option; none without one."""
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
        brought = launcher_for(info).inherited(dict(spec.environment))
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


def _limits(spec: StudySpec, *, is_whole: bool) -> list[str]:
    """How much is measured, and how that is counted; defaults only where ``is_whole``."""
    stall_s = spec.stall_limit_s
    said: list[tuple[str, str, bool]] = [
        ("--seed", str(spec.seed), spec.seed != 0),
        ("--warm-ups", str(spec.warm_ups), spec.warm_ups != DEFAULT_WARM_UPS),
        ("--live", spec.live, spec.live != DEFAULT_LIVE),
        ("--until", _per_cent(spec.until), spec.until != DEFAULT_UNTIL),
        ("--precision", _per_cent(spec.precision), spec.precision != DEFAULT_PRECISION),
        (
            "--stall-limit",
            "none" if stall_s is None else f"{_number(stall_s)}s",
            stall_s != DEFAULT_STALL_LIMIT_S,
        ),
    ]
    words = [word for name, text, is_own in said if is_whole or is_own for word in (name, text)]
    words += [] if spec.confirm and not is_whole else [_CONFIRM[spec.confirm]]
    amounts = (
        ("--trial-limit", spec.trial_limit_s, "s"),
        ("--budget", spec.budget_s, "s"),
        ("--oversubscribe", spec.oversubscription, ""),
        ("--items", spec.items, ""),
        ("--price-per-hour", spec.price_per_hour, ""),
    )
    return words + [
        word
        for name, value, unit in amounts
        if value is not None
        for word in (name, f"{_number(value)}{unit}")
    ]


_CONFIRM = {True: "--confirm", False: "--no-confirm"}


def _number(value: float) -> str:
    """Every digit of it, without an exponent."""
    return format(Decimal(repr(value).removesuffix(".0")), "f")


def _per_cent(share: float) -> str:
    return f"{_number(float(f'{100 * share:.12g}'))}%"


def _space(spec: StudySpec) -> list[str]:
    """Every knob with its range, so that none is cut, and what was left out all the same."""
    fixed, placed = spec.fixed.as_dict(), templates.knobs_in(spec.command)
    words = [word for name, value in fixed.items() for word in ("--fix", f"{name}={value}")]
    for knob in spec.knobs:
        if knob.name not in fixed:
            words += ["--knob", f"{knob.name}={_text(knob.domain)}"]
        if knob.name in placed and knob.default is not None:
            words += ["--default", f"{knob.name}={knob.default}"]
    return words


def _text(domain: Domain) -> str:
    if isinstance(domain, IntRange):
        return f"{domain.low}..{domain.high}"
    return ",".join(str(value) for value in domain.values)
