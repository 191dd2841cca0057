"""Finds pieces of a kind by name: the shipped ones first, then those of other packages.

Both are entry points, so that they load, and fail to load, in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tuner.model.errors import UsageError, suggestion


def entries(group: str, shipped: Mapping[str, str]) -> dict[str, EntryPoint]:
    """Return every entry of a group by its name: the shipped ones (``module:object``) first."""
    by_name = {name: EntryPoint(name, value, group) for name, value in shipped.items()}
    others = sorted(entry_points(group=group), key=lambda entry: entry.name)
    return by_name | {entry.name: entry for entry in others if entry.name not in shipped}


def load(entry: EntryPoint) -> Any:
    """Return what an entry stands for; a `UsageError` if the package that brought it is broken."""
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        package = entry.dist.name if entry.dist is not None else "runtime-tuner"
        raise UsageError(
            f"{entry.group}: {entry.name} ({entry.value}) of the package {package} cannot be"
            f" loaded: {error}",
            f"repair or uninstall {package}",
        ) from error


def find(group: str, shipped: Mapping[str, str], name: str, *, what: str) -> Any:
    """Return what a name of a group stands for; a `UsageError` if it is unknown or broken."""
    if name in shipped:  # it has precedence, and a look through all packages takes 5 ms
        return load(EntryPoint(name, shipped[name], group))
    by_name = entries(group, shipped)
    if name in by_name:
        return load(by_name[name])
    near = suggestion(name, by_name)
    raise UsageError(
        f"unknown {what}: {name}", f"{near} Packages add others as entry points of {group}."
    )
