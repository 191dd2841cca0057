"""What is found by name: the shipped pieces first, then those of other packages.

Both are entry points, so that they load, and fail to load, in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from tuner.model.errors import UsageError, suggestion


def entries(group: str, shipped: Mapping[str, str]) -> Iterator[EntryPoint]:
    """Every entry of a group, the shipped ones (name -> ``module:object``) first."""
    for name, value in shipped.items():
        yield EntryPoint(name=name, value=value, group=group)
    yield from (point for point in entry_points(group=group) if point.name not in shipped)


def names(group: str, shipped: Mapping[str, str]) -> tuple[str, ...]:
    """The names of a group, the shipped ones first, the others sorted."""
    found = [entry.name for entry in entries(group, shipped)]
    return (*found[: len(shipped)], *sorted(set(found[len(shipped) :])))


def load(entry: EntryPoint) -> Any:
    """What an entry stands for.

    Raises:
        UsageError: The package that brought it is broken.
    """
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        package = entry.dist.name if entry.dist is not None else "tuner"
        raise UsageError(
            f"{entry.group}: {entry.name} ({entry.value}) of the package {package} cannot be"
            f" loaded: {error}",
            f"repair or uninstall {package}",
        ) from error


def find(group: str, shipped: Mapping[str, str], name: str, *, what: str) -> Any:
    """What a name of a group stands for.

    Raises:
        UsageError: There is none of this name, or its package is broken.
    """
    for entry in entries(group, shipped):
        if entry.name == name:
            return load(entry)
    near = suggestion(name, names(group, shipped))
    raise UsageError(
        f"unknown {what}: {name}", f"{near} Packages add others as entry points of {group}."
    )
