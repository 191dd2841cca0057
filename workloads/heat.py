r"""The heat equation on a torus, and the share of one rank.

.. math:: u_t = \partial_x (a(x)\, \partial_x u) + u_{yy}, \quad a(x) = 1 + \cos(x) / 2

on :math:`[0, 2\pi)^2`, periodic, from a field whose solution is known. Along x (the columns) it is
discretised by Fourier collocation (Trefethen, Spectral Methods in MATLAB, SIAM 2000, chapter 3),
whose matrix is dense, and stepped by backward Euler; along y (the rows) by second differences and
explicit steps. Heat is conserved by both, to the rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float64]

#: The largest difference from the known solution that is rounding; a lost row makes 1e-2 and more.
TOLERANCE = 1e-8

#: Explicit steps are stable up to 1/2.
_RATIO = 0.25

#: The field's waves along y: (number, amplitude of the cosine, of the sine).
_WAVES = ((1, 1.0, 0.0), (3, 0.0, 0.5))


class World(Protocol):
    """What is needed of an MPI communicator."""

    def Sendrecv(  # noqa: N802, PLR0917 -- MPI's name and order
        self,
        sendbuf: Any,
        dest: int,
        sendtag: int = ...,
        recvbuf: Any = ...,
        source: int = ...,
        recvtag: int = ...,
    ) -> None:
        """Send to one rank and receive from another."""
        ...


@dataclass(frozen=True)
class Problem:
    """A grid, and how it is stepped: ``sweeps`` explicit steps along y to one along x."""

    rows: int
    columns: int
    sweeps: int

    @property
    def duration(self) -> float:
        """Time that one step covers; the explicit ones stay stable."""
        return self.sweeps * _RATIO * (2 * math.pi / self.rows) ** 2

    def propagator(self) -> Field:
        """The matrix of a backward Euler step along x: columns x columns, symmetric."""
        size = self.columns
        points = 2 * math.pi * np.arange(size) / size
        slope = differentiation(size)
        spread = slope @ ((1 + np.cos(points) / 2)[:, None] * slope)
        return np.asarray(np.linalg.inv(np.eye(size) - self.duration * spread), np.float64)

    def waves(self, first: int, count: int, steps: int) -> Field:
        """The part of the solution that depends on y, for rows ``first`` to ``first + count``.

        A wave of number m is an eigenvector of the second differences.
        """
        angles = 2 * math.pi * np.arange(first, first + count) / self.rows
        part = np.zeros(count)
        for number, cosine, sine in _WAVES:
            damping = 1 - 4 * _RATIO * math.sin(math.pi * number / self.rows) ** 2
            wave = cosine * np.cos(number * angles) + sine * np.sin(number * angles)
            part += damping ** (steps * self.sweeps) * wave
        return part

    def profile(self) -> Field:
        """The part of the field at the start that depends on x."""
        profile: Field = np.exp(np.sin(2 * math.pi * np.arange(self.columns) / self.columns))
        return profile


class Slab:
    """The rows of one rank, with one row of each neighbour's around them.

    The first ``rows % size`` ranks have one row more than the others.
    """

    def __init__(self, problem: Problem, rank: int, size: int) -> None:
        each, more = divmod(problem.rows, size)
        self._problem = problem
        self._above, self._below = (rank - 1) % size, (rank + 1) % size
        self._first, self._count = rank * each + min(rank, more), each + (rank < more)
        self._propagator = problem.propagator()
        self._padded: Field = np.empty((self._count + 2, problem.columns))
        self._change: Field = np.empty((self._count, problem.columns))
        self.field[:] = self._known(0)

    @property
    def field(self) -> Field:
        """This rank's rows, as they are now: a view."""
        return self._padded[1:-1]

    def step(self, world: World) -> None:
        """Advance by one step, together with all other ranks."""
        for _ in range(self._problem.sweeps):
            self._exchange(world)
            self._sweep()
        np.matmul(self.field, self._propagator, out=self._change)
        self.field[:] = self._change

    def total(self) -> float:
        """The heat in this rank's rows, in units of one cell's."""
        return float(self.field.sum())

    def error(self, steps: int) -> float:
        """The largest difference from the known solution after ``steps`` steps."""
        error = float(np.abs(self.field - self._known(steps)).max())
        return error if math.isfinite(error) else math.inf

    def _known(self, steps: int) -> Field:
        profile = self._problem.profile()
        for _ in range(steps):
            profile = self._propagator @ profile
        waves = self._problem.waves(self._first, self._count, steps)
        return 1 + np.outer(waves, profile)

    def _exchange(self, world: World) -> None:
        """Fill the rows around this rank's from the neighbours'."""
        padded = self._padded
        world.Sendrecv(padded[1], self._above, 1, padded[-1], self._below, 1)
        world.Sendrecv(padded[-2], self._below, 2, padded[0], self._above, 2)

    def _sweep(self) -> None:
        padded, change = self._padded, self._change
        np.add(padded[:-2], padded[2:], out=change)
        change -= 2 * self.field
        change *= _RATIO
        self.field[:] += change


def differentiation(size: int) -> Field:
    """The matrix that differentiates a periodic function at ``size`` points of [0, 2 pi)."""
    numbers = 1j * np.arange(size // 2 + 1)
    if size % 2 == 0:
        numbers[-1] = 0  # the saw-tooth's slope is 0 at the points
    spectra = numbers[:, None] * np.fft.rfft(np.eye(size), axis=0)
    matrix: Field = np.fft.irfft(spectra, size, axis=0)
    return matrix
