"""Reads the file of a surface, and says what is wrong with one and where."""

from __future__ import annotations

import json
import math
import os
import stat
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.replay.surface import Key, Point, Run, Surface
from tuner.knobs.domains import MAX_INT
from tuner.model import Value
from tuner.model.errors import UsageError, shown, suggestion

#: What a run's numbers are, s, unless the file has them in another order.
RUN_COLUMNS = ("startup_s", "first_iteration_s", "elapsed_s")
#: The longest launch, s, some 30,000 years; one over it is the shortest.
MOST_S = 1e12
#: The largest file: the largest space is tried with a few hundred bytes a point.
_MOST_BYTES = 64 << 20
_KEYS = ("name", "ranks", "iterations", "machine", "knobs", "default", "points")


def load(path: Path) -> Surface:
    """Read a surface file.

    Raises:
        UsageError: It cannot be read or is no surface; the message names the place.
    """
    try:
        # O_NONBLOCK: opening a FIFO must not wait for a writer. A link to a surface is fine.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(_MOST_BYTES + 1) if is_regular else b""
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", "name a surface file") from error
    if not is_regular:
        raise UsageError(f"cannot read {path}: it is no regular file", "name a surface file")
    if len(data) > _MOST_BYTES:
        raise UsageError(f"{path} is larger than 64 MiB", "name a surface file")
    return parse(data, path)


def parse(data: bytes, path: Path) -> Surface:
    """The surface in the content of a file.

    Raises:
        UsageError: It is no surface; the message names the place in ``path``.
    """
    try:
        document = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON: {error}", "name a surface file") from error
    return _Reader(path).surface(document)


class _Reader:
    """Checks a document; ``where`` is the path of a value in it, as JSON users write it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def wrong(self, where: str, message: str, hint: str = "") -> UsageError:
        """The error for a mistake in one place."""
        place = f"{self._path}: {where}" if where else str(self._path)
        return UsageError(
            f"{place}: {message}", hint or "the format: benchmarks/surfaces/README.md"
        )

    def surface(self, document: Any) -> Surface:
        top = self._object(document, "")
        for key in _KEYS:
            self._member(top, key, "")
        columns = top.get("run_columns", list(RUN_COLUMNS))
        if not isinstance(columns, list) or sorted(map(str, columns)) != sorted(RUN_COLUMNS):
            raise self.wrong("run_columns", f"must be {', '.join(RUN_COLUMNS)} in some order")
        machine = self._object(top["machine"], "machine")
        knobs = self._knobs(top["knobs"])
        points = self._points(top["points"], knobs, columns)
        if not any(point.runs for point in points.values()):
            raise self.wrong("points", "every point fails: there is nothing to find")
        default = self._key(top["default"], knobs, "default")
        if default not in points:
            raise self.wrong("default", "is not among the points")
        return Surface(
            name=self._text(top["name"], "name"),
            model=bool(top.get("model", False)),
            ranks=self._count(top["ranks"], "ranks"),
            cores=self._count(
                self._member(machine, "physical_cores", "machine"), "machine.physical_cores"
            ),
            iterations=self._count(top["iterations"], "iterations"),
            knobs=knobs,
            default=default,
            points=points,
            cold=self._cold(top.get("cold", []), knobs),
        )

    def _cold(self, value: Any, knobs: dict[str, tuple[Value, ...]]) -> frozenset[str]:
        if not isinstance(value, list):
            raise self.wrong("cold", "must be a list of knobs")
        for number, name in enumerate(value):
            if not isinstance(name, str) or name not in knobs:
                raise self.wrong(f"cold[{number}]", f"{shown(name)} is no knob")
        return frozenset(value)

    def _knobs(self, value: Any) -> dict[str, tuple[Value, ...]]:
        knobs: dict[str, tuple[Value, ...]] = {}
        for name, values in self._object(value, "knobs").items():
            where = f"knobs.{name}"
            listed = self._list(values, where)
            knobs[name] = tuple(self._value(v, f"{where}[{n}]") for n, v in enumerate(listed))
            if len(set(knobs[name])) != len(listed):
                raise self.wrong(where, "names a value twice")
        if not knobs:
            raise self.wrong("knobs", "is empty")
        return knobs

    def _points(
        self, value: Any, knobs: dict[str, tuple[Value, ...]], columns: Sequence[str]
    ) -> dict[Key, Point]:
        points: dict[Key, Point] = {}
        for number, each in enumerate(self._list(value, "points")):
            where = f"points[{number}]"
            point = self._object(each, where)
            key = self._key(self._member(point, "setting", where), knobs, f"{where}.setting")
            if key in points:
                raise self.wrong(f"{where}.setting", "is the setting of an earlier point")
            points[key] = self._point(point, where, columns)
        size = math.prod(len(values) for values in knobs.values())
        if len(points) != size:
            raise self.wrong("points", f"{len(points)} of the {size} settings of the knobs")
        return points

    def _point(self, point: dict[str, Any], where: str, columns: Sequence[str]) -> Point:
        if point.get("failed", False):
            after_s = self._time(
                self._member(point, "fail_after_s", where), f"{where}.fail_after_s"
            )
            return Point((), None, after_s, str(point.get("reason") or ""))
        rows = self._list(self._member(point, "runs", where), f"{where}.runs")
        runs = tuple(
            self._run(row, f"{where}.runs[{number}]", columns) for number, row in enumerate(rows)
        )
        truth = point.get("truth_s")
        if truth is None:
            return Point(runs, statistics.median(run.elapsed_s for run in runs))
        return Point(runs, self._time(truth, f"{where}.truth_s", positive=True))

    def _run(self, row: Any, where: str, columns: Sequence[str]) -> Run:
        cells = self._list(row, where)
        if len(cells) != len(columns):
            raise self.wrong(where, f"has {len(cells)} numbers, not {len(columns)}")
        times = {
            column: self._time(cell, f"{where} ({column})", positive=column == "elapsed_s")
            for column, cell in zip(columns, cells, strict=True)
        }
        if times["first_iteration_s"] > times["elapsed_s"]:
            raise self.wrong(where, "its first iteration takes longer than the run")
        return Run(**times)

    def _key(self, value: Any, knobs: dict[str, tuple[Value, ...]], where: str) -> Key:
        setting = self._object(value, where)
        for name in setting:
            if name not in knobs:
                raise self.wrong(f"{where}.{name}", "is no knob", suggestion(name, knobs))
        key = tuple(self._value(self._member(setting, k, where), f"{where}.{k}") for k in knobs)
        for (name, values), chosen in zip(knobs.items(), key, strict=True):
            if chosen not in values:
                raise self.wrong(
                    f"{where}.{name}", f"{shown(chosen)} is not among the knob's values"
                )
        return key

    def _member(self, owner: dict[str, Any], key: str, where: str) -> Any:
        if key not in owner:
            raise self.wrong(where, f"{key} is missing")
        return owner[key]

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(where, "must be an object")
        return value

    def _list(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise self.wrong(where, "must be a list with something in it")
        return value

    def _text(self, value: Any, where: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.wrong(where, "must be a text")
        return value

    def _value(self, value: Any, where: str) -> Value:
        if isinstance(value, str) or (type(value) is int and abs(value) <= MAX_INT):
            return value
        raise self.wrong(where, "must be a whole number of up to 15 digits, or a text")

    def _count(self, value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.wrong(where, f"must be a whole number above 0, not {shown(value)}")
        return value

    def _time(self, value: Any, where: str, *, positive: bool = False) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (1 / MOST_S if positive else 0) <= value <= MOST_S:
            raise self.wrong(where, f"must be seconds, not {shown(value)}")
        return float(value)
