"""One :class:`StudySpec` out of the command line, the study file and the machine.

The command line wins over the study file, and that over the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tuner.config.applies import Host
from tuner.config.spec import checks, naming, program, selection
from tuner.config.spec.applying import applying
from tuner.config.spec.limits import Limits, limits, whole
from tuner.config.spec.objective import objective
from tuner.config.spec.options import RunOptions
from tuner.config.spec.starting import FindLauncher, WantedLauncher, find_launcher, wanted
from tuner.hosts.features import Found, look
from tuner.hosts.machine import this_machine
from tuner.launch.secrets import recorded_environment
from tuner.model import Layout, Machine, ObjectiveSpec, StudySpec, price

if TYPE_CHECKING:
    from tuner.config.study_file import StudyFile

__all__ = ["RunOptions", "WantedLauncher", "build_spec"]

#: Ranks where nothing says how many and there is no GPU: the fewest that exchange anything.
DEFAULT_RANKS = 2


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
    from tuner.config.study_file.schema import StudyFile

    asked = _asked(file or StudyFile(), source, command, options)
    template = asked.template
    machine = machine or this_machine(environ=environ)
    checks.gpus(template, machine.gpus, source)
    layout = Layout(whole("--mpi-procs", options.ranks, asked.file.mpi_procs, _ranks(machine)))
    chosen = selection.select(asked.file, options, template, typed=asked.typed)
    figures = limits(options, asked.file, chosen.own - chosen.fixed.as_dict().keys())
    selection.check_job(asked.job, chosen, source)
    spec = _objective(asked, figures)
    path = program.check(template, environ=environ, cwd=cwd)
    launcher = find(wanted(options, asked.file), path, environ)
    checks.launcher_arguments(launcher, layout)
    if figures["live"] == "on":
        checks.live(spec, launcher, environ, source)
    host = Host(machine, layout, launcher, found or look(environ))
    knobs, left_out = applying(chosen, host)
    return StudySpec(
        name=_name(asked, layout),
        launcher=launcher,
        layout=layout,
        machine=machine,
        knobs=knobs,
        fixed=chosen.fixed,
        objective=spec,
        left_out=left_out,
        source=source,
        environment=tuple(recorded_environment(environ).items()),
        **program.fields(template, asked.job, path, cwd),
        **figures,
    )


class _Asked(NamedTuple):
    """What is asked for, by the command line and the study file."""

    file: StudyFile
    source: str
    options: RunOptions
    typed: bool  # the command stands on the command line
    template: tuple[str, ...]
    job: tuple[str, ...]


def _asked(
    file: StudyFile, source: str, command: Sequence[str] | None, options: RunOptions
) -> _Asked:
    typed = command is not None
    template = tuple(command) if command is not None else file.command or ()
    checks.is_command(template, "after --" if typed else f"in {source}")
    job = file.job if file.job and not typed else ()
    return _Asked(file, source, options, typed, template, job)


def _objective(asked: _Asked, figures: Limits) -> ObjectiveSpec:
    """How the figure is read, which the command and what is to be said of it must allow."""
    spec, reader = objective(asked.options, asked.file)
    price.check(spec, figures["items"], figures["price_per_hour"])
    if reader.needs_out:
        checks.has_out(asked.template, asked.source)
    return spec


def _ranks(machine: Machine) -> int:
    """One rank a GPU; two where there is none."""
    return len(machine.gpus) or DEFAULT_RANKS


def _name(asked: _Asked, layout: Layout) -> str:
    """The study's name: as typed, else the file's or the program's with the ranks."""
    if asked.options.name is not None:
        return naming.check_name(asked.options.name, "--name")
    filed = None if asked.typed else asked.file.name
    stem = filed or program.stem(asked.template)
    return naming.check_name(f"{stem}-n{layout.ranks}", "name")
