"""The core budget: how many cores of a host a setting asks for, and how many there are. Pure.

A setting asks for ranks on the host x (threads + workers x threads of a worker). Cores are
physical ones, within affinity and cgroup quota: two hardware threads of a core share its units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tuner.knobs import ROLES, Role
from tuner.knobs.conditions import worlds
from tuner.knobs.requirements import requirements_of
from tuner.knobs.space import axes
from tuner.model import StudySpec, Value, wording

#: By default settings are tried that ask for up to this many times the cores.
OVERSUBSCRIPTION = 4.0


def default_numbers(ranks_per_host: int) -> dict[Role, int]:
    """Return the number of each role if no knob gives another."""
    return {"ranks": ranks_per_host, "threads": 1, "workers": 0, "worker_threads": 1}


def core_demand(ranks: Any, threads: Any, workers: Any, worker_threads: Any) -> Any:
    """Return how many cores the ranks on a host keep busy, from numbers or from arrays."""
    return ranks * (threads + workers * worker_threads)


def most_demand(spec: StudySpec) -> float | None:
    """Return how many times the usable cores a setting may ask for; ``None``: no bound.

    If the knobs ask for more than the cores at least, the bound is a multiple of that.
    """
    if spec.oversubscription is None or not any(knob.name in ROLES for knob in spec.knobs):
        return None
    least = _cores_used(spec, min) / spec.machine.usable_cores
    return spec.oversubscription * max(1.0, least)


def _cores_used(spec: StudySpec, pick: Callable[[Iterable[int]], int]) -> int:
    """Return how many cores a host needs if each role has the number that `pick` chooses."""
    numbers_by_default = default_numbers(spec.layout.ranks_per_host)
    return pick(
        core_demand(**{role: pick(numbers) for role, numbers in counts.items()})
        for world in worlds(axes(spec.knobs), requirements_of(spec))
        for counts in [_counts(world, numbers_by_default)]
    )


def _counts(
    world: Mapping[str, Sequence[Value]], numbers_by_default: Mapping[Role, int]
) -> Mapping[Role, tuple[int, ...]]:
    """Return the numbers that each role can take; a value that is none (``unset``) counts as 1."""
    numbers_by_role: dict[Role, tuple[int, ...]] = {r: (n,) for r, n in numbers_by_default.items()}
    for name, values in world.items():
        if role := ROLES.get(name):
            least = 0 if role == "workers" else 1
            numbers = (value if isinstance(value, int) else 1 for value in values)
            numbers_by_role[role] = tuple(max(number, least) for number in numbers)
    return numbers_by_role


def summary(spec: StudySpec) -> str:
    """Return how many cores settings ask for and how many there are; empty: no knob counts them."""
    if not any(knob.name in ROLES for knob in spec.knobs):
        return ""
    least, most = (_cores_used(spec, pick) for pick in (min, max))
    ranks = "ranks" if spec.rank_counts else wording.count(spec.layout.ranks_per_host, "rank")
    where = "this" if spec.layout.is_local else "the smallest"
    return (
        f"{ranks} x (threads + workers x their threads): settings ask for {least:g} to {most:g}"
        f" cores; {where} host has {spec.machine.usable_cores}"
    )


def left_out(spec: StudySpec) -> str:
    """Return what the budget leaves out and why, in a sentence; empty if it leaves out nothing."""
    most, cores = most_demand(spec), spec.machine.usable_cores
    if most is None or _cores_used(spec, max) <= most * cores:
        return ""
    why = f"--oversubscribe {spec.oversubscription:g}"
    if most > (spec.oversubscription or most):
        why += ", in multiples of the least that the knobs can ask for"
    return (
        f"not tried: settings that ask for more than {most * cores:g}, {most:g} times as many"
        f" ({why})"
    )
