"""Values over time in bounded room: where there are too many intervals, neighbours are joined.

Totals and peaks survive: a mean is weighted with the length of its interval, and the columns
of `PEAKS` keep their greatest value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.model import Track

#: So many intervals at most, and no fewer where there are many ranks; even numbers.
MOST_POINTS, LEAST_POINTS = 200, 20

#: So many values for all ranks of a host together.
MOST_VALUES = 40_000

#: Columns of which the greatest value is kept, not the mean.
PEAKS = frozenset({"network_burst_bytes_per_s", "memory_bytes", "gpu_memory_bytes", "threads"})

Row = Mapping[str, float | None]


@dataclass(frozen=True)
class Point:
    """One interval."""

    begin_s: float
    end_s: float
    row: Row

    @property
    def length_s(self) -> float:
        """How long it is."""
        return self.end_s - self.begin_s


def joined(first: Point, second: Point) -> Point:
    """Two intervals, one after the other, as one; both have the same columns."""
    row = {name: _join(name, first, second) for name in first.row}
    return Point(first.begin_s, second.end_s, row)


def _join(name: str, first: Point, second: Point) -> float | None:
    one, other = first.row[name], second.row[name]
    if one is None or other is None:
        return other if one is None else one
    if name in PEAKS:
        return max(one, other)
    length_s = first.length_s + second.length_s
    if not length_s:
        return (one + other) / 2
    # Written so that it lies between the two, whatever is rounded.
    return one + (other - one) * (second.length_s / length_s)


def points_for(ranks: int, columns: int) -> int:
    """How many intervals the track of each rank may have, an even number."""
    share = MOST_VALUES // max(1, ranks * columns)
    return max(LEAST_POINTS, min(MOST_POINTS, share)) // 2 * 2


class Series:
    """The intervals of one track, in the order they come.

    Args:
        most: So many are kept, an even number.
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most = most
        self._stride = 1  # intervals as they come to one that is kept
        self._last = 0  # of these are in the last one
        self._points: list[Point] = []

    def add(self, begin_s: float, end_s: float, row: Row) -> None:
        """Add an interval, the same columns each time."""
        point = Point(begin_s, end_s, row)
        if self._points and self._last < self._stride:
            self._points[-1] = joined(self._points[-1], point)
            self._last += 1
            return
        if len(self._points) == self._most:
            self._points = halved(self._points)
            self._stride *= 2
        self._points.append(point)
        self._last = 1

    @property
    def points(self) -> Sequence[Point]:
        """What is kept so far."""
        return self._points

    def track(self, host: str, rank: int | None) -> Track:
        """As a track, the values rounded to four digits."""
        names = self._points[0].row if self._points else ()
        columns = {name: tuple(_short(p.row[name]) for p in self._points) for name in names}
        return Track(host, rank, tuple(round(p.end_s, 3) for p in self._points), columns)


def halved(points: Sequence[Point]) -> list[Point]:
    """Each two neighbours as one; a last one that has none stays as it is."""
    pairs = [joined(*pair) for pair in zip(points[::2], points[1::2], strict=False)]
    return pairs + list(points[len(pairs) * 2 :])


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
