"""The knobs of a study: which are tuned, over which values, which are fixed.

:func:`select` reads the tool's table, the study file and the command line; :func:`applying` cuts
what was selected to the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from tuner import knobs as table
from tuner.config.applicability import TargetHost, knob_on_host
from tuner.config.study_file import KnobEntry, Study
from tuner.knobs import conditions, space
from tuner.knobs.domains import parse_value
from tuner.launch import command as templates
from tuner.model import (
    BASELINE,
    RANKS,
    Choice,
    Env,
    Flag,
    Knob,
    LauncherOption,
    RankCount,
    Setting,
)
from tuner.model.errors import UsageError, suggestion

#: Knobs without which a study of a trainer may look incomplete.
_EXPECTED = frozenset({"iterator_workers", "communicator"})


#: The options that name knobs, each with its key.
_FLAGS = {"--knob": "knobs", "--env-knob": "env_knobs", "--fix": "fixes", "--setting": "setting"}


@dataclass(frozen=True)
class Selection:
    """The knobs of a study, not yet cut to the machine.

    ``named_by_user`` are those that the user named, ``with_own_values`` those whose values too;
    others are in the study by themselves, if they apply. ``left_out`` says why a knob of the table
    is not among them.
    """

    knobs: tuple[Knob, ...]
    named_by_user: frozenset[str] = frozenset()
    with_own_values: frozenset[str] = frozenset()
    fixed: Setting = BASELINE
    left_out: tuple[tuple[str, str], ...] = ()

    @property
    def rank_counts(self) -> Knob | None:
        """The knob whose values are numbers of ranks, if they are tuned."""
        return next((knob for knob in self.knobs if isinstance(knob.route, RankCount)), None)

    def without_ranks(self) -> Selection:
        """Return the knobs of a study whose number of ranks is given."""
        return replace(
            self,
            knobs=tuple(knob for knob in self.knobs if knob is not self.rank_counts),
            with_own_values=self.with_own_values - {RANKS},
            fixed=Setting.of((name, v) for name, v in self.fixed.items if name != RANKS),
        )


def select(
    file: Study, typed: Mapping[str, Any], template: Sequence[str], *, is_typed: bool
) -> Selection:
    """Choose the knobs of a study, their values, and which are fixed.

    In the study are those that the file lists (without a list: the usual ones), whose
    placeholder is in the command ``template``, or that an option names; ``--all-knobs`` names
    every one that can reach the program. What changes the numerics is there only if it is named.
    If the command ``is_typed``, a knob that the file lists may not reach it.
    """
    entries, places = _entries(file, typed)
    in_command = templates.knobs_in(template)
    rows, unreached = _rows(entries, places, in_command, is_typed=is_typed)
    templates.check(template, rows)
    baselines = tuple(_pairs("--baseline", typed.get("baselines", ())))
    for name, text in baselines:
        if [other for other, _ in baselines].count(name) > 1:
            raise UsageError(f"--baseline {name} is given twice", "keep one of them")
        if name == RANKS and RANKS not in entries:
            hint = f"-n {text} says how many there are"
            raise UsageError(f"--baseline {name}: the ranks are not tuned", hint)
        if name not in (*in_command, RANKS):
            raise UsageError(
                f"--baseline {name}={text}: the command has no {{{name}}}",
                f"write {{{name}}} where the program takes it, or leave --baseline out",
            )
        rows[name] = replace(rows[name], default=parse_value(text))
    named = entries.keys() - unreached
    fixed = {name: fix for name in named if (fix := entries[name].fix) is not None}
    for name in in_command:
        row = rows[name]
        if name in fixed and row.default is None:
            rows[name] = replace(row, default=fixed[name])
        elif row.changes_numerics and name not in named and row.default is not None:
            fixed[name] = row.default  # the user has to name it to tune it
            rows[name] = replace(row, domain=Choice((row.default,)))
    chosen_names = {*named, *in_command}
    for row in table.KNOBS:
        is_chosen = typed.get("all_knobs") or (row.usual and not file.knobs)
        if is_chosen and row.name not in file.left_out and not needs_placeholder(row):
            chosen_names.add(row.name)
    chosen_names -= {row.name for row in rows.values() if row.changes_numerics} - {*named, *fixed}
    chosen_rows = [row for name, row in rows.items() if name in chosen_names]
    knobs, displaced = _one_knob_a_variable(chosen_rows, named, in_command)
    left_out = {**_reasons(unreached, in_command), **displaced, **file.left_out}
    names = {knob.name for knob in knobs}
    return Selection(
        knobs,
        frozenset(named & names),
        frozenset(name for name in named & names if entries[name].has_own_values),
        Setting.of({name: value for name, value in fixed.items() if name in names}),
        tuple((name, reason) for name, reason in left_out.items() if name not in names),
    )


def _rows(
    entries: Mapping[str, KnobEntry],
    places: Mapping[str, str],
    in_command: Sequence[str],
    *,
    is_typed: bool,
) -> tuple[dict[str, Knob], set[str]]:
    """Return the table with the entries in it, and which of them do not reach a typed command."""
    rows = {knob.name: knob for knob in table.KNOBS}
    unreached: set[str] = set()
    for name, entry in entries.items():
        place = places.get(name, f"knobs.{name}")
        needs_no_placeholder = name in rows and not needs_placeholder(rows[name])
        if needs_no_placeholder or entry.route() is not None or name in in_command:
            rows[name] = entry.knob(name, place)
        elif is_typed and name not in places:
            unreached.add(name)
        else:
            correction = "" if name in rows else f"{suggestion(name, rows)} Or "
            raise UsageError(
                f"{place}: nothing carries it to the program",
                f"{correction}put {{{name}}} into the command where the program takes it, such as "
                f"--option {{{name}}}",
            )
    return rows, unreached


def _reasons(unreached: Set[str], in_command: Sequence[str]) -> dict[str, str]:
    """Return why known knobs are not tuned; those that nobody expects to be are not mentioned."""
    reasons: dict[str, str] = {}
    for row in table.KNOBS:
        if row.changes_numerics and row.name in in_command:
            reasons[row.name] = f"it changes the numerics: --knob {row.name} asks for it"
        elif row.name in unreached or (row.name in _EXPECTED and needs_placeholder(row)):
            reasons[row.name] = f"the command has no {{{row.name}}}"
        elif row.usual and row.name in table.ROLES:
            reasons[row.name] = "the study file does not list it"
    return reasons


def _entries(file: Study, typed: Mapping[str, Any]) -> tuple[dict[str, KnobEntry], dict[str, str]]:
    """Return the file's knobs with what is typed of them, and where it was typed."""
    entries, places = dict(file.knobs), dict[str, str]()
    for place, key in (("--mpi-procs", "mpi_procs"), ("--ppn", "ppn")):
        if isinstance(numbers := file.option(key), str):  # several
            if places:
                raise UsageError(f"--mpi-procs and {place} both list ranks", "keep one of them")
            entries[RANKS] = replace(entries.get(RANKS, KnobEntry()), range=numbers, values=None)
            places[RANKS] = place
    for flag, key in _FLAGS.items():
        for name, text in _pairs(flag, typed.get(key, ())):
            place = f"{flag} {name}"
            if name in places:
                raise UsageError(
                    f"{places[name]} and {place}: the knob is given twice", "keep one of them"
                )
            if flag == "--env-knob" and (name in entries or table.is_known(name)):
                raise UsageError(
                    f"{place}: there is a knob of that name", f"--knob {name}=… tunes it"
                )
            places[name] = place
            entry, changes = entries.get(name, KnobEntry()), dict[str, Any]()
            is_fix = flag in {"--fix", "--setting"}
            if is_fix and ("," in text or ".." in text):
                raise UsageError(
                    f"{place}={text}: is more than one value", f"--knob {name}={text} tunes it"
                )
            if text:
                value = {"fix": parse_value(text)} if is_fix else {"range": text}
                changes = {"range": None, "values": None, "fix": None, **value}
                changes["listed"] = entry.values or ()
            if flag == "--env-knob":
                changes["env"] = (name,)
            entries[name] = replace(entry, **changes)
    return entries, places


def _pairs(flag: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield ``NAME=TEXT`` of a repeated option; only ``--knob`` may be without a text."""
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not name or not (value or (flag == "--knob" and not equals)):
            raise UsageError(f"{flag} {text!r}: is not NAME=VALUE", f"{flag} omp_threads=4")
        yield name, value


def _one_knob_a_variable(
    rows: Sequence[Knob], named: Set[str], in_command: Sequence[str]
) -> tuple[tuple[Knob, ...], dict[str, str]]:
    """Return the knobs of which no setting has two for a variable, and why others are left out.

    A usual knob gives way to one that the user named; two that the user named are refused.
    """
    setters: dict[str, list[Knob]] = {}
    displaced: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: row.name not in named):
        variables: tuple[str, ...] = ()
        if row.name in in_command:
            pass  # its value reaches the program by the placeholder
        elif isinstance(row.route, LauncherOption):
            variables = (f"the launcher's {row.route.option}",)
        elif isinstance(row.route, Env):
            variables = (*row.route.names, *dict(row.route.also))
        clash = [(v, other) for v in variables for other in setters.get(v, ()) if _meet(row, other)]
        for variable, other in clash[:1]:
            if row.name in named:
                message = f"the knobs {other.name} and {row.name} both set {variable}"
                raise UsageError(message, "keep one of them")
            displaced[row.name] = f"the knob {other.name} sets {variable}"
        for variable in () if clash else variables:
            setters.setdefault(variable, []).append(row)
    return tuple(row for row in rows if row.name not in displaced), displaced


def _meet(one: Knob, other: Knob) -> bool:
    """Return whether some setting may have both knobs."""
    other_when = dict(other.when)
    return not any(
        set(other_when.get(parent, values)).isdisjoint(values) for parent, values in one.when
    )


def check_job(job: Sequence[str], chosen: Selection, source: str) -> None:
    """Raise ``UsageError`` if the whole job cannot be given the best setting."""
    numerics = (knob.name for knob in table.KNOBS if knob.changes_numerics)  # not asked for
    templates.check(job, [*(knob.name for knob in chosen.knobs), *numerics])
    in_job = templates.knobs_in(job)
    for knob in chosen.knobs:
        if job and needs_placeholder(knob) and knob.name not in in_job:
            raise UsageError(
                f"{source}: job has no {{{knob.name}}}, so the whole job could not be given "
                "the best value",
                f"put {{{knob.name}}} into job where the program takes it",
            )


def needs_placeholder(knob: Knob) -> bool:
    """Return whether a knob reaches the program by a placeholder only."""
    return isinstance(knob.route, Flag) and knob.route.option is None


def applying(
    chosen: Selection, host: TargetHost
) -> tuple[tuple[Knob, ...], tuple[tuple[str, str], ...]]:
    """Return the knobs of the study, cut to the host, and why the others are left out."""
    knobs_by_name: dict[str, Knob] = {}
    dropped: dict[str, str] = {}
    for row in chosen.knobs:
        on_host = knob_on_host(row, host, has_own_values=row.name in chosen.with_own_values)
        if not on_host.why_not or (on_host.possible and row.name in chosen.named_by_user):
            knobs_by_name[row.name] = on_host.knob
        elif row.name in chosen.named_by_user:
            raise UsageError(f"{row.name}: {on_host.why_not}", on_host.hint)
        elif "hosts" not in row.needs or len(host.layout.hosts) > 1:  # else nobody expects it
            dropped[row.name] = on_host.why_not
    while impossible := _impossible_knobs(knobs_by_name):
        for name, (why, hint) in impossible.items():
            if name in chosen.named_by_user:
                raise UsageError(f"{name}: {why}", hint)
            dropped[name] = why
            del knobs_by_name[name]
    knobs = tuple(knobs_by_name.values())
    if not knobs:
        reasons = "; ".join(f"{name}: {why}" for name, why in dropped.items())
        raise UsageError(
            f"there is nothing to tune: no knob is left{reasons and f' ({reasons})'}",
            "add one, such as --knob omp_threads=1..4",
        )
    return knobs, (*chosen.left_out, *dropped.items())


def _impossible_knobs(knobs: Mapping[str, Knob]) -> dict[str, tuple[str, str]]:
    """Return the knobs with a condition that holds in no setting: why, and what to do."""
    problems: dict[str, tuple[str, str]] = {}
    checked = set[str]()
    for knob in conditions.parents_first(knobs.values()):
        name = knob.name
        if parents := [parent for parent, _ in knob.when if parent in knobs.keys() - checked]:
            raise UsageError(
                f"knobs.{name}.when: it and {parents[0]} depend on each other in a circle",
                "let one of them stand without a condition",
            )
        checked.add(name)
        for parent, values in knob.when:
            listed = " or ".join(map(repr, values))
            if parent not in knobs and not table.is_known(parent):
                raise UsageError(
                    f"knobs.{name}.when: there is no knob {parent!r}",
                    suggestion(parent, [*knobs, *table.names()]),
                )
            if parent in knobs:
                holds = not set(space.values(knobs[parent].domain)).isdisjoint(values)
                hint = f"leave it out, or add {listed} to the values of {parent}"
            else:
                neutral = table.knob(parent).neutral  # left as it is, if that is known
                holds = bool(values) if neutral is None else neutral in values
                hint = f"leave it out, or tune it with --knob {parent}"
            if not holds:
                problems.setdefault(name, (f"it exists only if {parent} is {listed}", hint))
    return problems
