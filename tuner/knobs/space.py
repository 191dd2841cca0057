"""The space of settings: domains cut to the machine, counted and walked (pure)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tuner.knobs import ROLES, conditions
from tuner.knobs import guesses as first_guesses
from tuner.knobs.conditions import KnobAxis, active, worlds
from tuner.knobs.requirements import NONE, Requirements, requirements_of
from tuner.model import (
    Choice,
    Domain,
    IntRange,
    Knob,
    Layout,
    Machine,
    Setting,
    StudySpec,
    Value,
)


def resolve(
    knobs: Sequence[Knob], machine: Machine, layout: Layout, *, own: frozenset[str] = frozenset()
) -> tuple[Knob, ...]:
    """Return the knobs with their domains cut to what this machine and layout can use.

    ``own`` names the knobs whose domain the user gave: their values are not cut, only the word
    ``cores`` is replaced by its number.
    """
    has_gpu_per_rank = len(machine.gpus) >= layout.ranks_per_host
    resolved = []
    for knob in knobs:
        allowed = values(knob.domain, machine)
        if not has_gpu_per_rank and knob.name not in own:
            allowed = tuple(value for value in allowed if value not in knob.gpu_values)
        domain: Domain = Choice(allowed)
        if isinstance(knob.domain, IntRange):
            domain = IntRange(knob.domain.low, max(v for v in allowed if isinstance(v, int)))
        resolved.append(replace(knob, domain=domain, gpu_values=()))
    return tuple(resolved)


def values(domain: Domain, machine: Machine | None = None) -> tuple[Value, ...]:
    """Return every value of a domain, in order; ``machine`` is needed for ``1..cores`` only."""
    if isinstance(domain, Choice):
        return domain.values
    if isinstance(domain.high, int):
        return tuple(range(domain.low, domain.high + 1))
    if machine is None:
        raise ValueError(f"{domain} is not resolved: it needs a machine")
    return tuple(range(domain.low, max(domain.low, machine.cores) + 1))


def rank_numbers(spec: StudySpec) -> list[int]:
    """Return how many ranks on a host launches of a study have, the fewest first."""
    tried = values(spec.rank_counts.domain) if spec.rank_counts else ()
    return sorted({spec.layout.ranks_per_host, *(n for n in tried if isinstance(n, int))})


def size(knobs: Sequence[Knob], requirements: Requirements = NONE) -> int:
    """Return how many settings there are (resolved knobs)."""
    return conditions.size(axes(knobs), requirements)


def points(knobs: Sequence[Knob], requirements: Requirements = NONE) -> Iterator[Setting]:
    """Yield every setting once, the last knob's value changing fastest (resolved knobs)."""
    for world in worlds(axes(knobs), requirements):
        for combination in itertools.product(*world.values()):
            yield Setting.of(zip(world, combination, strict=True))


def axes(knobs: Sequence[Knob]) -> list[KnobAxis]:
    """Return the knobs with their values listed (resolved knobs)."""
    return [KnobAxis(k.name, values(k.domain), ROLES.get(k.name), k.when) for k in knobs]


def contains(
    knobs: Sequence[Knob], fixed: Setting, setting: Setting, requirements: Requirements = NONE
) -> bool:
    """Return whether the setting may be launched.

    It must meet the requirements, and give each knob that exists in it a value of its domain: the
    fixed one if there is one.
    """
    chosen = setting.as_dict()
    names = active({knob.name: knob.when for knob in knobs}, chosen)
    return set(chosen) == names and contains_part(knobs, fixed, setting, requirements)


def contains_part(
    knobs: Sequence[Knob], fixed: Setting, setting: Setting, requirements: Requirements = NONE
) -> bool:
    """Return whether the values of a setting may be launched; it need not name every knob."""
    chosen = setting.as_dict()
    if not requirements.meets(chosen):
        return False
    if not set(chosen) <= active({knob.name: knob.when for knob in knobs}, chosen):
        return False
    if any(chosen.get(name, value) != value for name, value in fixed.items):
        return False
    return all(_holds(knob.domain, chosen[knob.name]) for knob in knobs if knob.name in chosen)


def setting_of(knobs: Sequence[Knob], chosen: Mapping[str, Value]) -> Setting:
    """Return a setting with the chosen values, without knobs whose condition (``when``) fails."""
    names = active({knob.name: knob.when for knob in knobs}, chosen)
    return Setting.of((name, value) for name, value in chosen.items() if name in names)


def _holds(domain: Domain, value: Value) -> bool:
    """Return whether a (resolved) domain has the value; a large range is not listed."""
    if isinstance(domain, IntRange) and isinstance(domain.high, int):
        return isinstance(value, int) and domain.low <= value <= domain.high
    return value in values(domain)


def guesses(spec: StudySpec) -> tuple[Setting, ...]:
    """Return the settings to launch before anything is measured, the most likely first.

    These are the guesses of :mod:`tuner.knobs.guesses`; the fastest settings of an earlier study
    take the place of all but the first. A guess that is outside of the space is moved to the
    nearest setting in it.
    """
    knobs = [
        first_guesses.GuessedKnob(
            knob.name, ROLES.get(knob.name), values(knob.domain), _usual(knob)
        )
        for knob in spec.knobs
    ]
    guessed_values = first_guesses.guesses(
        knobs, spec.machine.usable_cores, spec.layout.ranks_per_host
    )
    if (lesson := spec.lesson) is not None:
        first = guessed_values[0]
        guessed_values[1:] = [{**first, **_moved(spec, earlier)} for earlier in lesson.fastest]
    settings = [_nearest_allowed(spec, setting_of(spec.knobs, v)) for v in guessed_values]
    return tuple(dict.fromkeys(setting for setting in settings if not setting.is_baseline))


def _moved(spec: StudySpec, earlier: Setting) -> dict[str, Value]:
    """Return the values of an earlier setting that the study has; a number moves to the nearest."""
    nearest: dict[str, Value] = {}
    for knob in spec.knobs:
        value, domain_values = earlier.as_dict().get(knob.name), values(knob.domain)
        numbers = [number for number in domain_values if isinstance(number, int)]
        if value is not None and value in domain_values:
            nearest[knob.name] = value
        elif isinstance(value, int) and numbers:
            nearest[knob.name] = min(numbers, key=partial(_distance, value))
    return nearest


def _distance(value: Value | None, other: Value) -> float:
    """Return how far two values of a knob are apart: in octaves, or 1 if they differ."""
    if isinstance(value, int) and isinstance(other, int):
        return abs(math.log2(max(value, 0) + 1) - math.log2(max(other, 0) + 1))
    return float(value != other)


def _nearest_allowed(spec: StudySpec, guess: Setting) -> Setting:
    """Return the nearest setting (by the sum of distances) that meets the requirements."""
    requirements, chosen = requirements_of(spec), guess.as_dict()
    if requirements.meets(chosen):
        return guess
    near = [
        {n: min(options, key=partial(_distance, chosen.get(n))) for n, options in world.items()}
        for world in worlds(axes(spec.knobs), requirements)
    ]
    steps = [sum(_distance(chosen.get(n), v) for n, v in setting.items()) for setting in near]
    return Setting.of(near[steps.index(min(steps))]) if near else Setting()


def _usual(knob: Knob) -> Value:
    """Return the default of a knob, or its neutral value, or else its first value."""
    allowed = values(knob.domain)
    candidates = (value for value in (knob.default, knob.neutral) if value in allowed)
    return next((value for value in candidates if value is not None), allowed[0])
