"""``tune run`` (and ``tune`` by itself): a study from what was typed to its result."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tuner.cli import exits
from tuner.cli.base import EXAMPLES, TuneCommand, tail
from tuner.cli.options import KnobDomain, Percent, Seconds, json_option, option, storage_option

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tuner.model import Result, StudySpec
    from tuner.study.events import Event

_WHAT = "What to run"
_SPACE = "What to try"
_LIMITS = "How much"
_PLACE = "Where it is kept"
_OUTPUT = "Output"


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
@option("--mpi-procs", "-n", "ranks", type=int, metavar="N", heading=_WHAT, help="MPI ranks.")
@option(
    "--study",
    "study_file",
    metavar="FILE",
    type=click.Path(),
    heading=_WHAT,
    help="Study file [tune.toml here, else the shipped chainer_mnist.toml].",
)
@option("--name", metavar="NAME", heading=_WHAT, help="The study's name [made from the rest].")
@option(
    "--mpirun",
    metavar="PATH",
    heading=_WHAT,
    help="Which mpirun [TUNE_MPIRUN, else the program's own].",
)
@option(
    "--mpirun-arg",
    "mpirun_args",
    metavar="ARG",
    multiple=True,
    heading=_WHAT,
    help="One more argument for mpirun; repeat it.",
)
@option("--objective", metavar="KIND", heading=_WHAT, help="How the time is read [logreport].")
@option("--log", metavar="FILE", heading=_WHAT, help="The log below {out} [log].")
@option(
    "--knob",
    "knobs",
    metavar="NAME=DOMAIN",
    type=KnobDomain(),
    multiple=True,
    heading=_SPACE,
    help="omp_threads=1..16, communicator=naive,flat; repeat it.",
)
@option(
    "--fix",
    "fixes",
    metavar="NAME=VALUE",
    type=KnobDomain(),
    multiple=True,
    heading=_SPACE,
    help="Hold a knob at one value; repeat it.",
)
@option(
    "--default",
    "defaults",
    metavar="NAME=VALUE",
    type=KnobDomain(),
    multiple=True,
    heading=_SPACE,
    help="A placeholder's value in the baseline; repeat it.",
)
@option("--seed", type=int, metavar="N", heading=_SPACE, help="Seed of the search [0].")
@option("--trials", type=int, metavar="N", heading=_LIMITS, help="The most settings to try [50].")
@option(
    "--budget",
    type=Seconds(),
    metavar="TIME",
    heading=_LIMITS,
    help="End the search after 90, 90s or 10m of launches.",
)
@option(
    "--until",
    type=Percent(),
    metavar="PERCENT",
    heading=_LIMITS,
    help="End it once going on is expected to gain less [1%].",
)
@option(
    "--precision",
    type=Percent(),
    metavar="PERCENT",
    heading=_LIMITS,
    help="Tell the best settings apart as far as this [2%].",
)
@option(
    "--oversubscribe",
    type=float,
    metavar="X",
    heading=_SPACE,
    help="Leave out what asks for more than X times the cores [4; with ranges of your own: none].",
)
@option(
    "--confirm/--no-confirm",
    default=None,
    heading=_LIMITS,
    help="Launch the best and the defaults in turn, for the proof [yes].",
)
@option(
    "--trial-limit",
    type=Seconds(),
    metavar="TIME",
    heading=_LIMITS,
    help="Stop a launch after 90, 90s or 2m.",
)
@option(
    "--warm-ups", type=int, metavar="N", heading=_LIMITS, help="First launches thrown away [1]."
)
@storage_option(_PLACE)
@option("--outputs", metavar="FOLDER", heading=_PLACE, help="Folders of the launches [beside it].")
@option("--fresh", is_flag=True, heading=_PLACE, help="Throw away the stored study; start anew.")
@option("--wait", is_flag=True, heading=_PLACE, help="Wait while another study runs here.")
@option("--dry-run", is_flag=True, heading=_OUTPUT, help="Print the first launches; run nothing.")
@json_option(_OUTPUT)
@option("--quiet", "-q", is_flag=True, heading=_OUTPUT, help="No progress, only the result.")
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> int:
    """Run one study."""
    spec = _spec(options, tail(ctx))
    outputs = Path(options["outputs"]) if options["outputs"] else None
    if options["dry_run"]:
        from tuner.cli import dry_run

        dry_run.print_launches(spec, as_json=options["as_json"])
        return exits.OK
    from tuner.study import tune

    with _view(options["quiet"]) as view:
        result = tune(
            spec,
            storage=options["storage"],
            outputs=outputs,
            fresh=options["fresh"],
            wait=options["wait"],
            on_event=view,
        )
    typed = ctx.get_parameter_source("storage") is ParameterSource.COMMANDLINE
    return _finish(result, options, shown=options["storage"] if typed else None)


def _spec(options: dict[str, Any], words: tuple[str, ...] | None) -> StudySpec:
    """What was typed, and the study file, as a spec."""
    from tuner import study_file
    from tuner.cli import console
    from tuner.errors import UsageError

    if words == ():
        raise UsageError("there is no program after `--`", "tune -- python train.py --out {out}")
    file, source = study_file.find_study_file(
        options["study_file"], cwd=Path.cwd(), has_command=words is not None
    )
    if source == study_file.LOCAL_NAME and options["study_file"] is None:
        console.err(f"tune: using ./{source} (another: --study FILE)")
    return study_file.build_spec(
        file=file,
        source=source,
        command=words,
        options=study_file.RunOptions(
            ranks=options["ranks"],
            trials=options["trials"],
            knobs=options["knobs"],
            fixes=options["fixes"],
            defaults=options["defaults"],
            name=options["name"],
            mpirun=options["mpirun"],
            mpirun_args=options["mpirun_args"],
            seed=options["seed"],
            trial_limit_s=options["trial_limit"],
            budget_s=options["budget"],
            until=options["until"],
            precision=options["precision"],
            oversubscribe=options["oversubscribe"],
            confirm=options["confirm"],
            warm_ups=options["warm_ups"],
            objective=options["objective"],
            log=options["log"],
        ),
        environ=os.environ,
        cwd=Path.cwd(),
    )


def _view(quiet: bool) -> AbstractContextManager[Callable[[Event], None]]:
    """The live view on a terminal, timed lines elsewhere."""
    from tuner.cli import console
    from tuner.cli.plain import PlainView, QuietView

    if quiet:
        return QuietView()
    if not console.is_live(sys.stderr):
        return PlainView()
    from tuner.cli.live import LiveView

    return LiveView()


def _finish(result: Result, options: dict[str, Any], *, shown: str | None) -> int:
    """Print the result, attach it to the dashboard's study, and give the exit code.

    Args:
        shown: The storage that the commands to type next must name, if any.

    Raises:
        NothingMeasuredError: What is asked for now holds no setting with a time.
    """
    from tuner import dashboard
    from tuner.cli import console, report, stored
    from tuner.errors import NothingMeasuredError, TunerError
    from tuner.exporters.json import dumps, result_json

    store = stored.open_store(options["storage"])
    data = stored.load(store, result.study)
    if options["as_json"]:
        sys.stdout.write(dumps({"schema": "tuner.result/1", **result_json(result)}))
    else:
        report.print_result(data, summary=True)
        report.print_next(data, shown)
    try:
        dashboard.annotate(store.url, data)
    except TunerError as error:  # the result stands; only its note in the dashboard is missing
        console.warn(f"no note for the dashboard: {error.message}")
    if result.best is None:
        raise NothingMeasuredError(
            f"study {result.study} has no measured setting among those asked for now",
            "widen the ranges or raise --trials; `tune show` lists what was tried",
        )
    return exits.OK
