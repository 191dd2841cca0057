"""What ``tune run`` and ``benchmarks.record`` both ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tuner.cli.options import KnobDomain, Seconds, SecondsOrNone, option, storage_option

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
