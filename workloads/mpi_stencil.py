"""Heat that spreads on a torus, computed by all ranks together: NumPy and mpi4py, no LogReport.

    mpirun -n 8 python -m mpi4py workloads/mpi_stencil.py --benchmark

The rows of the grid are dealt out to the ranks. In each step each rank exchanges the rows at its
edges with its neighbours and applies a stencil, several times, and then makes an implicit step
along its rows, which is one product of two dense matrices (BLAS). It prints the `time per step` of
the slowest rank, and checks its own result: the solution of this problem is known.
"""

from __future__ import annotations

import math
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

import ranks
from trainer_options import Parser, WorkloadError, number

if TYPE_CHECKING:
    from mpi4py import MPI

NAME = Path(__file__).name

Field = NDArray[np.float64]

#: Steps of a benchmark run (2 ranks on 2 cores take about 4 s for them), and of a whole job.
BENCHMARK_STEPS, JOB_STEPS = 100, 5000

#: The largest difference from the known solution that is rounding; a stale row makes more.
TOLERANCE = 1e-8

#: Of an explicit step: time over the square of the distance of two rows. Stable up to 1/2.
_RATIO = 0.25


def parse(argv: Sequence[str], size: int = 1) -> Namespace:
    """Read a command line for a job of ``size`` ranks; raises ``WorkloadError``."""
    parser = Parser(NAME, str(__doc__))
    number(parser, "--rows", default=1024, help="rows of the grid, over all ranks")
    number(parser, "--columns", least=2, default=768, help="columns of the grid")
    number(parser, "--sweeps", default=2, help="stencil sweeps a step")
    text = f"steps to make [{JOB_STEPS}; with --benchmark: {BENCHMARK_STEPS}]"
    number(parser, "-i", "--steps", help=text)
    text = "a short run, the same work per step"
    parser.add_argument("--benchmark", action="store_true", help=text)
    options = parser.parse_args(argv)
    if options.rows < size:
        raise WorkloadError(
            f"--rows {options.rows}: each of the {size} ranks needs at least one row; "
            f"use --rows {size} or more, or fewer ranks"
        )
    options.steps = options.steps or (BENCHMARK_STEPS if options.benchmark else JOB_STEPS)
    return options


class Slab:
    r"""The rows of one rank, with one row of each neighbour's around them.

    They hold the solution of :math:`u_t = u_{xx} + u_{yy}` on :math:`[0, 2\pi)^2`, periodic, that
    begins as :math:`1 + \cos x \cos y`. Along x (the columns) it is discretised by Fourier
    collocation (Trefethen, Spectral Methods in MATLAB, SIAM 2000, chapter 3), whose matrix is
    dense, and stepped by backward Euler; along y (the rows) by second differences and explicit
    steps. The wave is an eigenvector of both, so the solution is known.

    The first ``rows % size`` ranks have one row more than the others.
    """

    def __init__(self, options: Namespace, rank: int, size: int) -> None:
        rows, columns = options.rows, options.columns
        each, more = divmod(rows, size)
        first, count = rank * each + min(rank, more), each + (rank < more)
        self._sweeps = options.sweeps
        self._above, self._below = (rank - 1) % size, (rank + 1) % size
        duration = options.sweeps * _RATIO * (2 * math.pi / rows) ** 2
        squares = np.arange(columns // 2 + 1)[:, None] ** 2
        second = np.fft.irfft(-squares * np.fft.rfft(np.eye(columns), axis=0), columns, axis=0)
        self._propagator = np.linalg.inv(np.eye(columns) - duration * second)
        along_y = np.cos(2 * math.pi * np.arange(first, first + count) / rows)
        self._wave = np.outer(along_y, np.cos(2 * math.pi * np.arange(columns) / columns))
        sweep = 1 - 4 * _RATIO * math.sin(math.pi / rows) ** 2
        self._damping = sweep**options.sweeps / (1 + duration)  # of the wave, in a step
        self._padded: Field = np.empty((count + 2, columns))
        self.field = self._padded[1:-1]  # this rank's rows: a view
        self.field[:] = 1 + self._wave
        self._change: Field = np.empty((count, columns))

    def step(self, world: Any) -> None:
        """Advance by one step, together with all other ranks of an MPI communicator."""
        padded, change = self._padded, self._change
        for _ in range(self._sweeps):
            world.Sendrecv(padded[1], self._above, 1, padded[-1], self._below, 1)
            world.Sendrecv(padded[-2], self._below, 2, padded[0], self._above, 2)
            np.add(padded[:-2], padded[2:], out=change)
            change -= 2 * self.field
            change *= _RATIO
            self.field += change
        np.matmul(self.field, self._propagator, out=change)
        self.field[:] = change

    def error(self, steps: int) -> float:
        """Return the largest difference from the known solution after ``steps`` steps."""
        known = 1 + self._damping**steps * self._wave
        error = float(np.abs(self.field - known).max())
        return error if math.isfinite(error) else math.inf


def main(argv: Sequence[str]) -> int:
    """Compute as ``argv`` says. The exit code is 2 if that is refused, 1 for a wrong result."""
    if {"-h", "--help"} & set(argv):
        parse(argv)
    # Not at the top: what only reads the flags must not start MPI.
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    try:
        options = ranks.together(world, lambda: parse(argv, world.size), NAME)
    except ranks.JobRefusedError:
        MPI.Finalize()  # or mpi4py would abort the job, and the MPI bury the message
        return 2
    return simulate(world, options)


def simulate(world: MPI.Intracomm, options: Namespace) -> int:
    """Set up, step, check; 0, or 1 for a wrong result."""

    def say(text: str, file: TextIO = sys.stdout) -> None:
        if world.rank == 0:  # the ranks' lines would mix
            print(text, file=file, flush=True)

    slab = Slab(options, world.rank, world.size)
    ranks_text = f"{world.size} rank{'' if world.size == 1 else 's'}"
    say(f"run: {options.steps} steps, {ranks_text}, grid {options.rows} x {options.columns}")
    session = None if ranks.live is None else ranks.live.session()
    slab.step(world)  # not timed
    world.Barrier()
    begin_s = time.perf_counter()
    done = 0
    while done < options.steps or (session is not None and session.more()):
        slab.step(world)
        done += 1
        if session is not None:
            session.step()
    slowest_s = max(world.allgather((time.perf_counter() - begin_s) / done))
    heat = sum(world.allgather(float(slab.field.sum())))
    error = max(world.allgather(slab.error(done + 1)))
    say(f"checksum: {heat:.9e}, largest error {error:.1e}")
    if not error < TOLERANCE:
        say(f"{NAME}: error: the result is wrong by {error:.1e}", file=sys.stderr)
        return 1
    say(f"time per step: {1000 * slowest_s:.3f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
