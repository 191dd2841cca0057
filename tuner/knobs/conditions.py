"""Which knobs a setting has if some exist only for certain values of others. Pure.

A condition on a knob that is not tuned holds; one on a knob that a setting does not have does
not. So a space with conditions, or with requirements (:mod:`tuner.knobs.requirements`), is a union
of products, its :func:`worlds`, that have no setting in common; one without is a single product.
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


#: For each knob of a study when it exists.
Conditions = Mapping[str, When]


def active(conditions: Conditions, chosen: Mapping[str, Value]) -> frozenset[str]:
    """Return the knobs that a setting with these values has.

    Values of knobs that turn out not to exist are not looked at.
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


def worlds(axes: Sequence[KnobAxis], requirements: Requirements = NONE) -> Iterator[World]:
    """Yield the products that make up the space: per existing knob the values that it can have.

    Together they hold each setting once. Without a condition it is one, in the axes' order.
    There may be exponentially many; the first few cost no more than themselves.
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
        free = (i for i, axis in enumerate(waiting) if names.isdisjoint(dict(axis.when)))
        ordered.append(waiting.pop(next(free, 0)))
    return ordered


def size(axes: Sequence[KnobAxis], requirements: Requirements = NONE) -> int:
    """Return how many settings there are."""
    return sum(math.prod(map(len, world.values())) for world in worlds(axes, requirements))


def _parts(axis: KnobAxis, axes: Iterable[KnobAxis]) -> list[tuple[Value, ...]]:
    """Return the values in groups: no condition of another knob tells those of a group apart."""
    value_sets = [
        frozenset(values) for other in axes for parent, values in other.when if parent == axis.name
    ]
    alike: dict[tuple[bool, ...], list[Value]] = {}
    for value in axis.values:
        alike.setdefault(tuple(value in value_set for value_set in value_sets), []).append(value)
    return [tuple(values) for values in alike.values()] or [()]
