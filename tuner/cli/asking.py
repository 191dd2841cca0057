"""What ``tune run`` and ``tune record`` both ask for, and the study that comes of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tuner.cli.options import KnobDomain, Seconds, SecondsOrNone, option, storage_option

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tuner.model import StudySpec
    from tuner.study.events import Event

import click

Function = TypeVar("Function", bound=Callable[..., Any])

WHAT = "What to run"
SPACE = "What to try"
LIMITS = "How much"
PLACE = "Where it is kept"
OUTPUT = "Output"

#: What is run.
RUN_OPTIONS = (
    option("--mpi-procs", "-n", "ranks", type=int, metavar="N", heading=WHAT, help="MPI ranks."),
    option(
        "--study",
        "study_file",
        metavar="FILE",
        type=click.Path(),
        heading=WHAT,
        help="Study file [tune.toml here, else the shipped chainer_mnist.toml].",
    ),
    option("--name", metavar="NAME", heading=WHAT, help="The study's name [made from the rest]."),
    option(
        "--mpirun",
        metavar="PATH",
        heading=WHAT,
        help="Which mpirun [TUNE_MPIRUN, else the program's own].",
    ),
    option(
        "--launcher",
        metavar="KIND",
        heading=WHAT,
        help="What starts the ranks: openmpi, mpich, torchrun [what is found first].",
    ),
    option(
        "--mpirun-arg",
        "mpirun_args",
        metavar="ARG",
        multiple=True,
        heading=WHAT,
        help="One more argument for mpirun; repeat it.",
    ),
    option(
        "--objective",
        metavar="KIND",
        heading=WHAT,
        help="How the figure is read: logreport[:KEY|:steady], pattern:REGEX, wall [logreport].",
    ),
    option(
        "--log",
        metavar="FILE",
        heading=WHAT,
        help="The log below {out} [log]; with a pattern, what is read instead of the output.",
    ),
    option(
        "--unit",
        metavar="UNIT",
        heading=WHAT,
        help="Of a key or a pattern: us, ms, s, min, h are times; any other is shown as it is.",
    ),
    option(
        "--maximize",
        is_flag=True,
        default=None,
        heading=WHAT,
        help="A larger figure is better (a rate).",
    ),
    option(
        "--items",
        type=float,
        metavar="N",
        heading=WHAT,
        help="Items in what is timed (a run, an iteration): shows items a second.",
    ),
    option(
        "--price-per-hour",
        type=float,
        metavar="X",
        heading=WHAT,
        help="Of all the hardware, in any currency: shows what a run costs.",
    ),
)

#: What is tried.
SPACE_OPTIONS = (
    option(
        "--knob",
        "knobs",
        metavar="NAME[=DOMAIN]",
        type=KnobDomain(),
        multiple=True,
        heading=SPACE,
        help="omp_threads=1..16, communicator=naive,flat, bind_to; repeat it (tune knobs).",
    ),
    option(
        "--all-knobs",
        is_flag=True,
        heading=SPACE,
        help="Every knob that applies here and keeps the numerics.",
    ),
    option(
        "--fix",
        "fixes",
        metavar="NAME=VALUE",
        type=KnobDomain(),
        multiple=True,
        heading=SPACE,
        help="Hold a knob at one value; repeat it.",
    ),
    option(
        "--default",
        "defaults",
        metavar="NAME=VALUE",
        type=KnobDomain(),
        multiple=True,
        heading=SPACE,
        help="A placeholder's value in the baseline; repeat it.",
    ),
    option("--seed", type=int, metavar="N", heading=SPACE, help="Seed of the search [0]."),
)

#: How a launch is made.
LAUNCH_OPTIONS = (
    option(
        "--trial-limit",
        type=Seconds(),
        metavar="TIME",
        heading=LIMITS,
        help="Stop a launch after 90, 90s or 2m.",
    ),
    option(
        "--stall-limit",
        type=SecondsOrNone(),
        metavar="TIME",
        heading=LIMITS,
        help="Stop one in which nothing happens for so long; none: never [2m].",
    ),
    option(
        "--warm-ups", type=int, metavar="N", heading=LIMITS, help="First launches thrown away [1]."
    ),
)

#: Where it is kept.
PLACE_OPTIONS = (
    storage_option(PLACE),
    option(
        "--outputs", metavar="FOLDER", heading=PLACE, help="Folders of the launches [beside it]."
    ),
    option("--fresh", is_flag=True, heading=PLACE, help="Throw away the stored study; start anew."),
    option("--wait", is_flag=True, heading=PLACE, help="Wait while another study runs here."),
)

#: No progress.
QUIET = option("--quiet", "-q", is_flag=True, heading=OUTPUT, help="No progress, only the result.")


def options(*groups: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """One decorator of several: the options stand in the order given."""

    def decorate(function: Function) -> Function:
        for each in reversed(groups):
            function = each(function)
        return function

    return decorate


def spec_of(given: dict[str, Any], words: tuple[str, ...] | None) -> StudySpec:
    """What was typed, and the study file, as a spec."""
    from tuner import study_file
    from tuner.cli import console
    from tuner.errors import UsageError

    if words == ():
        raise UsageError("there is no program after `--`", "tune -- python train.py --out {out}")
    file, source = study_file.find_study_file(
        given["study_file"], cwd=Path.cwd(), has_command=words is not None
    )
    if source == study_file.LOCAL_NAME and given["study_file"] is None:
        console.err(f"tune: using ./{source} (another: --study FILE)")
    return study_file.build_spec(
        file=file,
        source=source,
        command=words,
        options=study_file.RunOptions(
            ranks=given["ranks"],
            trials=given.get("trials"),
            knobs=given["knobs"],
            all_knobs=given["all_knobs"],
            fixes=given["fixes"],
            defaults=given["defaults"],
            name=given["name"],
            mpirun=given["mpirun"],
            launcher=given["launcher"],
            mpirun_args=given["mpirun_args"],
            seed=given["seed"],
            trial_limit_s=given["trial_limit"],
            stall_limit_s=given["stall_limit"],
            budget_s=given.get("budget"),
            until=given.get("until"),
            precision=given.get("precision"),
            oversubscribe=given.get("oversubscribe"),
            confirm=given.get("confirm"),
            warm_ups=given["warm_ups"],
            live=given.get("live"),
            objective=given["objective"],
            log=given["log"],
            unit=given["unit"],
            maximize=given["maximize"],
            items=given["items"],
            price_per_hour=given["price_per_hour"],
        ),
        environ=os.environ,
        cwd=Path.cwd(),
    )


def view(quiet: bool) -> AbstractContextManager[Callable[[Event], None]]:
    """The live view on a terminal, timed lines elsewhere."""
    from tuner.cli import console
    from tuner.cli.plain import PlainView, QuietView

    if quiet:
        return QuietView()
    if not console.is_live(sys.stderr):
        return PlainView()
    from tuner.cli.live import LiveView

    return LiveView()
