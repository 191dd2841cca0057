"""``tune run`` (and ``tune`` by itself): a study from what was typed to its result."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tuner.cli import exits, on_finish, options
from tuner.cli.base import EXAMPLES, TYPED, TuneCommand, tail
from tuner.cli.options import (
    OUTPUT,
    PLACE,
    json_option,
    option,
    place_options,
    quiet_option,
    study_options,
)
from tuner.config.options import WORDS

if TYPE_CHECKING:
    from tuner.model import Result, StudySpec


@click.command(
    "run",
    cls=TuneCommand,
    takes_tail=True,
    examples=EXAMPLES[:2],
    help=(
        "Find the fastest setting of a program that runs under mpirun. The program goes after"
        " `--`; if there is none, the study file names it. `tune [OPTIONS]` is the same as"
        " `tune run [OPTIONS]`. The same command continues an interrupted study."
    ),
)
@study_options()
@place_options()
@option(
    "--remeasure",
    is_flag=True,
    heading=PLACE,
    help="Keep the stored study, but count none of its times; measure again.",
)
@option(
    "--on-finish",
    type=WORDS.read,
    metavar="COMMAND",
    heading=OUTPUT,
    help="Run COMMAND at the end, also if nothing could be measured, with the result as JSON on its"
    " input: to mail it, say. It is words, not shell (for that: sh -c '…'); what it prints goes to"
    " stderr. It is ended after 5 minutes.",
)
@option("--dry-run", is_flag=True, heading=OUTPUT, help="Print the first launches; run nothing.")
@json_option(OUTPUT)
@quiet_option()
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Make the `StudySpec`, tune, and print the result."""
    if given["on_finish"] is not None:
        on_finish.check(given["on_finish"])
    spec = _joined(ctx, given["join"]) if given["join"] else options.spec_of(given, tail(ctx))
    spec = replace(spec, typed=ctx.meta[TYPED])
    if given["dry_run"]:
        from tuner.cli import dry_run
        from tuner.store import database
        from tuner.store.urls import resolve_url
        from tuner.study import optuna_plugins

        optuna_plugins.check(spec)
        database.check(resolve_url(given["storage"], os.environ))
        dry_run.print_launches(spec, as_json=given["as_json"])
        return exits.OK
    from tuner.cli import progress, standard_input
    from tuner.model.errors import LimitReachedError, NothingMeasuredError
    from tuner.study import tune

    piped = b""
    if not given["join"]:
        content = standard_input.read()
        if isinstance(content, str):
            digest = standard_input.digest(content) if content else ""
            spec = replace(spec, input=content, input_digest=digest)
        else:
            piped = content
    try:
        with progress.view(given["quiet"]) as view:
            result = tune(
                spec,
                piped=piped,
                storage=given["storage"],
                outputs=Path(given["run_dir"]) if given["run_dir"] else None,
                fresh=given["fresh"],
                remeasure=given["remeasure"],
                wait=given["wait"],
                joined=given["join"] is not None,
                on_event=view,
            )
    except (NothingMeasuredError, LimitReachedError):
        if given["on_finish"]:
            from tuner.cli import stored

            data = stored.load(stored.open_store(given["storage"]), spec.name)
            on_finish.tell(given["on_finish"], _document(data.result, data.spec))
        raise
    typed = ctx.get_parameter_source("storage") is ParameterSource.COMMANDLINE
    return _finish(result, given, shown=given["storage"] if typed else None)


#: What else can be typed beside ``--join``: all the rest is in the stored study.
_WITH_JOIN = {"join", "storage", "run_dir", "wait", "dry_run", "as_json", "quiet", "on_finish"}


def _joined(ctx: click.Context, name: str) -> StudySpec:
    """The stored study, for this host.

    Raises:
        UsageError: Something else is typed that belongs to the study.
    """
    from tuner.model.errors import UsageError
    from tuner.store.urls import resolve_url
    from tuner.study.tuning import to_join

    typed = [
        param.opts[0]
        for param in ctx.command.params
        if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        and param.name not in _WITH_JOIN
    ]
    if typed or tail(ctx) is not None:
        raise UsageError(
            f"--join {name} takes the study as it is stored, without {(typed or ['a command'])[0]}",
            f"tune --join {name} --storage URL",
        )
    return to_join(resolve_url(ctx.params["storage"], os.environ), name)


def _document(result: Result, spec: StudySpec) -> str:
    """What ``--json`` prints."""
    from tuner.results.exporters.json import dumps, result_json

    return dumps({"schema": "tuner.result/1", **result_json(result, spec)})


def _finish(result: Result, given: dict[str, Any], *, shown: str | None) -> int:
    """Print the result, attach it to the dashboard's study, and give the exit code.

    Args:
        shown: The storage that the commands to type next must name, if any.

    Raises:
        NothingMeasuredError: What is asked for now holds no setting with a time.
    """
    from tuner.cli import console, explain, printed, stored
    from tuner.model.errors import NothingMeasuredError, TunerError
    from tuner.results import dashboard

    store = stored.open_store(given["storage"])
    data = stored.load(store, result.name)
    document = _document(result, data.spec)
    if given["as_json"]:
        sys.stdout.write(document)
    else:
        printed.print_result(data, summary=True, held_back=explain.line(store, data))
        printed.print_next(data, shown)
    try:
        dashboard.annotate(store.url, stored.watched(store, data))
    except TunerError as error:  # the result stands; only its note in the dashboard is missing
        console.warn(f"no note for the dashboard: {error.message}")
    if given["on_finish"]:
        on_finish.tell(given["on_finish"], document)
    if result.best is None:
        raise NothingMeasuredError(
            f"study {result.name} has no measured setting among those asked for now",
            "widen the ranges or raise --trials; `tune show` lists what was tried",
        )
    return exits.OK
