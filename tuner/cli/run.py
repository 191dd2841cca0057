"""``tune run`` (and ``tune`` by itself): a study from what was typed to its result."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tuner.cli import click_options, exits
from tuner.cli.base import EXAMPLES, TYPED, TuneCommand, tail
from tuner.cli.click_options import OUTPUT, PLACE, option, shared, study_options
from tuner.config.study_file import LOCAL_NAME
from tuner.model import Result, StudySpec
from tuner.model.errors import NothingMeasuredError, UsageError

#: The options that can be typed with ``--join``: all others are in the stored study.
_JOIN_OPTIONS = {"join", "storage", "run_dir", "wait", "dry_run", "as_json", "quiet"}


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
@shared("storage", "run_dir", "join", "fresh", "wait", heading=PLACE)
@option(
    "--remeasure",
    is_flag=True,
    heading=PLACE,
    help="Keep the stored study, but count none of its times; measure again.",
)
@option("--dry-run", is_flag=True, heading=OUTPUT, help="Print the first launches; run nothing.")
@shared("json", "quiet", heading=OUTPUT)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Make the `StudySpec`, tune, and print the result."""
    if ctx.meta[TYPED] in ((), ("run",)) and not Path(LOCAL_NAME).is_file():
        raise UsageError(
            f"there is nothing to tune: nothing was typed, and there is no ./{LOCAL_NAME}",
            "`tune demo` shows in 30 seconds what tune does"
            "\n`tune init` writes a study file for your command"
            "\n`tune --mpi-procs 8 --trials 50` tunes the shipped ChainerMN trainer"
            "\n`tune --help` lists everything",
        )
    join = options["join"]
    spec = _joined_study(ctx, join) if join else click_options.spec_of(options, tail(ctx))
    spec = replace(spec, typed=ctx.meta[TYPED])
    if options["dry_run"]:
        from tuner.cli import dry_run
        from tuner.store import database
        from tuner.store.urls import resolve_url
        from tuner.study import optuna_plugins

        optuna_plugins.check(spec)
        database.check(resolve_url(options["storage"], os.environ))
        dry_run.print_launches(spec, as_json=options["as_json"])
        return exits.OK
    from tuner.cli import progress, standard_input
    from tuner.study.tuning import tune

    if not join and (path := standard_input.file_at_input()) is not None:
        spec = replace(spec, input=str(path), input_digest=standard_input.digest(path))
    with progress.view(options["quiet"]) as view:
        result = tune(
            spec,
            storage=options["storage"],
            outputs=Path(options["run_dir"]) if options["run_dir"] else None,
            fresh=options["fresh"],
            remeasure=options["remeasure"],
            wait=options["wait"],
            joined=join is not None,
            on_event=view,
        )
    is_typed = ctx.get_parameter_source("storage") is ParameterSource.COMMANDLINE
    return _finish(result, options, typed_storage=options["storage"] if is_typed else None)


def _joined_study(ctx: click.Context, name: str) -> StudySpec:
    """Return the stored study for this host; ``UsageError`` if more is typed that belongs to it."""
    from tuner.store.urls import resolve_url
    from tuner.study.tuning import to_join

    extra = [
        param.opts[0]
        for param in ctx.command.params
        if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        and param.name not in _JOIN_OPTIONS
    ]
    if extra or tail(ctx) is not None:
        raise UsageError(
            f"--join {name} takes the study as it is stored, without {(extra or ['a command'])[0]}",
            f"tune --join {name} --storage URL",
        )
    return to_join(resolve_url(ctx.params["storage"], os.environ), name)


def _finish(result: Result, options: dict[str, Any], *, typed_storage: str | None) -> int:
    """Print the result, with next commands for the storage as typed; return the exit code."""
    from tuner.cli import explain, printed, stored
    from tuner.results.exporters.json import dumps, result_document

    store = stored.open_store(options["storage"])
    data = stored.load(store, result.name)
    if options["as_json"]:
        sys.stdout.write(dumps(result_document(data.result, data.spec)))
    else:
        printed.print_result(data, summary=True, held_back=explain.line(store, data))
        printed.print_next(data, typed_storage)
    if result.best is None:
        raise NothingMeasuredError(
            f"study {result.name} has no measured setting among those asked for now",
            "widen the ranges or raise --trials; `tune show` lists what was tried",
        )
    return exits.OK
