"""``tune exec``: any command with the best setting, which a job's first start may look for."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tuner.cli import console, exits
from tuner.cli.base import TYPED, TuneCommand, tail
from tuner.cli.click_options import option, shared, study_names
from tuner.config.options import SECONDS, WORDS
from tuner.model import RANKS, Env, StudySpec
from tuner.model.errors import TunerError, UsageError

if TYPE_CHECKING:
    from tuner.cli.first_tune import StartedCommand
    from tuner.results.study_view import StudyView

#: A heading of the help.
JOB = "A job that is tuned before it first runs"


@click.command(
    "exec",
    cls=TuneCommand,
    takes_tail=True,
    help=(
        "Run COMMAND with the environment of the best setting. A placeholder such as"
        " {iterator_workers} in it becomes its value; if the baseline is best, the option before"
        " it is left out. {hosts} becomes the study's hosts (h1:4,h2:4), which are then watched."
        " With --first-tune, COMMAND is the line of a job, as in a job script: the first time it is"
        " tuned, and every time it runs with the best setting that is known for it. The exit status"
        " is the command's."
    ),
    examples=(
        ("tune exec -- python train.py -j {iterator_workers}", "with the latest study's setting"),
        ("tune exec NAME -- env", "with that of another study"),
        (
            "tune exec --tries 9 --resume-arg '--resume out/snapshot_*' --"
            " env HOSTS={hosts} sh job.sh out",
            "again from the newest snapshot if a host is lost",
        ),
        (
            "tune exec --first-tune 5m -- mpirun -n 8 python train.py --epochs 90",
            "the line of a job script, tuned before it first runs on this kind of machine",
        ),
    ),
)
@shared("storage")
@option(
    "--tries",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    help="Run it at most N times: again if a signal has ended it, or a host is lost [1].",
)
@option(
    "--resume-arg",
    type=WORDS.read,
    metavar="WORDS",
    default="",
    help="Append WORDS from the second try on. A pattern at their end becomes its newest file; if"
    " there is none, nothing is appended.",
)
@option(
    "--first-tune",
    metavar="TIME",
    heading=JOB,
    help="If no setting is known for COMMAND on this kind of machine, look for one first, for at"
    " most this long. If anything in tune fails, COMMAND runs as it stands.",
)
@option(
    "--short",
    type=WORDS.read,
    metavar="WORDS",
    default="",
    heading=JOB,
    help="What makes a short run of the job, to be launched again and again: options that are added"
    " to its program (--epochs 1), or a program [the study file's command, else the job's own"
    " program].",
)
@option(
    "--study",
    "study_file",
    type=click.Path(),
    metavar="FILE",
    heading=JOB,
    help="Study file with knobs, objective and command [tune.toml in this folder, if any].",
)
@option(
    "--learn",
    is_flag=True,
    heading=JOB,
    help="Try other numbers of threads and workers in the running job in its first ten minutes, of"
    " which this may cost 1 % (docs/live.md says in which programs).",
)
@shared("fresh", "quiet", heading=JOB)
@click.argument("study", required=False, shell_complete=study_names, metavar="[STUDY] -- COMMAND")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    study: str | None,
    storage: str | None,
    tries: int,
    resume_arg: tuple[str, ...],
    first_tune: str | None,
    **job_options: Any,
) -> int:
    """Run a command with the best setting."""
    words = tail(ctx)
    if not words:
        raise UsageError("there is no command to run after `--`", "tune exec [STUDY] -- COMMAND")
    if first_tune is None and (typed := [name for name, value in job_options.items() if value]):
        flag = f"--{typed[0].removesuffix('_file')}"
        raise UsageError(f"{flag} goes with --first-tune", "add --first-tune 5m, or leave it out")
    if first_tune is not None and study is not None:
        raise UsageError(
            f"--first-tune finds the study of COMMAND by itself, and {study} is named",
            "leave one of them out",
        )
    if first_tune is not None:
        from tuner.cli.first_tune import FirstTune

        try:
            limit_s = SECONDS.read(first_tune)
        except ValueError as error:
            raise UsageError(f"--first-tune {first_tune}: {error}", "--first-tune 5m") from error
        if shutil.which(words[0]) is None:
            console.err(f"tune: {words[0]}: command not found")
            return exits.NOT_FOUND
        first = FirstTune(storage, limit_s, **job_options, typed=ctx.meta[TYPED])
        started = partial(first.started, *first.line_to_run(words))
        return _run(started, dict(os.environ), tries, resume_arg)
    from tuner.cli import stored

    data = stored.load(stored.open_store(storage), study)
    env, argv = _with_setting(words, data)
    return _run(lambda: _hosts_of(data.best_spec, argv), env, tries, resume_arg)


def _with_setting(
    words: tuple[str, ...], data: StudyView
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the environment and the command with a study's best setting, after its warnings."""
    from tuner.launch import render
    from tuner.launch.command import knobs_in
    from tuner.results import claims

    unset, values = render.assignments(data.spec, data.best_setting, words)
    env = {name: value for name, value in os.environ.items() if name not in unset} | values
    argv = filled(words, data)
    if not argv or shutil.which(argv[0], path=env.get("PATH")) is None:
        name = "".join(argv[:1]) or "left in COMMAND"
        raise UsageError(f"there is no program {name}", "name it by its path, or set PATH")
    setting, placeholders = data.best_setting.as_dict(), {*knobs_in(words)}
    placeholders |= {RANKS} if any(f"{{{RANKS}}}" in word for word in words) else set()
    for knob in data.spec.knobs:
        if knob.name in setting.keys() - placeholders and not isinstance(knob.route, Env):
            console.warn(
                f"the command does not get {knob.name}={setting[knob.name]}: an environment cannot"
                f" carry it, so write {{{knob.name}}} where the command takes it"
            )
    if data.keeps_defaults:
        console.warn(f"running with your defaults: {claims.comparison(data.result)}")
    return env, argv


def _run(
    started: Callable[[], AbstractContextManager[StartedCommand]],
    env: dict[str, str],
    tries: int,
    resume_arg: tuple[str, ...],
) -> int:
    """Run a command, again if it was ended from outside; return its exit code.

    ``started`` makes ready what one start of it needs.
    """
    from tuner.hosts import process
    from tuner.hosts.probe import python_path

    env = {**env, **python_path(env)}  # for `import tuner.live`
    for number in range(1, tries + 1):
        resume_words = _with_newest_file(resume_arg) if number > 1 else ()
        try:
            with started() as (argv, variables, lost_hosts):
                end = process.execute((*argv, *resume_words), {**env, **variables}, lost_hosts)
                is_last = number == tries and not lost_hosts()
        except TunerError as error:  # of a later try: its hosts may still name one that is lost
            if number in {1, tries}:
                raise
            console.warn(f"try {number} of {tries} was not begun ({error.message})")
            continue
        if not end.why or is_last:
            break
        console.warn(f"try {number} of {tries} was ended from outside ({end.why})")
    return end.code


def _with_newest_file(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words, with the newest file for a pattern at their end; no words without one."""
    import glob

    if not words or not glob.has_magic(words[-1]):
        return words
    files = sorted(glob.glob(words[-1]), key=os.path.getmtime)  # noqa: PTH207 (any path)
    return (*words[:-1], files[-1]) if files else ()


@contextmanager
def _hosts_of(spec: StudySpec, argv: tuple[str, ...]) -> Iterator[StartedCommand]:
    """Yield ``argv`` with its hosts put in, and a function that says which of them are lost.

    They are those that the study's ``--hosts-from`` names now, else those of the study. Without
    ``{hosts}`` in ``argv`` no host is watched. If there are not enough, or one cannot be reached,
    that is a ``TunerError``.
    """
    from tuner.config.hosts import hosts_from, with_room
    from tuner.launch.launchers import launcher_for
    from tuner.launch.start_agents import reach

    names, ranks = spec.layout.hosts, spec.layout.ranks_per_host
    if spec.layout.is_local or not any("{hosts}" in word for word in argv):
        yield argv, {}, lambda: ""
        return
    if spec.hosts_from:
        offered = with_room(hosts_from(spec.hosts_from), ranks)
        if len(offered) < len(names):
            needed = f"{len(names)} hosts with {ranks} slots, and --hosts-from names {len(offered)}"
            raise TunerError(f"the job needs {needed}", "COMMAND may wait until they are there")
        names = offered[: len(names)]
    layout = replace(spec.layout, hosts=names)
    listed = launcher_for(spec.launcher.kind).host_list(layout)
    with closing(reach(spec.launcher, names, os.environ)) as hosts:
        yield (
            tuple(word.replace("{hosts}", listed) for word in argv),
            {},
            lambda: "; ".join(f"the host {host.name} is lost" for host in hosts.lost()),
        )


def filled(argv: tuple[str, ...], data: StudyView) -> tuple[str, ...]:
    """Return the command with the study's placeholders replaced; other braces are its own.

    The placeholder of a knob without a value is left out with the option before it, as in a launch.
    """
    from tuner.launch import render
    from tuner.launch.command import option_before

    defaults = {k.name: k.default for k in data.spec.knobs if k.default is not None}
    values = {**defaults, **data.best_setting.as_dict(), **render.rank_texts(data.best_spec)}
    unset = [f"{{{knob.name}}}" for knob in data.spec.knobs if knob.name not in values]
    placeholder = re.compile("|".join(re.escape(f"{{{name}}}") for name in values) or r"(?!)")
    result: list[str] = []
    for index, word in enumerate(argv):
        if not any(place in word for place in unset):
            result.append(placeholder.sub(lambda match: str(values[match[0][1:-1]]), word))
        elif word in unset and option_before(argv, index):
            result.pop()
    return tuple(result)
