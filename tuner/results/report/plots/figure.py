"""What a figure is: the same in words, as numbers and as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuner.model import JsonDict

#: The rows of a figure's table at most: more are in the exports.
MOST_ROWS = 200


@dataclass(frozen=True)
class Table:
    """The numbers behind a figure, without the ``left_out`` rows beyond :data:`MOST_ROWS`."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0

    @classmethod
    def of(cls, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Table:
        """A table of these rows, cut at :data:`MOST_ROWS`."""
        return cls(head, tuple(rows[:MOST_ROWS]), max(0, len(rows) - MOST_ROWS))


@dataclass(frozen=True)
class Figure:
    """One figure.

    ``drawing`` is Plotly's ``{"data": …, "layout": …}`` without colours of page and text, which
    :data:`~.style.THEMES` has; ``None`` where there is nothing to draw: then
    ``summary`` says why. All text in it is inert (:func:`~.style.inert`);
    title, summary and table are plain text.
    """

    key: str  # letters, digits and dashes
    title: str
    summary: str  # one or two sentences, made of the numbers
    drawing: JsonDict | None = None
    table: Table | None = None
    is_extra: bool = False  # shown only where it is asked for
