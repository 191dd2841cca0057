"""Which knobs a setting has, where some exist only for certain values of others. Pure.

A condition on a knob that is not tuned holds; one on a knob that a setting does not have does
not. So a space with conditions is a union of products, its :func:`worlds`, that have no setting
in common; one without is a single product.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from tuner.model import Value, When


class Axis(Protocol):
    """A knob with its values listed."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def values(self) -> tuple[Value, ...]:
        """What it can be."""

    @property
    def when(self) -> When:
        """Where it exists."""


#: Per knob of a study where it exists.
Conditions = Mapping[str, When]


def active(conditions: Conditions, chosen: Mapping[str, Value]) -> frozenset[str]:
    """The knobs that a setting with these values has.

    Args:
        conditions: All knobs of the study.
        chosen: A value for each of them; those of knobs that turn out not to be there are not
            looked at.
    """
    names = set(conditions)
    while gone := {
        name
        for name in names
        if not all(
            parent not in conditions or (parent in names and chosen.get(parent) in values)
            for parent, values in conditions[name]
        )
    }:
        names -= gone
    return frozenset(names)


def worlds(axes: Sequence[Axis]) -> Iterator[dict[str, tuple[Value, ...]]]:
    """The products that make up the space: per knob that is there the values it can have.

    Together they hold each setting once. Without a condition it is one, in the axes' order.
    """
    conditions = {axis.name: axis.when for axis in axes}
    parts = {axis.name: _parts(axis, axes) for axis in axes}
    seen: set[tuple[tuple[Value, ...], ...]] = set()
    for picked in itertools.product(*(parts[axis.name] for axis in axes)):
        of = dict(zip(conditions, picked, strict=True))
        there = active(conditions, {name: values[0] for name, values in of.items() if values})
        # The parts of a knob that is not there make no difference.
        key = tuple(values if name in there else () for name, values in of.items())
        if key not in seen:
            seen.add(key)
            yield {name: values for name, values in of.items() if name in there}


def _parts(axis: Axis, axes: Iterable[Axis]) -> list[tuple[Value, ...]]:
    """The axis's values, those together that mean the same to all that depends on it."""
    asked = [
        frozenset(values) for other in axes for parent, values in other.when if parent == axis.name
    ]
    alike: dict[tuple[bool, ...], list[Value]] = {}
    for value in axis.values:
        alike.setdefault(tuple(value in wanted for wanted in asked), []).append(value)
    return [tuple(values) for values in alike.values()] or [()]


def cycle(conditions: Conditions) -> tuple[str, ...]:
    """Knobs whose conditions depend on each other in a circle; empty where there is none."""
    for start in conditions:
        path, here = [start], [parent for parent, _ in conditions[start]]
        seen: set[str] = set()
        while here:
            name = here.pop()
            if name == start:
                return tuple(path)
            if name in conditions and name not in seen:
                seen.add(name)
                path.append(name)
                here += [parent for parent, _ in conditions[name]]
    return ()
