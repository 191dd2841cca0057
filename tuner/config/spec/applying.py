"""Of the knobs that are chosen those that apply on this host, and exist in some setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tuner import knobs as table
from tuner.config.applies import Host, answer
from tuner.knobs import conditions, space
from tuner.model import Knob, Value
from tuner.model.errors import UsageError, suggestion

if TYPE_CHECKING:
    from tuner.config.spec.selection import Selection

#: More products of a space with conditions than are walked before the first launch.
MAX_WORLDS = 4096

#: Why a knob exists in no setting, and what to do.
_Reason = tuple[str, str]


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
    while reasons := _alone(kept) or _together(kept):
        for name, (why, hint) in reasons.items():
            if name in chosen.asked:
                raise UsageError(f"{name}: {why}.", hint)
            lost[name] = why
            del kept[name]


def _alone(kept: Mapping[str, Knob]) -> dict[str, _Reason]:
    """The knobs with a condition that holds in no setting."""
    return {
        name: (f"it exists only where {parent} is {_listed(values)}", _hint(parent, values, kept))
        for name, knob in kept.items()
        for parent, values in _failing(knob, kept)[:1]
    }


def _hint(parent: str, values: Sequence[Value], kept: Mapping[str, Knob]) -> str:
    """What to do about a condition that holds in no setting."""
    if parent not in kept:
        return f"Leave it out, or tune it with --knob {parent}."
    texts = {str(value) for value in values}
    for value in space.values(kept[parent].domain):
        if str(value) in texts:
            kind = "a number" if isinstance(value, int) else "a text"
            return f"{value!r} is {kind} there: write when = {{{parent} = {value!r}}}."
    return f"Leave it out, or add {_listed(values)} to {parent}'s values."


def _together(kept: Mapping[str, Knob]) -> dict[str, _Reason]:
    """The knobs whose conditions hold in no setting together, without what hangs on them."""
    knobs = tuple(kept.values())
    _check_worlds(knobs)
    gone = set(kept) - conditions.ever(space.axes(knobs))
    return {
        name: (
            f"it exists only where {_where(kept[name])}, which no setting has together",
            "Leave it out, or change its conditions (when).",
        )
        for name in kept
        if name in gone and gone.isdisjoint(dict(kept[name].when))
    }


def _where(knob: Knob) -> str:
    return " and ".join(f"{parent} is {_listed(values)}" for parent, values in knob.when)


def _listed(values: Sequence[Value]) -> str:
    return " or ".join(str(value) for value in values)


def _check_conditions(knobs: Mapping[str, Knob]) -> None:
    for knob in knobs.values():
        for parent, _ in knob.when:
            if parent not in knobs and not table.is_known(parent):
                raise UsageError(
                    f"knobs.{knob.name}.when: there is no knob {parent!r}.",
                    suggestion(parent, [*knobs, *table.names()]),
                )
    circle = conditions.cycle({knob.name: knob.when for knob in knobs.values()})
    if circle:
        raise UsageError(
            f"knobs.{circle[0]}.when: it depends on itself ({', '.join(circle)}).",
            "Let one of them stand without a condition.",
        )


def _check_worlds(knobs: Sequence[Knob]) -> None:
    """Raise ``UsageError`` where the conditions leave too many products to walk."""
    number = conditions.number_of_worlds(space.axes(knobs), MAX_WORLDS)
    if number <= MAX_WORLDS:
        return
    asked = {parent for knob in knobs for parent, _ in knob.when}
    parents = [knob.name for knob in knobs if knob.name in asked]
    listed = ", ".join(parents[:6]) + (", …" if len(parents) > 6 else "")
    raise UsageError(
        f"The conditions (when) split the settings into at least {number} parts; more than"
        f" {MAX_WORLDS} are not searched.",
        f"Fix some knobs that others depend on ({listed}), as with --fix {parents[0]}=VALUE,"
        " or leave out some conditions.",
    )


def _failing(knob: Knob, kept: Mapping[str, Knob]) -> list[tuple[str, tuple[Value, ...]]]:
    """The knob's conditions that by themselves hold in no setting of these."""
    return [(parent, values) for parent, values in knob.when if not _holds(parent, values, kept)]


def _holds(parent: str, values: Sequence[Value], kept: Mapping[str, Knob]) -> bool:
    """True for a condition that holds in some setting."""
    if parent in kept:
        return not set(space.values(kept[parent].domain)).isdisjoint(values)
    neutral = table.knob(parent).neutral  # left as it is, where that is known
    return bool(values) if neutral is None else neutral in values
