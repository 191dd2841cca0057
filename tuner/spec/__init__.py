"""One :class:`StudySpec` out of the command line, the study file and the machine.

The command line wins over the study file, and that over the defaults.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tuner import command as templates
from tuner import price
from tuner.applies import Host
from tuner.found import Found, look
from tuner.machine import this_machine
from tuner.model import LauncherInfo, Layout, Live, Machine, StudySpec
from tuner.secrets import recorded_environment
from tuner.spec import checks, naming, program, selection
from tuner.spec.applying import applying
from tuner.spec.limits import limits, whole
from tuner.spec.objective import objective

if TYPE_CHECKING:
    from tuner.study_file import StudyFile

#: Ranks where nothing says how many and there is no GPU: the fewest that exchange anything.
DEFAULT_RANKS = 2


class WantedLauncher(NamedTuple):
    """What is asked for of what starts the ranks; ``None``: nothing."""

    mpirun: str | None = None
    kind: str | None = None
    args: tuple[str, ...] = ()


#: (what is asked for, path of the program, environment) -> the mpirun.
FindLauncher = Callable[[WantedLauncher, str, Mapping[str, str]], LauncherInfo]


@dataclass(frozen=True)
class RunOptions:
    """What was typed; ``None`` or empty where it was not. Knobs as ``NAME=DOMAIN`` or ``NAME``."""

    ranks: int | None = None
    trials: int | None = None
    knobs: tuple[str, ...] = ()
    all_knobs: bool = False
    fixes: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    name: str | None = None
    mpirun: str | None = None
    launcher: str | None = None
    mpirun_args: tuple[str, ...] = ()
    seed: int | None = None
    trial_limit_s: float | None = None
    stall_limit_s: float | None = None  # infinity: none
    budget_s: float | None = None
    until: float | None = None
    precision: float | None = None
    oversubscribe: float | None = None
    confirm: bool | None = None
    warm_ups: int | None = None
    live: Live | None = None
    objective: str | None = None  # KIND[:ARG]
    log: str | None = None
    unit: str | None = None
    maximize: bool | None = None
    items: float | None = None
    price_per_hour: float | None = None


def find_launcher(
    wanted: WantedLauncher, program_path: str, environ: Mapping[str, str]
) -> LauncherInfo:
    """The mpirun of this host (:func:`tuner.launchers.find`)."""
    from tuner import launchers

    return launchers.find(
        wanted.mpirun, wanted.args, kind=wanted.kind, program=program_path, environ=environ
    )


def build_spec(
    *,
    file: StudyFile | None,
    source: str,
    command: Sequence[str] | None,
    options: RunOptions,
    environ: Mapping[str, str],
    cwd: Path,
    machine: Machine | None = None,
    found: Found | None = None,
    find: FindLauncher = find_launcher,
) -> StudySpec:
    """Merge and check everything that is asked for.

    Args:
        file: The study file, if any; ``command`` replaces its command, job and name.
        source: How the user knows the file, for messages and the record.
        command: The words after ``--``; ``None`` where none were typed.
        options: The options before it.
        environ: Where programs and mpirun are looked up.
        cwd: What relative paths count from.
        machine: This host; ``None`` looks.
        found: What it has besides; ``None`` looks.
        find: How mpirun is found.

    Raises:
        UsageError: The first thing that is wrong, with its place and the next step.
    """
    from tuner.study_file.schema import StudyFile

    typed = command is not None
    file = file or StudyFile()
    template = _template(command, file, source)
    job = file.job if file.job and not typed else ()
    machine = machine or this_machine(environ=environ)
    checks.gpus(template, machine.gpus, source)
    layout = Layout(whole("--mpi-procs", options.ranks, file.mpi_procs, _ranks(machine)))
    chosen = selection.select(file, options, template, typed=typed)
    figures = limits(options, file, chosen.own - chosen.fixed.as_dict().keys())
    selection.check_job(job, chosen, source)
    spec, reader = objective(options, file)
    price.check(spec, figures["items"], figures["price_per_hour"])
    if reader.needs_out:
        checks.has_out(template, source)
    program_path = program.check(template, environ=environ, cwd=cwd)
    used = templates.placeholders((*template, *job))
    launcher = find(_wanted(options, file), program_path, environ)
    checks.launcher_arguments(launcher, layout)
    if figures["live"] == "on":
        checks.live(spec, launcher, environ, source)
    host = Host(machine, layout, launcher, found or look(environ))
    knobs, left_out = applying(chosen, host)
    return StudySpec(
        name=_name(options, None if typed else file.name, template, layout),
        command=program.resolved(template, template[0], program_path),
        launcher=launcher,
        layout=layout,
        machine=machine,
        knobs=knobs,
        fixed=chosen.fixed,
        job=program.resolved(job, template[0], program_path),
        objective=spec,
        left_out=left_out,
        source=source,
        folder=program.folder_of(template, job, cwd),
        interpreter=sys.executable if "python" in used else "",
        environment=tuple(recorded_environment(environ).items()),
        **figures,
    )


def _ranks(machine: Machine) -> int:
    """One rank a GPU; two where there is none."""
    return len(machine.gpus) or DEFAULT_RANKS


def _wanted(options: RunOptions, file: StudyFile) -> WantedLauncher:
    """A path that is typed wins over a kind in the file, and a kind over a path."""
    typed = options.mpirun is not None or options.launcher is not None
    chosen = options if typed else file
    args = options.mpirun_args or file.mpirun_args
    return WantedLauncher(chosen.mpirun, chosen.launcher, args)


def _template(command: Sequence[str] | None, file: StudyFile, source: str) -> tuple[str, ...]:
    words = tuple(command) if command is not None else file.command or ()
    checks.is_command(words, "after --" if command is not None else f"in {source}")
    return words


def _name(options: RunOptions, filed: str | None, template: Sequence[str], layout: Layout) -> str:
    """The study's name: as typed, else the file's or the program's with the ranks."""
    if options.name is not None:
        name, place = options.name, "--name"
    else:
        stem = filed or program.stem(template)
        name, place = f"{stem}-n{layout.ranks}", "name"
    return naming.check_name(name, place)
