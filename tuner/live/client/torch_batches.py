"""A sampler whose epoch can go on where the training stands, not where the loader does."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any


class Batches:
    """Gives what a sampler gives, and again what was drawn but never reached the training.

    A loader draws ahead of the training. :meth:`seen` says that the training has one more;
    :meth:`rewind` that the next loader starts behind that.

    Args:
        sampler: The program's own, of batches or of samples; it starts anew in each epoch.
    """

    def __init__(self, sampler: Iterable[Any]) -> None:
        self._sampler = sampler
        self._source: Iterator[Any] = iter(())
        self._ahead: deque[Any] = deque()  # drawn, and not yet seen
        self._again: deque[Any] = deque()  # to be given before what is drawn anew

    def __len__(self) -> int:
        """How many there are in an epoch."""
        return len(self._sampler)  # type: ignore[arg-type]

    def begin(self) -> None:
        """A new epoch."""
        self._source = iter(self._sampler)
        self._ahead.clear()
        self._again.clear()

    def seen(self) -> None:
        """The training has been given the next one: loaders keep the order."""
        self._ahead.popleft()

    def rewind(self) -> None:
        """What is drawn and not seen is given again."""
        self._again.extendleft(reversed(self._ahead))
        self._ahead.clear()

    def __iter__(self) -> Iterator[Any]:
        """The rest of the epoch."""
        while True:
            if self._again:
                drawn = self._again.popleft()
            else:
                try:
                    drawn = next(self._source)
                except StopIteration:
                    return
            self._ahead.append(drawn)
            yield drawn
