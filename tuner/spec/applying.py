"""Of the knobs that are chosen those that apply on this host, and exist in some setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner import knobs as table
from tuner import space
from tuner.applies import Host, answer
from tuner.conditions import cycle, number_of_worlds
from tuner.errors import UsageError, suggestion
from tuner.model import Knob

if TYPE_CHECKING:
    from tuner.spec.selection import Selection

#: More products of a space with conditions than are walked before the first launch.
MAX_WORLDS = 4096


def applying(chosen: Selection, host: Host) -> tuple[tuple[Knob, ...], tuple[tuple[str, str], ...]]:
    """The knobs of the study, their values cut to the host, and why the others are left out.

    Raises:
        UsageError: One that the user named cannot be set here, exists in no setting, or hangs
            on a knob that there is not; or none is left.
    """
    kept: dict[str, Knob] = {}
    lost: dict[str, str] = {}
    for row in chosen.knobs:
        got = answer(row, host, own=row.name in chosen.own)
        if got.why_not and row.name in chosen.asked and not got.possible:
            raise UsageError(f"{row.name}: {got.why_not}.", got.hint)
        if got.why_not and row.name not in chosen.asked:
            lost[row.name] = got.why_not
        else:
            kept[row.name] = got.knob
    _drop_dependent(kept, lost, chosen)
    _check_worlds(tuple(kept.values()))
    if not kept:
        reasons = "; ".join(f"{name}: {why}" for name, why in lost.items())
        raise UsageError(
            f"There is nothing to tune: no knob is left ({reasons}).",
            "Add one, such as --knob omp_threads=1..4.",
        )
    return tuple(kept.values()), (*chosen.left_out, *lost.items())


def _drop_dependent(kept: dict[str, Knob], lost: dict[str, str], chosen: Selection) -> None:
    """Take out, or refuse, what exists in no setting."""
    _check_conditions(kept)
    while reasons := {name: why for name, knob in kept.items() if (why := _never(knob, kept))}:
        for name, why in reasons.items():
            if name in chosen.asked:
                parents = " ".join(f"--knob {parent}" for parent, _ in kept[name].when)
                raise UsageError(f"{name}: {why}.", f"Leave it out, or tune it with {parents}.")
            lost[name] = why
            del kept[name]


def _check_conditions(knobs: Mapping[str, Knob]) -> None:
    for knob in knobs.values():
        for parent, _ in knob.when:
            if parent not in knobs and not table.is_known(parent):
                raise UsageError(
                    f"knobs.{knob.name}.when: there is no knob {parent!r}.",
                    suggestion(parent, [*knobs, *table.names()]),
                )
    circle = cycle({knob.name: knob.when for knob in knobs.values()})
    if circle:
        raise UsageError(
            f"knobs.{circle[0]}.when: it depends on itself ({', '.join(circle)}).",
            "Let one of them stand without a condition.",
        )


def _check_worlds(knobs: Sequence[Knob]) -> None:
    """Raise ``UsageError`` where the conditions leave too many products to walk."""
    number = number_of_worlds(space.axes(knobs), MAX_WORLDS)
    if number <= MAX_WORLDS:
        return
    names = {knob.name for knob in knobs}
    parents = {parent for knob in knobs for parent, _ in knob.when if parent in names}
    listed = ", ".join(name for name in sorted(parents)[:6]) + (", …" if len(parents) > 6 else "")
    raise UsageError(
        f"The conditions (when) split the settings into at least {number} parts; more than"
        f" {MAX_WORLDS} are not searched.",
        f"Fix some knobs that others depend on ({listed}), as with --fix {min(parents)}=VALUE,"
        " or leave out some conditions.",
    )


def _never(knob: Knob, kept: Mapping[str, Knob]) -> str:
    """Why the knob exists in no setting of these; empty where it does in some."""
    for parent, values in knob.when:
        texts = " or ".join(str(value) for value in values)
        if parent in kept:
            possible = set(space.values(kept[parent].domain)) & set(values)
        else:  # left as it is, where that is known
            neutral = table.knob(parent).neutral
            possible = {neutral} & set(values) if neutral is not None else set(values)
        if not possible:
            return f"it exists only where {parent} is {texts}"
    return ""
