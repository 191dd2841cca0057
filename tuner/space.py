"""The space of settings: domains as text, cut to the machine, counted and walked (pure)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tuner import conditions
from tuner.conditions import active, worlds
from tuner.demand import usable_cores
from tuner.errors import UsageError, shown, suggestion
from tuner.knobs import ROLES
from tuner.knobs.memory import OTHER_ALLOCATOR
from tuner.model import (
    UNSET,
    Choice,
    Domain,
    Env,
    IntRange,
    Knob,
    Layout,
    Machine,
    Setting,
    StudySpec,
    Value,
    When,
)

#: More values than any study could try: a slip of the pen (``1..1000000``).
MAX_VALUES = 10_000

#: The largest whole number of a knob: a float, as the search and Optuna use, still holds it.
MAX_INT = 10**15 - 1

_INT = re.compile(r"[+-]?[0-9]{1,15}")
_HOW = "Write a range such as 1..16, or a list such as 1,2,4 or naive,flat."


def parse_value(text: str) -> Value:
    """One value as written: an integer where it reads as one, else the text itself.

    What has more than 15 digits is a name like any other: it reaches the program as it is.
    """
    text = text.strip()
    return int(text) if _INT.fullmatch(text) else text


def parse_domain(text: str, *, where: str) -> Domain:
    """A domain as written: ``1..16``, ``1..cores``, ``1,2,4``, ``naive,flat`` or ``4``.

    Raises:
        UsageError: It is empty, reversed, not a number where one belongs, holds a value
            twice, or is too large. ``where`` names the place (an option, a key).
    """
    stripped = text.strip()
    if not stripped:
        raise UsageError(f"{where}: the range is empty.", _HOW)
    if ".." in stripped:
        return _parse_range(stripped, where)
    if re.fullmatch(r"\d+\s*[-:]\s*\d+", stripped):
        low, high = re.findall(r"\d+", stripped)
        raise UsageError(f"{where}: {stripped!r} is not a range.", f"Write {low}..{high}.")
    parts = [part.strip() for part in stripped.split(",")]
    if "" in parts:
        raise UsageError(f"{where}: {stripped!r} has an empty value.", _HOW)
    return check_domain(Choice(tuple(parse_value(part) for part in parts)), where=where)


def _parse_range(text: str, where: str) -> Domain:
    low, _, high = (part.strip() for part in text.partition(".."))
    for end, name in ((low, "lower"), (high, "upper")):
        if not end:
            raise UsageError(f"{where}: {text!r} has no {name} end.", _HOW)
    if not _INT.fullmatch(low) or not (_INT.fullmatch(high) or high == "cores"):
        message = f"{where}: the ends of {shown(text)} are not whole numbers"
        if low.lstrip("+-").isdecimal() and high.lstrip("+-").isdecimal():
            message += " of up to 15 digits"
        raise UsageError(f"{message}.", _HOW)
    return check_domain(IntRange(int(low), high if high == "cores" else int(high)), where=where)


def check_domain(domain: Domain, *, where: str) -> Domain:
    """The domain itself, once it is neither empty, reversed, repeated nor too large."""
    if isinstance(domain, Choice):
        if not domain.values:
            raise UsageError(f"{where}: the list of values is empty.", _HOW)
        seen: set[Value] = set()
        for value in domain.values:
            if value in seen:
                raise UsageError(f"{where}: {shown(value)} stands twice.", "Name each value once.")
            seen.add(value)
        return domain
    if isinstance(domain.high, int):
        if domain.high < domain.low:
            raise UsageError(
                f"{where}: the range {domain.low}..{domain.high} is reversed.",
                f"Write {domain.high}..{domain.low}.",
            )
        if domain.high - domain.low >= MAX_VALUES:
            raise UsageError(
                f"{where}: the range {domain.low}..{domain.high} has more than "
                f"{MAX_VALUES} values.",
                "List the values worth trying, such as 1,10,100.",
            )
    return domain


def check_against(known: Knob, domain: Domain, *, where: str) -> Domain:
    """The user's domain for a knob, once its values make sense for that knob.

    A counting knob takes whole numbers from its own lowest upwards (a user's upper end is
    never cut), an environment knob also ``unset``; a choice takes its own names only.

    Raises:
        UsageError: A value makes no sense for the knob.
    """
    if isinstance(domain, IntRange):
        listed: tuple[Value, ...] = (domain.low,)
    else:
        listed = domain.values
    for value in listed:
        _check_value(known, value, where)
    return domain


def _check_value(known: Knob, value: Value, where: str) -> None:
    if value == UNSET and isinstance(known.route, Env):
        return
    if isinstance(known.domain, Choice):
        if value not in known.domain.values:
            raise UsageError(
                f"{where}: {known.name} cannot be {value!r}.",
                suggestion(str(value), map(str, known.domain.values))
                + f" {_elsewhere(known.name)}",
            )
    elif not isinstance(value, int):
        raise UsageError(
            f"{where}: {value!r} is not a whole number.",
            f"{known.name} counts from {known.domain.low}.",
        )
    elif value < known.domain.low:
        raise UsageError(
            f"{where}: {known.name} cannot be {value}: it counts from {known.domain.low}.",
            f"Write {known.domain.low} or more.",
        )


def _elsewhere(name: str) -> str:
    """Where a value goes that the table does not name."""
    if name == "allocator":
        return OTHER_ALLOCATOR
    values = (
        "Another interface of this host goes" if name == "nccl_interface" else "Other values go"
    )
    return f"{values} into a study file: [knobs.{name}] values = [...]."


def resolve(
    knobs: Sequence[Knob], machine: Machine, layout: Layout, *, own: frozenset[str] = frozenset()
) -> tuple[Knob, ...]:
    """The knobs with their domains cut to what this machine and layout can use.

    ``own`` names the knobs whose domain the user gave: nothing of theirs is cut, only the
    word ``cores`` is put into figures.
    """
    gpu_a_rank = len(machine.gpus) >= layout.ranks_per_host
    return tuple(_cut(knob, machine, gpu_a_rank or knob.name in own) for knob in knobs)


def _cut(knob: Knob, machine: Machine, keep_gpu_values: bool) -> Knob:
    allowed = values(knob.domain, machine)
    if not keep_gpu_values:
        allowed = tuple(value for value in allowed if value not in knob.gpu_values)
    if isinstance(knob.domain, IntRange):
        domain: Domain = IntRange(knob.domain.low, max(v for v in allowed if isinstance(v, int)))
    else:
        domain = Choice(allowed)
    return replace(knob, domain=domain, gpu_values=())


def values(domain: Domain, machine: Machine | None = None) -> tuple[Value, ...]:
    """Every value of a domain, in order; ``machine`` is needed for ``1..cores`` only."""
    if isinstance(domain, Choice):
        return domain.values
    if isinstance(domain.high, int):
        return tuple(range(domain.low, domain.high + 1))
    if machine is None:
        raise ValueError(f"{domain} is not resolved: it needs a machine")
    return tuple(range(domain.low, max(domain.low, machine.cores) + 1))


def size(knobs: Sequence[Knob]) -> int:
    """How many settings there are (resolved knobs)."""
    return conditions.size(axes(knobs))


def points(knobs: Sequence[Knob]) -> Iterator[Setting]:
    """Every setting once, the last knob's value changing fastest (resolved knobs)."""
    for world in worlds(axes(knobs)):
        for combination in itertools.product(*world.values()):
            yield Setting.of(zip(world, combination, strict=True))


@dataclass(frozen=True)
class _Axis:
    name: str
    values: tuple[Value, ...]
    when: When


def axes(knobs: Sequence[Knob]) -> list[_Axis]:
    """The knobs with their values listed (resolved knobs)."""
    return [_Axis(knob.name, values(knob.domain), knob.when) for knob in knobs]


def contains(knobs: Sequence[Knob], fixed: Setting, setting: Setting) -> bool:
    """True where the setting gives each knob that it has a value of its domain, fixed as fixed."""
    chosen = setting.as_dict()
    if set(chosen) != active({knob.name: knob.when for knob in knobs}, chosen):
        return False
    if any(chosen.get(name, value) != value for name, value in fixed.items):
        return False
    return all(_holds(knob.domain, chosen[knob.name]) for knob in knobs if knob.name in chosen)


def there(knobs: Sequence[Knob], chosen: Mapping[str, Value]) -> Setting:
    """The setting of a value for each knob: those that do not exist with it are left out."""
    names = active({knob.name: knob.when for knob in knobs}, chosen)
    return Setting.of((name, value) for name, value in chosen.items() if name in names)


def _holds(domain: Domain, value: Value) -> bool:
    """True where a (resolved) domain has the value; a large range is not listed."""
    if isinstance(domain, IntRange) and isinstance(domain.high, int):
        return isinstance(value, int) and domain.low <= value <= domain.high
    return value in values(domain)


def guesses(spec: StudySpec) -> tuple[Setting, ...]:
    """What the machine suggests before anything is measured, the more likely first.

    Counts of threads and workers are ``cores // ranks`` (at least 1), then 1, each put at
    the nearest value below that the domain has, threads of a worker are 1; other knobs take
    their default, else what changes nothing, else the first of their domain.
    """
    per_rank = max(1, usable_cores(spec.machine) // spec.layout.ranks_per_host)
    settings = [
        there(spec.knobs, {knob.name: _guess(knob, count) for knob in spec.knobs})
        for count in (per_rank, 1)
    ]
    return tuple(dict.fromkeys(setting for setting in settings if not setting.is_baseline))


def _guess(knob: Knob, count: int) -> Value:
    role = ROLES.get(knob.name)
    counts = [value for value in values(knob.domain) if isinstance(value, int)]
    if role and counts:
        wanted = 1 if role == "worker_threads" else count
        return max((value for value in counts if 1 <= value <= wanted), default=min(counts))
    usual = (value for value in (knob.default, knob.neutral) if value in values(knob.domain))
    return next((value for value in usual if value is not None), values(knob.domain)[0])
