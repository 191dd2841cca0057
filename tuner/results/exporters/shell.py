"""``sh``, ``env`` and ``args``: the best setting for a shell, as a whole job or as its parts.

Every word is quoted, so that nothing in a value is ever interpreted. In the script ``env`` has the
place of the trials' wrapper script; both only change the environment of the ranks. A secret of the
command was never stored: the script takes it from the environment, and says so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping

from tuner.launch import render
from tuner.launch.launchers import launcher_for
from tuner.launch.secrets import HIDDEN
from tuner.model import Env, Flag, LauncherInfo, Layout, Route, wording
from tuner.model.errors import UsageError
from tuner.model.wording import one_line
from tuner.results import claims
from tuner.results.exporters import Export
from tuner.results.study_view import StudyView

#: Stands for the output folder until the words are quoted: no argv can hold a NUL.
_OUT = "\0out\0"
#: The same for the hosts.
_HOSTS = "\0hosts\0"

#: Letters that mean themselves to a POSIX shell in an assignment and to docker. ``~`` is not
#: among them (expanded at the start and after ``:``), nor is anything outside ASCII.
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=-]*")


def header(data: StudyView) -> list[str]:
    """Say which study, machine and measurement an export stands for, one fact a line."""
    spec, machine = data.spec, data.spec.machine
    cores, ranks = wording.count(machine.cores, "core"), wording.ranks(spec.layout)
    lines = [
        f"study:    {spec.name} ({ranks}, {wording.launcher(spec.launcher)})",
        f"machine:  {machine.hostname}, {cores}, {machine.cpu_model}",
        f"setting:  {data.handed_over}",
        f"measured: {claims.comparison(data.result)}",
    ]
    return [one_line(line, most=None) for line in lines]


def comment(data: StudyView) -> str:
    """Write the comments at the top of a file: what it runs, and what that rests on."""
    with_which = "with the fastest setting that `tune` found"
    if data.keeps_defaults:
        is_proven = data.result.conclusion is not None
        yet = "found nothing faster" if is_proven else "has found nothing faster yet, unconfirmed"
        with_which = f"with your defaults: `tune` {yet}"
    title = f"The whole job {with_which}. Needs no tune to run."
    return "".join(f"# {line}\n" for line in (title, *header(data)))


def missing(warnings: Iterable[str]) -> str:
    """Write the comments that say what is not in such a file."""
    return "".join(f"# not in this file: {one_line(warning, most=None)}\n" for warning in warnings)


def environment(data: StudyView) -> Export:
    """Write the assignments, one a line, for ``set -a; . FILE`` and ``docker --env-file``.

    The two read a line differently: a shell strips quotes and expands ``$``, docker takes all of
    it as it stands. So only values that need no quoting are written. What an environment cannot
    carry is said in comments.

    Raises:
        UsageError: A value that is not the same to a shell and to docker.
    """
    unset, assignments = render.assignments(data.spec, data.best_setting)
    for name, value in assignments.items():
        if not _PLAIN.fullmatch(value):
            raise UsageError(
                f"{name}={value!r} cannot be written so that a shell and docker read the same",
                "use --format sh, or json",
            )
    unsettable = (f"an environment file cannot unset {name}" for name in unset)
    warnings = (*unsettable, *not_carried(data, "an environment", Env))
    text = "".join(f"# {line}\n" for line in header(data))
    text += "# use: set -a; . ./FILE; set +a    or: docker run --env-file FILE IMAGE\n"
    text += missing(warnings)
    text += "".join(f"{name}={value}\n" for name, value in assignments.items())
    return Export(text=text, warnings=warnings)


def arguments(data: StudyView) -> Export:
    """Write the part of the setting that reaches the program by argument, on one line."""
    words = render.arguments(data.spec, data.best_setting)
    hidden = any(HIDDEN in word for word in words)
    secret = (f"{HIDDEN} stands for a secret, which is not stored",) if hidden else ()
    others = not_carried(data, "arguments", Flag)
    return Export(text=shlex.join(words) + "\n", warnings=(*others, *secret))


def not_carried(data: StudyView, form: str, carries: type[Route]) -> tuple[str, ...]:
    """Warn of each knob of the best setting that does not go by the one route of a format.

    ``form`` is what the format writes: ``arguments``, ``an environment``.
    """
    values = data.best_setting.as_dict()
    return tuple(
        f"{form} cannot carry {one_line(f'{knob.name}={values[knob.name]}', None)}"
        for knob in data.spec.knobs
        if knob.name in values and not isinstance(knob.route, carries)
    )


def script(data: StudyView) -> Export:
    """Write a POSIX script that runs the whole job without this tool.

    Its first argument, or ``OUT``, is the folder for the job's output; further ones go to the job.
    ``HOSTS`` names other hosts (``h1:4,h2:4``) for an mpirun.
    """
    return job_script(data, hosts=f"${{HOSTS:-{data.spec.layout.listed}}}")


def job_script(
    data: StudyView,
    *,
    hosts: str = "",
    run_by: str = "sh",
    head: str = "",
    exports: Mapping[str, str] | None = None,
    names_nodes: bool = True,
    info: LauncherInfo | None = None,
    run: Callable[[str], str] | None = None,
) -> Export:
    """Write the same for another shell or scheduler, to which ``run_by`` gives it.

    ``hosts`` is the value of ``HOSTS`` in the shell's syntax, ``head`` are comments after the first
    line, ``exports`` more variables. ``names_nodes``: srun is told on which nodes it runs. ``info``
    is the launcher, if not the study's own. ``run`` makes of the command the lines that run it
    elsewhere than here; ``OUT`` is absolute then.
    """
    spec, info = data.spec, info or data.spec.launcher
    argv, prefix, job = job_parts(data, info, spec.layout)
    if not names_nodes and "--nodelist" in argv:
        place = argv.index("--nodelist")
        argv = (*argv[:place], *argv[place + 2 :])
    use, prepare = f"{run_by} FILE [ARGUMENT ...]", ""
    if spec.layout.listed in argv:  # srun and torchrun say it otherwise
        argv = tuple(_HOSTS if word == spec.layout.listed else word for word in argv)
        prepare = f"HOSTS={hosts}\n"
    secrets = Secrets()
    lines = [" ".join(map(secrets.quote, part)) for part in (argv, prefix, job)]
    command = " \\\n  ".join(filter(None, lines))
    environment = launcher_for(info.kind).environment(info)
    variables = "".join(
        f"export {name}={shlex.quote(value)}\n"
        for name, value in sorted({**environment, **(exports or {})}.items())
    )
    read = f"exec <{shlex.quote(spec.input)}\n" if spec.input else ""
    enter = f"cd -- {shlex.quote(spec.folder)}\n" if spec.folder and run is None else ""
    if any(_OUT in word for word in job):
        use = f"{run_by} FILE [OUTPUT_FOLDER [ARGUMENT ...]]"
        # Named for the study; never a name that looks like an option.
        folder = "./" + re.sub(r"[^\w.-]", "_", spec.name) + "-out"
        prepare += f'OUT=${{1:-${{OUT:-{shlex.quote(folder)}}}}}\nmkdir -p -- "$OUT"\n'
        prepare += "[ $# -eq 0 ] || shift\n"
        if spec.folder or run is not None:  # it runs elsewhere than the folder is
            prepare += "case $OUT in /*) ;; *) OUT=$PWD/$OUT ;; esac\n"
    last = f'exec {command} "$@"' if run is None else run(command)
    text = f"""#!/bin/sh
{head}{comment(data)}# use:      {use}
set -eu
{secrets.checks()}
{prepare}{enter}{variables}{read}{last}
"""
    return Export(text=text, executable=True)


def job_parts(
    data: StudyView, info: LauncherInfo, layout: Layout
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the words of the launcher, of ``env`` with the setting (maybe none), and of a rank."""
    spec, launcher = data.spec, launcher_for(info.kind)
    template = spec.job or spec.command
    job = render.program_argv(spec, data.best_setting, out=_OUT, template=template)
    if "=" in job[0] or job[0].startswith("-"):
        # env would take such a program for one more assignment, or for an option
        job = ("sh", "-c", 'exec "$@"', "sh", *job)
    unset, assignments = render.assignments(spec, data.best_setting, template)
    if not layout.is_local:  # ssh carries no variable to other hosts
        assignments |= launcher.environment(info)
    changes = [word for name in unset for word in ("-u", name)]
    changes += [f"{name}={value}" for name, value in assignments.items()]
    prefix = ("env", *changes) if changes else ()
    options = render.launcher_options(spec, data.best_setting)
    argv = launcher.argv(info, layout, options, (*prefix, *job))
    return argv[: len(argv) - len(prefix) - len(job)], prefix, job


class Secrets:
    """Quotes the words of the command, and remembers which of them were not stored.

    ``reference`` is the value of the variable ``{}``.
    """

    def __init__(
        self, literal: Callable[[str], str] = shlex.quote, reference: str = '"${}"'
    ) -> None:
        self._literal, self._reference = literal, reference
        #: What each secret is for, as far as it may be said, by the variable that holds it.
        self.purposes: dict[str, str] = {}
        self._before = ""

    def quote(self, word: str) -> str:
        """Quote a word; the output folder and the variables of secrets take their places in it."""
        if word == _HOSTS:
            return '"$HOSTS"'
        quoted = self._reference.format("OUT").join(map(self._quote_around, word.split(_OUT)))
        self._before = word
        return quoted or self._literal("")

    def checks(self) -> str:
        """Return the lines that end the script if a secret is missing."""
        return "".join(
            f': "${{{name}:?set it to the secret {purpose}: tune stores none}}"\n'
            for name, purpose in self.purposes.items()
        )

    def _quote_around(self, part: str) -> str:
        first, *others = part.split(HIDDEN)
        text = self._literal(first) if first else ""
        for before, after in zip([first, *others], others, strict=False):
            # What it follows, in letters that mean themselves between double quotes.
            follows = re.sub(r"[^A-Za-z0-9_=:/.@-]", "_", (before or self._before)[-40:])
            name = f"TUNE_SECRET_{len(self.purposes) + 1}"
            self.purposes[name] = f"after {follows}" if follows else "in the command"
            text += self._reference.format(name) + (self._literal(after) if after else "")
        return text
