"""``tune exec``: any command with the best setting's environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tuner.cli import console
from tuner.cli.base import TuneCommand, tail
from tuner.cli.click_options import option, shared, study_names
from tuner.config.options import WORDS
from tuner.model import RANKS, Env, StudySpec
from tuner.model.errors import TunerError, UsageError

if TYPE_CHECKING:
    from tuner.results.study_view import StudyView


@click.command(
    "exec",
    cls=TuneCommand,
    takes_tail=True,
    help=(
        "Run COMMAND with the environment of the best setting. A placeholder such as"
        " {iterator_workers} in it becomes its value; if the baseline is best, the option before"
        " it is left out. {hosts} becomes the study's hosts (h1:4,h2:4), which are then watched."
        " The exit status is the command's."
    ),
    examples=(
        ("tune exec -- python train.py -j {iterator_workers}", "with the latest study's setting"),
        ("tune exec NAME -- env", "with that of another study"),
        (
            "tune exec --tries 9 --resume-arg '--resume out/snapshot_*' --"
            " env HOSTS={hosts} sh job.sh out",
            "again from the newest snapshot if a host is lost",
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
@click.argument("study", required=False, shell_complete=study_names, metavar="[STUDY] -- COMMAND")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    study: str | None,
    storage: str | None,
    tries: int,
    resume_arg: tuple[str, ...],
) -> int:
    """Run a command with the best setting."""
    import shutil

    from tuner.cli import stored
    from tuner.hosts import process
    from tuner.launch import render
    from tuner.launch.command import knobs_in
    from tuner.results import claims

    words = tail(ctx)
    if not words:
        raise UsageError("there is no command to run after `--`", "tune exec [STUDY] -- COMMAND")
    data = stored.load(stored.open_store(storage), study)
    unset, values = render.assignments(data.spec, data.best_setting, words)
    env = {name: value for name, value in os.environ.items() if name not in unset} | values
    argv = filled(words, data)
    if not argv or shutil.which(argv[0], path=env.get("PATH")) is None:
        raise UsageError(f"there is no program {words[0]}", "name it by its path, or set PATH")
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
    for number in range(1, tries + 1):
        resume_words = _with_newest_file(resume_arg) if number > 1 else ()
        try:
            with _hosts_of(data.best_spec, argv) as (argv_with_hosts, lost_hosts):
                end = process.execute((*argv_with_hosts, *resume_words), env, lost_hosts)
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
def _hosts_of(
    spec: StudySpec, argv: tuple[str, ...]
) -> Iterator[tuple[list[str], Callable[[], str]]]:
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
        yield list(argv), lambda: ""
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
            [word.replace("{hosts}", listed) for word in argv],
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
