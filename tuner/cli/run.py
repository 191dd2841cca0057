"""``tune run`` (and ``tune`` by itself): a study from what was typed to its result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tuner.cli import asking, exits, run_options, views
from tuner.cli.asking import LIMITS, OUTPUT, PLACE, SPACE
from tuner.cli.base import EXAMPLES, TuneCommand, tail
from tuner.cli.options import Percent, Seconds, json_option, option

if TYPE_CHECKING:
    from tuner.model import Result

#: When the search ends, and what it holds to be the same.
_ENDS = (
    option(
        "--trials", type=int, metavar="N", heading=LIMITS, help="The most settings to try [50]."
    ),
    option(
        "--budget",
        type=Seconds(),
        metavar="TIME",
        heading=LIMITS,
        help="End the search after 90s or 10m of launches; warm-ups and proof come on top.",
    ),
    option(
        "--until",
        type=Percent(),
        metavar="PERCENT",
        heading=LIMITS,
        help="End it once going on should gain less [1%].",
    ),
    option(
        "--precision",
        type=Percent(),
        metavar="PERCENT",
        heading=LIMITS,
        help="Settings closer than this count as equal [2%].",
    ),
    option(
        "--confirm/--no-confirm",
        default=None,
        heading=LIMITS,
        help="Prove the gain: best and defaults in turn [yes].",
    ),
)

_LIVE = option(
    "--live",
    type=click.Choice(["auto", "on", "off"]),
    metavar="WHEN",
    heading=LIMITS,
    help="Measure many settings in one running job: auto (where it can), on, off [auto].",
)

_OVERSUBSCRIBE = option(
    "--oversubscribe",
    type=float,
    metavar="X",
    heading=SPACE,
    help="Leave out what asks for more than X times the cores [4; with ranges of your own: none].",
)


_REMEASURE = option(
    "--remeasure",
    is_flag=True,
    heading=PLACE,
    help="Keep the stored study, but count none of its times; measure anew.",
)


@click.command(
    "run",
    cls=TuneCommand,
    takes_tail=True,
    examples=EXAMPLES[:2],
    help=(
        "Find the fastest setting of a program that runs under mpirun. The program stands after"
        " `--`; without one the study file says it. `tune [OPTIONS]` is the same as"
        " `tune run [OPTIONS]`. The same command continues an interrupted study."
    ),
)
@asking.options(
    *asking.RUN_OPTIONS,
    *asking.SPACE_OPTIONS,
    _OVERSUBSCRIBE,
    *_ENDS,
    _LIVE,
    *asking.LAUNCH_OPTIONS,
    *asking.PLACE_OPTIONS,
    _REMEASURE,
    option(
        "--dry-run", is_flag=True, heading=OUTPUT, help="Print the first launches; run nothing."
    ),
    json_option(OUTPUT),
    asking.QUIET,
)
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Run one study."""
    spec = run_options.spec_of(options, tail(ctx))
    outputs = Path(options["outputs"]) if options["outputs"] else None
    if options["dry_run"]:
        from tuner.cli import dry_run

        dry_run.print_launches(spec, as_json=options["as_json"])
        return exits.OK
    from tuner.study import tune

    with views.view(options["quiet"]) as view:
        result = tune(
            spec,
            storage=options["storage"],
            outputs=outputs,
            fresh=options["fresh"],
            remeasure=options["remeasure"],
            wait=options["wait"],
            on_event=view,
        )
    typed = ctx.get_parameter_source("storage") is ParameterSource.COMMANDLINE
    return _finish(result, options, shown=options["storage"] if typed else None)


def _finish(result: Result, options: dict[str, Any], *, shown: str | None) -> int:
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

    store = stored.open_store(options["storage"])
    data = stored.load(store, result.study)
    if options["as_json"]:
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
