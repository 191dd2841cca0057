"""Formats in which a result is handed over: each turns an ``ExportInput`` into text, no more.

A format is a function ``ExportInput -> Export`` in a module of this package, named in
``SHIPPED``; other packages add theirs through the entry point group ``tuner.results.exporters``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

from tuner.model import BASELINE, LaunchRecord, Measurement, Result, Setting, StudySpec, plugins
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.knobs.pooling import Pooling

#: The entry point group of formats that other packages bring.
GROUP = "tuner.exporters"

#: The formats of this package: where each one is.
SHIPPED = {
    "sh": "tuner.results.exporters.shell:export",
    "env": "tuner.results.exporters.dotenv:export",
    "json": "tuner.results.exporters.json:export",
    "args": "tuner.results.exporters.args:export",
    "csv": "tuner.results.exporters.table:csv",
    "md": "tuner.results.exporters.table:markdown",
}

_SUFFIXES = {".sh": "sh", ".env": "env", ".json": "json", ".csv": "csv", ".md": "md"}


@dataclass(frozen=True)
class StudyView:
    """A study as it lies in the database: all that a format may need."""

    spec: StudySpec
    result: Result
    records: tuple[LaunchRecord, ...]
    pooling: Pooling

    @cached_property
    def measurements(self) -> tuple[Measurement, ...]:
        """Every setting that was launched: the fastest first, then stopped ones, then failures."""
        from tuner.stats.estimates import measurements

        return tuple(sorted(measurements(self.records, self.pooling.canonical), key=_rank))

    @property
    def best_setting(self) -> Setting:
        """What is handed over: the best setting, the defaults where nothing is proven faster.

        Before the confirmation has ended, or without one, the medians decide.

        Raises:
            UsageError: Nothing was measured, so there is nothing to hand over.
        """
        best = self.result.best
        if best is None or best.elapsed_s is None:
            raise UsageError(
                f"study {self.spec.name} has no measured setting to export",
                f"`tune show {self.spec.name}` lists why its launches failed",
            )
        if self.result.export is not None:
            return self.result.export
        reference = self.result.reference
        against_defaults = reference is not None and reference.setting.is_baseline
        ratio = self.result.ratio
        keeps = against_defaults and ratio is not None and ratio <= 1.0
        return BASELINE if keeps and self.spec.fixed.is_baseline else best.setting

    @property
    def keeps_defaults(self) -> bool:
        """True where nothing is known to be faster, so that the export changes nothing."""
        return self.best_setting.is_baseline


def _rank(found: Measurement) -> tuple[int, float, str]:
    if found.elapsed_s is not None:
        return 0, found.elapsed_s, found.setting.to_json()
    if found.stopped is not None:
        return 1, found.stopped.projection_s, found.setting.to_json()
    return 2, 0.0, found.setting.to_json()


@dataclass(frozen=True)
class Export:
    """The text of an export; ``warnings`` say what the format could not carry."""

    text: str
    warnings: tuple[str, ...] = ()
    executable: bool = False


Exporter = Callable[[StudyView], Export]


def names() -> tuple[str, ...]:
    """The formats that ship with the tool, then those of other packages."""
    return plugins.names(GROUP, SHIPPED)


def format_of(filename: str) -> str:
    """The format that a file's name stands for: by its suffix, ``sh`` where it has none.

    Raises:
        UsageError: The suffix stands for no format.
    """
    path = PurePath(filename)
    suffix = path.suffix or (path.name if path.name == ".env" else ".sh")
    name = _SUFFIXES.get(suffix, suffix[1:])
    if name not in names():
        raise UsageError(
            f"{filename}: no format goes by the suffix {suffix}",
            f"say which with --format: {', '.join(names())}",
        )
    return name


def exporter_for(name: str) -> Exporter:
    """The format called ``name``.

    Raises:
        UsageError: There is no such format, or the package that brought it is broken.
    """
    exporter: Exporter = plugins.find(GROUP, SHIPPED, name, what="export format")
    return exporter
