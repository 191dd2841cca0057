"""Formats in which a result is handed over: each turns a ``StudyView`` into text.

Only those of ``tracking`` do more: they log the study to a server.

A format is a function ``StudyView -> Export`` in a module of this package, named in
``SHIPPED``; other packages add theirs through the entry point group ``tuner.exporters``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from tuner.model import plugins
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.results.study_view import StudyView

#: The entry point group of formats that other packages bring.
GROUP = "tuner.exporters"

#: The formats of this package: where each one is.
SHIPPED = {
    "sh": "tuner.results.exporters.shell:script",
    "env": "tuner.results.exporters.shell:environment",
    "json": "tuner.results.exporters.json:export",
    "args": "tuner.results.exporters.shell:arguments",
    "csv": "tuner.results.exporters.tables:csv",
    "slurm": "tuner.results.exporters.slurm:script",
    "container": "tuner.results.exporters.container:script",
    "mpijob": "tuner.results.exporters.mpijob:manifest",
    "md": "tuner.results.exporters.tables:markdown",
    "mlflow": "tuner.results.exporters.tracking:mlflow",
    "wandb": "tuner.results.exporters.tracking:wandb",
}


@dataclass(frozen=True)
class Export:
    """The text of an export; ``warnings`` say what the format could not carry."""

    text: str
    warnings: tuple[str, ...] = ()
    executable: bool = False


Exporter = Callable[["StudyView"], Export]


def names() -> tuple[str, ...]:
    """Return the formats that ship with the tool, then those of other packages."""
    return tuple(plugins.entries(GROUP, SHIPPED))


def format_of(filename: str) -> str:
    """Return the format that the suffix of a file's name stands for; ``sh`` if it has none.

    Raises:
        UsageError: The suffix stands for no format.
    """
    path = PurePath(filename)
    suffix = path.suffix or (path.name if path.name == ".env" else ".sh")
    name = suffix[1:]
    if name not in names():
        raise UsageError(
            f"{filename}: no format goes by the suffix {suffix}",
            f"say which with --format: {', '.join(names())}",
        )
    return name


def exporter_for(name: str) -> Exporter:
    """Return the format called ``name``.

    Raises:
        UsageError: There is no such format, or the package that brought it is broken.
    """
    exporter: Exporter = plugins.find(GROUP, SHIPPED, name, what="export format")
    return exporter
