"""Formats in which a result is handed over: each turns an ``ExportInput`` into text, no more.

A format is a function ``ExportInput -> Export`` in a module of this package, named in
``SHIPPED``; other packages add theirs through the entry point group ``tuner.exporters``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tuner.errors import UsageError
from tuner.model import BASELINE, LaunchRecord, Measurement, Result, Setting, StudySpec

if TYPE_CHECKING:
    from tuner.pooling import Pooling

#: The entry point group of formats that other packages bring.
GROUP = "tuner.exporters"

#: The formats of this package: where each one is.
SHIPPED = {
    "sh": "tuner.exporters.shell",
    "env": "tuner.exporters.dotenv",
    "json": "tuner.exporters.json",
    "args": "tuner.exporters.args",
    "csv": "tuner.exporters.table:csv",
    "md": "tuner.exporters.table:markdown",
}

_SUFFIXES = {".sh": "sh", ".env": "env", ".json": "json", ".csv": "csv", ".md": "md"}


@dataclass(frozen=True)
class ExportInput:
    """A study as it lies in the database: all that a format may need."""

    spec: StudySpec
    result: Result
    records: tuple[LaunchRecord, ...]
    pooling: Pooling

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """Every setting that was launched, the fastest first, failures last."""
        from tuner.stats import measurements

        found = measurements(self.records, self.pooling.canonical)
        return tuple(
            sorted(found, key=lambda m: (m.elapsed_s is None, m.elapsed_s or 0.0, m.setting.items))
        )

    @property
    def best_setting(self) -> Setting:
        """What is handed over: the best setting, the defaults where nothing was faster.

        Raises:
            UsageError: Nothing was measured, so there is nothing to hand over.
        """
        best = self.result.best
        if best is None or best.elapsed_s is None:
            raise UsageError(
                f"study {self.spec.name} has no measured setting to export",
                f"`tune show {self.spec.name}` lists why its launches failed",
            )
        reference = self.result.reference
        against_defaults = reference is not None and reference.setting.is_baseline
        if against_defaults and self.spec.fixed.is_baseline and (self.result.ratio or 0.0) <= 1.0:
            return BASELINE
        return best.setting

    @property
    def keeps_defaults(self) -> bool:
        """True where the defaults were the fastest, so that the export changes nothing."""
        return self.best_setting.is_baseline


@dataclass(frozen=True)
class Export:
    """The text of an export; ``warnings`` say what the format could not carry."""

    text: str
    warnings: tuple[str, ...] = ()
    executable: bool = False


Exporter = Callable[[ExportInput], Export]


def names() -> tuple[str, ...]:
    """The formats that ship with the tool, then those of other packages."""
    from importlib.metadata import entry_points

    others = sorted(point.name for point in entry_points(group=GROUP))
    return (*SHIPPED, *(name for name in others if name not in SHIPPED))


def format_of(filename: str) -> str | None:
    """The format that a file's suffix stands for; ``None`` where it stands for none."""
    from pathlib import PurePath

    path = PurePath(filename)
    return _SUFFIXES.get(path.suffix) or ("env" if path.name == ".env" else None)


def exporter_for(name: str) -> Exporter:
    """The format called ``name``.

    Raises:
        UsageError: There is no such format.
    """
    if name in SHIPPED:
        module, _, function = SHIPPED[name].partition(":")
        exporter: Exporter = getattr(importlib.import_module(module), function or "export")
        return exporter
    from importlib.metadata import entry_points

    for point in entry_points(group=GROUP, name=name):
        loaded: Exporter = point.load()
        return loaded
    raise UsageError(f"unknown export format: {name}", f"one of {', '.join(names())}")
