"""The core budget: what a setting asks of a host's cores against what there is. Pure.

A setting asks for ranks on the host x (threads + workers x threads of a worker). Cores are
physical ones, within affinity and cgroup quota: two hardware threads of a core share its units.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tuner.knobs import ROLES, Role
from tuner.model import Choice, IntRange, Knob, Layout, Machine, StudySpec

#: Where nothing else is asked for, settings are tried that want up to this many times the cores.
OVERSUBSCRIPTION = 4.0

#: What a rank has of each where no knob says otherwise.
UNASKED: dict[Role, int] = {"threads": 1, "workers": 0, "worker_threads": 1}


def usable_cores(machine: Machine) -> int:
    """Physical cores that may be used, at least 1."""
    share = min(1.0, machine.affinity_cpus / max(1, machine.logical_cpus))
    physical = max(1, math.ceil(machine.physical_cores * share))
    return max(1, min(machine.cores, physical))


def asked_per_rank(threads: Any, workers: Any, worker_threads: Any) -> Any:
    """The cores that a rank with its workers keeps busy; of numbers or of arrays."""
    return threads + workers * worker_threads


def most_demand(spec: StudySpec) -> float | None:
    """The most that is tried, in multiples of the usable cores; ``None``: there is no bound.

    The least that the knobs can ask for is always tried, and as many times as much.
    """
    if spec.oversubscription is None or not any(knob.name in ROLES for knob in spec.knobs):
        return None
    return spec.oversubscription * max(1.0, _least(spec.knobs, spec.layout, spec.machine))


def _least(knobs: Sequence[Knob], layout: Layout, machine: Machine) -> float:
    return _asked(knobs, layout, min) / usable_cores(machine)


def _asked(knobs: Sequence[Knob], layout: Layout, pick: Callable[[Sequence[int]], int]) -> int:
    """The cores that a host is asked for with the number picked of each role."""
    chosen = {role: pick(numbers) for role, numbers in counts(knobs).items()}
    per_rank: int = asked_per_rank(**chosen)
    return layout.ranks_per_host * per_rank


def counts(knobs: Sequence[Knob]) -> Mapping[Role, tuple[int, ...]]:
    """The numbers that each role can take; a role without a knob has what is not asked for."""
    found: dict[Role, tuple[int, ...]] = {role: (n,) for role, n in UNASKED.items()}
    for knob in knobs:
        role = ROLES.get(knob.name)
        if role:
            least = 0 if role == "workers" else 1
            found[role] = tuple(max(number, least) for number in _numbers(knob))
    return found


def _numbers(knob: Knob) -> tuple[int, ...]:
    """The number that each value counts as: 1 where it is none, such as ``unset``."""
    domain = knob.domain
    if isinstance(domain, Choice):
        return tuple(value if isinstance(value, int) else 1 for value in domain.values)
    assert isinstance(domain, IntRange)
    assert isinstance(domain.high, int), f"{knob.name} is not resolved"
    return tuple(range(domain.low, domain.high + 1))


def beyond(spec: StudySpec) -> int:
    """How many settings of the space ask for more than is tried."""
    most = most_demand(spec)
    if most is None:
        return 0
    per_rank = most * usable_cores(spec.machine) / spec.layout.ranks_per_host + 1e-9
    numbers = counts(spec.knobs)
    workers = sorted(numbers["workers"])
    out = sum(
        len(workers) - bisect_right(workers, (per_rank - threads) / each)
        for threads in numbers["threads"]
        for each in numbers["worker_threads"]
    )
    others = [knob for knob in spec.knobs if knob.name not in ROLES]
    return out * math.prod(len(_numbers(knob)) for knob in others)


def summary(spec: StudySpec) -> str:
    """What the space asks for against what there is; empty where no knob counts cores."""
    if not any(knob.name in ROLES for knob in spec.knobs):
        return ""
    cores = usable_cores(spec.machine)
    least, most = (_asked(spec.knobs, spec.layout, pick) for pick in (min, max))
    return (
        f"{spec.layout.ranks_per_host} ranks x (threads + workers x their threads) ask for"
        f" {least:g} to {most:g} cores; this host has {cores} for them"
    )


def left_out(spec: StudySpec) -> str:
    """What the budget leaves out and why, in a sentence; empty where it leaves out nothing."""
    number, most = beyond(spec), most_demand(spec)
    if not number or most is None:
        return ""
    cores = usable_cores(spec.machine)
    why = f"--oversubscribe {spec.oversubscription:g}"
    if most > (spec.oversubscription or most):
        why += ", in multiples of the least that the knobs can ask for"
    return (
        f"not tried: {number} of the settings, which ask for more than {most * cores:g},"
        f" {most:g} times as many ({why})"
    )
