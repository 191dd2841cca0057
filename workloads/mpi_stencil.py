"""Heat that spreads on a torus, computed by all ranks together: NumPy and mpi4py, no LogReport.

    mpirun -n 8 python -m mpi4py workloads/mpi_stencil.py --benchmark

The rows of the grid are dealt out to the ranks. In each step each rank exchanges the rows at its
edges with its neighbours and applies a stencil, several times, and then makes an implicit step
along its rows, which is one product of two dense matrices (BLAS). It prints the `time per step` of
the slowest rank, and checks its own result: the solution of this problem is known.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if not (TYPE_CHECKING or __package__):  # run by its path: this folder is on sys.path
    import needs

    needs.check(__file__)

import numpy as np

if TYPE_CHECKING or __package__:
    from . import heat, ranks, retuned, stencil_options
    from .trainer_options import WorkloadError
else:  # run by its path: this folder is on sys.path
    import heat
    import ranks
    import retuned
    import stencil_options
    from trainer_options import WorkloadError

if TYPE_CHECKING:
    from mpi4py import MPI

NAME = Path(__file__).name

#: Prints a line, on rank 0 only; a file as with print.
Say = Callable[..., None]

#: How often a run says how far it is.
REPORTS = 20


def main(argv: Sequence[str]) -> int:
    """Compute as ``argv`` says. The exit code is 2 where that is refused, 1 for a wrong result."""
    if {"-h", "--help"} & set(argv):
        stencil_options.parse(NAME, str(__doc__), argv)
    # Not at the top: what only reads the flags must not start MPI.
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    try:
        options = ranks.together(
            world,
            lambda: stencil_options.parse(NAME, str(__doc__), argv, world.size),
            refusals=(WorkloadError,),
            prog=NAME,
        )
    except ranks.RefusedError:
        MPI.Finalize()  # or mpi4py would abort the job, and the MPI bury the message
        return 2
    with ranks.profiled(options.cprofile, world.rank):
        return simulate(world, options, partial(_say, world.rank))


def simulate(world: MPI.Intracomm, options: stencil_options.StencilOptions, say: Say) -> int:
    """Set up, step, check; 0, or 1 for a wrong result."""
    problem = heat.Problem(options.rows, options.columns, options.sweeps)
    slab = heat.Slab(problem, world.rank, world.size)
    ranks_text = f"{world.size} rank{'' if world.size == 1 else 's'}"
    say(f"run: {options.steps} steps, {ranks_text}, grid {options.rows} x {options.columns}")
    step_s, done = stepping(world, slab, options.steps, say)
    slowest_s = max(world.allgather(step_s))
    heats = world.allgather(slab.total())
    error = max(world.allgather(slab.error(done + 1)))
    say(f"checksum: {sum(heats):.9e}, largest error {error:.1e}")
    if not error < heat.TOLERANCE:
        say(f"{NAME}: error: the result is wrong by {error:.1e}", file=sys.stderr)
        return 1
    say(f"time per step: {1000 * slowest_s:.3f} ms")
    return 0


def stepping(world: MPI.Intracomm, slab: heat.Slab, steps: int, say: Say) -> tuple[float, int]:
    """Make one step that is not timed and ``steps`` that are, or more where a study wants more.

    Returns:
        The time of one of them, in s, and how many they were.
    """
    session = retuned.session()
    slab.step(world)
    world.Barrier()
    begin_s = time.perf_counter()
    due = np.unique(np.linspace(0, steps, REPORTS + 1, dtype=int)[1:-1])
    done = 0
    while done < steps or session.more():
        slab.step(world)
        session.step()
        done += 1
        if done in due:
            per_step_s = (time.perf_counter() - begin_s) / done
            say(f"step {done} of {steps}, {1000 * per_step_s:.3f} ms each")
    return (time.perf_counter() - begin_s) / done, done


def _say(rank: int, text: str, file: TextIO | None = None) -> None:
    """A line of rank 0's: ranks' lines would mix."""
    if rank == 0:
        print(text, file=file or sys.stdout, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
