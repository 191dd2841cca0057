"""The times of a window's iterations, of which there may be very many, as few values. Pure.

A window of 20 microseconds an iteration has tens of thousands of them: to look at each, again and
again, takes longer than the window, on the cores of the ranks. So they are kept as means of
batches, all of the same size, which doubles whenever there are too many (Schmeiser, "Batch size
effects in the analysis of simulation output", Operations Research 30 (1982) 556-568; Law and
Kelton, "Simulation Modeling and Analysis", 9.5.3). Their mean is that of the iterations, and so is
the standard error of it, where what correlates lies within some batches.
"""

from __future__ import annotations

#: Of so many values neighbours are joined in pairs; even. Batch means want no more than some ten
#: values; those that are slow for coming first are told apart by far more.
MOST = 1000


class Batches:
    """Values in the order they came, as means of batches.

    Attributes:
        each: So many values each mean stands for, a power of 2; 1 up to `MOST` values.
        means: Those of the batches that are full, the oldest first; fewer than `MOST`.
        seen: How many values came.
    """

    def __init__(self) -> None:
        self.each, self.means, self.seen = 1, list[float](), 0
        self._sum, self._missing = 0.0, 1

    def add(self, value: float) -> None:
        """Take one more."""
        self.seen += 1
        self._sum += value
        self._missing -= 1
        if not self._missing:
            self.means.append(self._sum / self.each)
            if len(self.means) >= MOST:
                self._join()
            self._sum, self._missing = 0.0, self.each

    def _join(self) -> None:
        pairs = zip(self.means[::2], self.means[1::2], strict=True)
        self.means = [(first + second) / 2 for first, second in pairs]
        self.each *= 2


class Iterations:
    """The iterations since a switch."""

    def __init__(self) -> None:
        self._all, self._plain = Batches(), Batches()

    @property
    def seen(self) -> int:
        """How many there were."""
        return self._all.seen

    def add(self, time_s: float, marked: bool) -> None:
        """Take one more.

        Args:
            time_s: What it took, s.
            marked: It had something else in it.
        """
        self._all.add(time_s)
        if not marked:
            self._plain.add(time_s)

    @property
    def counted(self) -> Batches:
        """Those that count: the marked ones do not, unless it is more than half of all."""
        return self._plain if 2 * self._plain.seen >= self._all.seen else self._all
