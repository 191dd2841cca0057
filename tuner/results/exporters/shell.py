"""``sh``, ``env`` and ``args``: the best setting for a shell, as a whole job or as its parts.

Every word is quoted, so that nothing in a value is ever interpreted. In the script ``env`` has the
place of the trials' wrapper script; both only change the environment of the ranks. A secret of the
command was never stored: the script takes it from the environment, and says so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping

from tuner.launch import command, render
from tuner.launch.launchers import launcher_for
from tuner.launch.secrets import HIDDEN
from tuner.model import RANKS, Env, Flag, LauncherInfo, Route
from tuner.model.errors import UsageError
from tuner.model.wording import one_line
from tuner.results.exporters import Export
from tuner.results.exporters.job import HOSTS, OUT, Secrets, comment, header, job_parts, omissions
from tuner.results.study_view import StudyView

#: Letters that mean themselves to a POSIX shell in an assignment and to docker. ``~`` is not
#: among them (expanded at the start and after ``:``), nor is anything outside ASCII.
_PLAIN = re.compile(r"[A-Za-z0-9_./:,@%+=-]*")


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
    text += omissions(warnings)
    text += "".join(f"{name}={value}\n" for name, value in assignments.items())
    return Export(text=text, warnings=warnings)


def arguments(data: StudyView) -> Export:
    """Write the part of the setting that reaches the program by argument, on one line."""
    words = render.arguments(data.spec, data.best_setting)
    has_secret = any(HIDDEN in word for word in words)
    secrets = (f"{HIDDEN} stands for a secret, which is not stored",) if has_secret else ()
    warnings = not_carried(data, "arguments", Flag)
    return Export(text=shlex.join(words) + "\n", warnings=(*warnings, *secrets))


def not_carried(data: StudyView, form: str, route: type[Route]) -> tuple[str, ...]:
    """Warn of each knob of the best setting that does not go by the one route of a format.

    ``form`` is what the format writes: ``arguments``, ``an environment``. What has a place in the
    command is an argument; a launcher must know the number of ranks all the same.
    """
    values, placed = data.best_setting.as_dict(), {*command.placeholders(data.spec.command)}
    placed -= {RANKS} if data.spec.launcher.kind != "none" else set()
    return tuple(
        f"{form} cannot carry {one_line(f'{knob.name}={values[knob.name]}', most=None)}"
        for knob in data.spec.knobs
        if knob.name in values and (Flag if knob.name in placed else type(knob.route)) is not route
    )


def script(data: StudyView) -> Export:
    """Write a POSIX script that runs the whole job without this tool.

    Its first argument, or ``OUT``, is the folder for the job's output; further ones go to the job.
    ``HOSTS`` names other hosts for an mpirun (``h1:4,h2:4``; ``h1,h2`` for Intel's).
    """
    listed = launcher_for(data.spec.launcher.kind).host_list(data.best_spec.layout)
    return job_script(data, hosts=f"${{HOSTS:-{listed}}}")


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
    """Write the script for another shell or scheduler; ``run_by`` is the command that runs it.

    ``hosts`` is the value of ``HOSTS`` in the shell's syntax, ``head`` are comments after the first
    line, ``exports`` more variables. ``names_nodes``: srun is told on which nodes it runs. ``info``
    is the launcher, if not the study's own. ``run`` makes of the command the lines that run it
    elsewhere than here; ``OUT`` is absolute then.
    """
    spec, info = data.best_spec, info or data.spec.launcher
    argv, prefix, job = job_parts(data, info, spec.layout)
    if not names_nodes and "--nodelist" in argv:
        place = argv.index("--nodelist")
        argv = (*argv[:place], *argv[place + 2 :])  # without its value
    use, prepare = f"{run_by} FILE [ARGUMENT ...]", ""
    listed = launcher_for(info.kind).host_list(spec.layout)
    if listed in argv:  # srun and torchrun name hosts in other ways
        argv = tuple(HOSTS if word == listed else word for word in argv)
        prepare = f"HOSTS={hosts}\n"
    secrets = Secrets()
    lines = [" ".join(map(secrets.quote, part)) for part in (argv, prefix, job)]
    line = " \\\n  ".join(filter(None, lines))
    by_launcher = launcher_for(info.kind).environment(info)
    variables = "".join(
        f"export {name}={shlex.quote(value)}\n"
        for name, value in sorted({**by_launcher, **(exports or {})}.items())
    )
    redirect = f"exec <{shlex.quote(spec.input)}\n" if spec.input else ""
    change_folder = f"cd -- {shlex.quote(spec.folder)}\n" if spec.folder and run is None else ""
    if any(OUT in word for word in job):
        use = f"{run_by} FILE [OUTPUT_FOLDER [ARGUMENT ...]]"
        # Named for the study; never a name that looks like an option.
        folder = "./" + re.sub(r"[^\w.-]", "_", spec.name) + "-out"
        prepare += f'OUT=${{1:-${{OUT:-{shlex.quote(folder)}}}}}\nmkdir -p -- "$OUT"\n'
        prepare += "[ $# -eq 0 ] || shift\n"
        if spec.folder or run is not None:  # the job runs in another folder than the script
            prepare += "case $OUT in /*) ;; *) OUT=$PWD/$OUT ;; esac\n"
    run_line = f'exec {line} "$@"' if run is None else run(line)
    text = f"""#!/bin/sh
{head}{comment(data)}# use:      {use}
set -eu
{secrets.checks()}
{prepare}{change_folder}{variables}{redirect}{run_line}
"""
    return Export(text=text, executable=True)
