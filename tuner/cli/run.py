"""``tune run`` (and ``tune`` by itself): a study from what was typed to its result."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tuner.cli import exits, options
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

if TYPE_CHECKING:
    from tuner.model import Result


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
@option("--dry-run", is_flag=True, heading=OUTPUT, help="Print the first launches; run nothing.")
@json_option(OUTPUT)
@quiet_option()
@click.pass_context
def command(ctx: click.Context, /, **given: Any) -> int:
    """Run one study."""
    spec = replace(options.spec_of(given, tail(ctx)), typed=ctx.meta[TYPED])
    if given["dry_run"]:
        from tuner.cli import dry_run

        dry_run.print_launches(spec, as_json=given["as_json"])
        return exits.OK
    from tuner.cli import progress
    from tuner.study import tune

    with progress.view(given["quiet"]) as view:
        result = tune(
            spec,
            storage=given["storage"],
            outputs=Path(given["run_dir"]) if given["run_dir"] else None,
            fresh=given["fresh"],
            remeasure=given["remeasure"],
            wait=given["wait"],
            on_event=view,
        )
    typed = ctx.get_parameter_source("storage") is ParameterSource.COMMANDLINE
    return _finish(result, given, shown=given["storage"] if typed else None)


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
    from tuner.results.exporters.json import dumps, result_json

    store = stored.open_store(given["storage"])
    data = stored.load(store, result.study)
    if given["as_json"]:
        sys.stdout.write(dumps({"schema": "tuner.result/1", **result_json(result, data.spec)}))
    else:
        printed.print_result(data, summary=True, held_back=explain.line(store, data))
        printed.print_next(data, shown)
    try:
        dashboard.annotate(store.url, stored.watched(store, data))
    except TunerError as error:  # the result stands; only its note in the dashboard is missing
        console.warn(f"no note for the dashboard: {error.message}")
    if result.best is None:
        raise NothingMeasuredError(
            f"study {result.study} has no measured setting among those asked for now",
            "widen the ranges or raise --trials; `tune show` lists what was tried",
        )
    return exits.OK
