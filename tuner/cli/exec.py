"""``tune exec``: any command with the best setting's environment."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tuner.cli.base import TuneCommand, tail
from tuner.cli.options import option, storage_option, study_names
from tuner.config.options import WORDS
from tuner.model import Env

if TYPE_CHECKING:
    from tuner.model import StudySpec
    from tuner.results.study_view import StudyView
    from tuner.store import Store


class ExecCommand(TuneCommand):
    """``tune exec``: without ``--`` the first word that is not an option begins the command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave the options after the command's first word to the command."""
        ctx.allow_interspersed_args = tail(ctx) is not None
        return super().parse_args(ctx, args)


@click.command(
    "exec",
    cls=ExecCommand,
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
@storage_option()
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
    "--hosts-from",
    type=WORDS.read,
    metavar="COMMAND",
    help="Ask it before each try what {hosts} is [as the study].",
)
@click.argument("words", nargs=-1, shell_complete=study_names, metavar="[STUDY] [--] COMMAND ...")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    words: tuple[str, ...],
    storage: str | None,
    tries: int,
    resume_arg: tuple[str, ...],
    hosts_from: tuple[str, ...] | None,
) -> int:
    """Run a command with the best setting."""
    import shutil

    from tuner.cli import console, stored
    from tuner.hosts import process
    from tuner.launch import render
    from tuner.model.errors import TunerError, UsageError
    from tuner.results import claims

    store = stored.open_store(storage)
    study, argv = split(words, tail(ctx), store)
    data = stored.load(store, study)
    unset, values = render.assignments(data.spec, data.best_setting, argv)
    env = {name: value for name, value in os.environ.items() if name not in unset} | values
    warnings = not_carried(data, argv)
    argv = filled(argv, data)
    if not argv:
        raise UsageError("nothing is left of the command", "tune exec [STUDY] -- COMMAND")
    if shutil.which(argv[0], path=env.get("PATH")) is None:
        raise UsageError(f"there is no program {argv[0]}", "name it by its path, or set PATH")
    for warning in warnings:
        console.warn(warning)
    if data.keeps_defaults:
        console.warn(f"running with your defaults: {claims.comparison(data.result)}")
    for number in range(1, tries + 1):
        resumed = newest(resume_arg) if number > 1 else ()
        try:
            with hosts_of(data.spec, hosts_from or data.spec.hosts_from, argv) as (placed, lost):
                ended = process.execute((*placed, *resumed), env, lost)
                is_last = number == tries and not lost()
        except TunerError as error:  # a host that has just been lost may still be named
            if number in {1, tries}:
                raise
            console.warn(f"try {number} of {tries} was not begun ({error.message})")
            continue
        if not ended.why or is_last:
            break
        console.warn(f"try {number} of {tries} was ended from outside ({ended.why})")
    return ended.code


def newest(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words, with the newest file for a pattern at their end; none if there is no file."""
    import glob

    if not words or not glob.has_magic(words[-1]):
        return words
    files = sorted(glob.glob(words[-1]), key=os.path.getmtime)  # noqa: PTH207 (any path)
    return (*words[:-1], files[-1]) if files else ()


@contextmanager
def hosts_of(
    spec: StudySpec, command: tuple[str, ...], argv: tuple[str, ...]
) -> Iterator[tuple[list[str], Callable[[], str]]]:
    """A command with its hosts put in, and what says which of them are lost.

    ``command`` says which hosts there are; empty: those of the study. Without ``{hosts}`` in
    ``argv`` no host is watched.

    Raises:
        TunerError: There are not enough, or one cannot be reached.
    """
    from tuner.config.hosts import with_room
    from tuner.config.hosts_from import hosts_from
    from tuner.launch.hosts import reach
    from tuner.model.errors import TunerError

    names, ranks = spec.layout.hosts, spec.layout.ranks_per_host
    if spec.layout.is_local or not any("{hosts}" in word for word in argv):
        yield list(argv), lambda: ""
        return
    if command:
        there = with_room(hosts_from(command), ranks)
        if len(there) < len(names):
            what = f"{len(names)} hosts with {ranks} slots, and --hosts-from names {len(there)}"
            raise TunerError(f"the job needs {what}", "COMMAND may wait until they are there")
        names = there[: len(names)]
    listed = replace(spec.layout, hosts=names).listed
    with closing(reach(spec.launcher, names, os.environ)) as hosts:
        yield (
            [word.replace("{hosts}", listed) for word in argv],
            lambda: "; ".join(f"the host {host.name} is lost" for host in hosts.lost()),
        )


def split(
    words: tuple[str, ...], rest: tuple[str, ...] | None, store: Store
) -> tuple[str | None, tuple[str, ...]]:
    """The study and the command; without ``--`` the first word is a study if one is so called.

    Raises:
        UsageError: There is no command, or more than one word before ``--``.
    """
    from tuner.model.errors import UsageError

    hint = "tune exec [STUDY] -- COMMAND"
    if rest is None:
        names = {summary.name for summary in store.studies()}
        study, argv = (words[0], words[1:]) if words and words[0] in names else (None, words)
    elif len(words) > 1:
        raise UsageError(f"only a study's name can come before `--`, not: {' '.join(words)}", hint)
    else:
        study, argv = (words[0] if words else None), rest
    if not argv:
        raise UsageError("there is no command to run", hint)
    return study, argv


def not_carried(data: StudyView, argv: tuple[str, ...]) -> tuple[str, ...]:
    """A line for each part of the setting that does not reach the command."""
    from tuner.launch.command import knobs_in

    values, placed = data.best_setting.as_dict(), knobs_in(argv)
    return tuple(
        f"the command does not get {knob.name}={values[knob.name]}: an environment cannot carry"
        f" it, so write {{{knob.name}}} where the command takes it"
        for knob in data.spec.knobs
        if knob.name in values and knob.name not in placed and not isinstance(knob.route, Env)
    )


def filled(argv: tuple[str, ...], data: StudyView) -> tuple[str, ...]:
    """The command with the study's placeholders replaced; other braces are the command's own.

    A knob that the setting leaves as it is goes with the option before it, as in the baseline.
    """
    from tuner.launch.command import option_before

    values = data.best_setting.as_dict()
    defaults = {k.name: k.default for k in data.spec.knobs if k.default is not None}
    values = {**defaults, **values}
    unset = [f"{{{knob.name}}}" for knob in data.spec.knobs if knob.name not in values]
    placeholder = re.compile("|".join(re.escape(f"{{{name}}}") for name in values) or r"(?!)")
    result: list[str] = []
    for index, word in enumerate(argv):
        if not any(place in word for place in unset):
            result.append(placeholder.sub(lambda match: str(values[match[0][1:-1]]), word))
        elif word in unset and option_before(argv, index):
            result.pop()
    return tuple(result)
