"""Which knobs a setting has if some exist only for certain values of others. Pure.

A condition on a knob that is not tuned holds; a condition on a knob that a setting does not have
fails. So a space with conditions, or with requirements (:mod:`tuner.knobs.requirements`), is a
union of products, its :func:`worlds`, that have no setting in common; without it is one product.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tuner.knobs import Role
from tuner.knobs.requirements import NONE, Requirements, World
from tuner.model import Value, When


class _Named(Protocol):
    """A knob, and when it exists."""

    @property
    def name(self) -> str: ...

    @property
    def when(self) -> When: ...


Conditional = TypeVar("Conditional", bound=_Named)


@dataclass(frozen=True)
class KnobAxis:
    """A knob with its values listed, its role in the core budget, and when it exists.

    A setting may leave an ``optional`` knob out.
    """

    name: str
    values: tuple[Value, ...]
    role: Role | None = None
    when: When = ()
    optional: bool = False

    @property
    def may_lack(self) -> bool:
        """Whether some settings have no value of the knob."""
        return self.optional or bool(self.when)

    @property
    def ordered(self) -> bool:
        """Whether the values are numbers of which there are two or more."""
        return len(self.values) > 1 and all(isinstance(v, int) for v in self.values)


#: When each knob of a study exists.
Conditions = Mapping[str, When]


def active(conditions: Conditions, chosen: Mapping[str, Value]) -> frozenset[str]:
    """Return the knobs that a setting with these values has.

    Values of knobs that do not exist in the setting count for no condition.
    """
    names = set(conditions)
    while failing := {
        name
        for name in names
        if not all(
            parent not in conditions or (parent in names and chosen.get(parent) in values)
            for parent, values in conditions[name]
        )
    }:
        names -= failing
    return frozenset(names)


def worlds(axes: Sequence[KnobAxis], requirements: Requirements = NONE) -> Iterator[World]:
    """Yield the products that make up the space: per existing knob the values that it can have.

    Together they hold each setting once. Without a condition there is one, in the order of the
    axes. There may be exponentially many, and each is made only when it is asked for.
    """
    ordered, names = parents_first(axes), {axis.name for axis in axes}
    parts = {axis.name: _parts(axis, axes) for axis in axes}
    stack: list[tuple[int, dict[str, tuple[Value, ...]]]] = [(0, {})]
    while stack:
        place, world = stack.pop()
        if place == len(ordered):
            yield from requirements.parts(
                {axis.name: world[axis.name] for axis in axes if axis.name in world}
            )
            continue
        name = ordered[place].name
        if all(
            parent not in names or not set(values).isdisjoint(world.get(parent, ()))
            for parent, values in ordered[place].when
        ):
            stack += [(place + 1, {**world, name: part}) for part in reversed(parts[name])]
        else:
            stack.append((place + 1, world))


def parents_first(axes: Iterable[Conditional]) -> list[Conditional]:
    """Return the knobs in their order, but each after those that it depends on."""
    waiting, ordered = list(axes), list[Conditional]()
    while waiting:
        names = {axis.name for axis in waiting}
        ready = (i for i, axis in enumerate(waiting) if names.isdisjoint(dict(axis.when)))
        ordered.append(waiting.pop(next(ready, 0)))
    return ordered


def size(axes: Sequence[KnobAxis], requirements: Requirements = NONE) -> int:
    """Return how many settings there are."""
    return sum(math.prod(map(len, world.values())) for world in worlds(axes, requirements))


def _parts(axis: KnobAxis, axes: Iterable[KnobAxis]) -> list[tuple[Value, ...]]:
    """Return the values in groups: a condition of another knob holds for a whole group or none."""
    value_sets = [
        frozenset(values) for other in axes for parent, values in other.when if parent == axis.name
    ]
    groups: dict[tuple[bool, ...], list[Value]] = {}
    for value in axis.values:
        groups.setdefault(tuple(value in value_set for value_set in value_sets), []).append(value)
    return [tuple(values) for values in groups.values()] or [()]
