"""The flags of the stencil program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from .trainer_options import Parser, WorkloadError, positive
else:
    from trainer_options import Parser, WorkloadError, positive

#: Steps of a benchmark run: 2 ranks on 2 cores take about 4 s for them.
BENCHMARK_STEPS = 100

#: Steps of a whole job.
JOB_STEPS = 5000


@dataclass(frozen=True)
class StencilOptions:
    """What was asked for."""

    rows: int
    columns: int
    sweeps: int
    steps: int
    cprofile: Path | None


def parse(prog: str, description: str, argv: Sequence[str], ranks: int = 1) -> StencilOptions:
    """Read a command line for a job of ``ranks`` ranks.

    Raises:
        WorkloadError: An unknown flag, or a value that cannot be.
    """
    given = _parser(prog, description).parse_args(argv)
    if given.rows < ranks:
        raise WorkloadError(
            f"--rows {given.rows}: each of the {ranks} ranks needs at least one row; "
            f"use --rows {ranks} or more, or fewer ranks"
        )
    steps = given.steps or (BENCHMARK_STEPS if given.benchmark else JOB_STEPS)
    return StencilOptions(given.rows, given.columns, given.sweeps, steps, given.cprofile)


def _parser(prog: str, description: str) -> Parser:
    parser = Parser(prog=prog, description=description, allow_abbrev=False)
    add = parser.add_argument
    add(
        "--rows",
        type=positive,
        default=1024,
        metavar="N",
        help="rows of the grid, over all ranks [1024]",
    )
    add("--columns", type=positive, default=768, metavar="N", help="columns of the grid [768]")
    add("--sweeps", type=positive, default=2, metavar="N", help="stencil sweeps a step [2]")
    add(
        "-i",
        "--steps",
        type=positive,
        metavar="N",
        help=f"steps to make [{JOB_STEPS}; with --benchmark: {BENCHMARK_STEPS}]",
    )
    add("--cprofile", type=Path, metavar="DIR", help="profile each rank into DIR/rank-N.prof")
    add("--benchmark", action="store_true", help="a short run, the same work per step")
    return parser
