"""Which knobs a study has, from where: the tool's table, the study file, the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner import knobs as table
from tuner.config.spec.options import RunOptions
from tuner.config.spec.typed import check_known, of_options, put_defaults, put_values
from tuner.launch import command as templates
from tuner.model import BASELINE, Choice, Flag, Knob, Setting, Value
from tuner.model.errors import UsageError

if TYPE_CHECKING:
    from tuner.config.study_file import StudyFile


@dataclass(frozen=True)
class Selection:
    """The knobs of a study, not yet cut to the machine.

    ``asked`` are those that the user named, ``own`` those whose values too; the others are
    there by themselves, as far as they apply. ``left_out`` says why a known knob is not among
    them.
    """

    knobs: tuple[Knob, ...]
    asked: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    fixed: Setting = BASELINE
    left_out: tuple[tuple[str, str], ...] = ()


def select(
    file: StudyFile, options: RunOptions, template: Sequence[str], *, typed: bool
) -> Selection:
    """Choose the knobs.

    In the study are those that the file lists (without a list: the usual ones), whose
    placeholder stands in the command, or that an option names; ``--all-knobs`` names every one
    that can reach the program. What changes the numerics is there only where it is named.

    Args:
        file: The study file; an empty one where there is none.
        options: The command line: ``--knob``, ``--all-knobs``, ``--fix``, ``--default``.
        template: The command.
        typed: The command was typed, so that a knob the file lists may not reach it.

    Raises:
        UsageError: An unknown knob, a value that makes no sense for it, a knob that
            nothing carries to the program, or nothing to tune.
    """
    domains, fixes = of_options(options)
    named = {*file.knobs, *domains, *fixes}
    placed = templates.knobs_in(template)
    rows = _rows(file, placed, named)
    templates.check(template, rows)
    for option, given in (("--knob", domains), ("--fix", fixes)):
        for name in given:
            check_known(option, name, rows)
    fixed = put_values(rows, domains, fixes, _file_fixes(file, domains))
    put_defaults(rows, options, fixed, placed)
    fixed |= _kept_numerics(rows, placed, named)
    used = _used(file, [*placed, *domains, *fixes], rows, every=options.all_knobs)
    used = [name for name in used if name in {*named, *fixed} or not rows[name].changes_numerics]
    forgiven = set(rows) - {*domains, *fixes} if typed else set()
    knobs, lost = _reachable(used, rows, placed, forgiven)
    if not knobs:
        raise UsageError(
            "There is nothing to tune: no knob is left.",
            "Add one, such as --knob omp_threads=1..4.",
        )
    names = {knob.name for knob in knobs}
    valued = {name for name, text in domains.items() if text is not None}
    return Selection(
        tuple(knobs),
        frozenset(named & names),
        frozenset((_file_domains(file) | valued | set(fixes)) & names),
        Setting.of({name: value for name, value in fixed.items() if name in names}),
        _left_out(file, names, lost, placed),
    )


def _kept_numerics(
    rows: dict[str, Knob], placed: Sequence[str], named: AbstractSet[str]
) -> dict[str, Value]:
    """What changes the numerics and is not asked for stays at its default, where it has one."""
    kept: dict[str, Value] = {}
    for name in placed:
        default = rows[name].default
        if rows[name].changes_numerics and name not in named and default is not None:
            kept[name] = default
            rows[name] = replace(rows[name], domain=Choice((default,)))
    return kept


def check_job(job: Sequence[str], chosen: Selection, source: str) -> None:
    """Raise ``UsageError`` where the whole job cannot be given the best setting."""
    numerics = (knob.name for knob in table.KNOBS if knob.changes_numerics)  # not asked for
    templates.check(job, [*(knob.name for knob in chosen.knobs), *numerics])
    placed = templates.knobs_in(job)
    for knob in chosen.knobs:
        if job and needs_placeholder(knob) and knob.name not in placed:
            raise UsageError(
                f"{source}: job has no {{{knob.name}}}, so the whole job could not be given "
                "the best value.",
                f"Put {{{knob.name}}} into job where the program takes it.",
            )


def needs_placeholder(knob: Knob) -> bool:
    """True for a knob that reaches the program by a placeholder only."""
    return isinstance(knob.route, Flag) and knob.route.option is None


def _rows(file: StudyFile, placed: Sequence[str], asked: AbstractSet[str]) -> dict[str, Knob]:
    """Every knob there is: the tool's table, changed and extended by the study file.

    A placeholder whose values were typed is a knob as well; its domain is set later.
    """
    rows = {knob.name: knob for knob in table.KNOBS}
    for name, entry in file.knobs.items():
        rows[name] = entry.knob(name, f"knobs.{name}")
    for name in placed:
        if name in asked:
            rows.setdefault(name, Knob(name, Choice(()), Flag()))
    return rows


def _file_domains(file: StudyFile) -> set[str]:
    """The knobs whose values the file names."""
    return {
        name
        for name, entry in file.knobs.items()
        if entry.range is not None or entry.values is not None or entry.fix is not None
    }


def _file_fixes(file: StudyFile, domains: Mapping[str, str | None]) -> dict[str, Value]:
    return {
        name: entry.fix
        for name, entry in file.knobs.items()
        if entry.fix is not None and name not in domains
    }


def _used(
    file: StudyFile, asked: Sequence[str], rows: Mapping[str, Knob], *, every: bool
) -> list[str]:
    """The names of the knobs that take part, the tool's own first, in the table's order."""
    wanted = {*file.knobs, *asked}
    for row in table.KNOBS:
        joins = every if file.knobs else every or row.usual
        if joins and row.name not in file.left_out and not needs_placeholder(row):
            wanted.add(row.name)
    return [name for name in rows if name in wanted]


def _reachable(
    used: Sequence[str], rows: Mapping[str, Knob], placed: Sequence[str], forgiven: set[str]
) -> tuple[list[Knob], list[str]]:
    """(knobs that reach the program, names of the forgiven ones that do not)."""
    knobs, lost = [], []
    for name in used:
        if not needs_placeholder(rows[name]) or name in placed:
            knobs.append(rows[name])
        elif name in forgiven:
            lost.append(name)
        else:
            raise UsageError(
                f"{name}: nothing carries it to the program.",
                f"Put {{{name}}} into the command where the program takes it, such as "
                f"--option {{{name}}}.",
            )
    return knobs, lost


def _left_out(
    file: StudyFile, used: AbstractSet[str], lost: Sequence[str], placed: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Why known knobs are not tuned; those that nobody expects to be are not spoken of."""
    reasons = dict(file.left_out)
    for row in table.KNOBS:
        if row.changes_numerics and row.name in placed:
            reasons.setdefault(row.name, f"it changes the numerics: --knob {row.name} asks for it")
        elif row.name in lost or (row.name in _EXPECTED and needs_placeholder(row)):
            reasons.setdefault(row.name, f"the command has no {{{row.name}}}")
        elif row.usual and row.name in table.ROLES:
            reasons.setdefault(row.name, "the study file does not list it")
    return tuple((name, reason) for name, reason in reasons.items() if name not in used)


#: Knobs without which a study of a trainer may look incomplete.
_EXPECTED = frozenset({"iterator_workers", "communicator"})
