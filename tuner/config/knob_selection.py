"""The knobs of a study: which are tuned, over which values, which are fixed.

:func:`select` reads the tool's table, the study file and the command line; :func:`applying` cuts
what was selected to the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from tuner import knobs as table
from tuner.config.applicability import TargetHost, answer
from tuner.config.schema import Study
from tuner.knobs import conditions, space
from tuner.knobs.domains import check_against, parse_domain, parse_value
from tuner.launch import command as templates
from tuner.model import (
    BASELINE,
    OFF,
    ON,
    Choice,
    Domain,
    Env,
    Flag,
    Knob,
    LauncherOption,
    Setting,
    Value,
)
from tuner.model.errors import UsageError, suggestion

#: More products of a space with conditions than are walked before the first launch.
MAX_WORLDS = 4096

#: Knobs without which a study of a trainer may look incomplete.
_EXPECTED = frozenset({"iterator_workers", "communicator"})


@dataclass(frozen=True)
class Selection:
    """The knobs of a study, not yet cut to the machine.

    ``named`` are those that the user named, ``own`` those whose values too; the others are
    there by themselves, as far as they apply. ``left_out`` says why a known knob is not among
    them.
    """

    knobs: tuple[Knob, ...]
    named: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    fixed: Setting = BASELINE
    left_out: tuple[tuple[str, str], ...] = ()


def select(
    file: Study, typed: Mapping[str, Any], template: Sequence[str], *, is_typed: bool
) -> Selection:
    """Choose the knobs.

    In the study are those that the file lists (without a list: the usual ones), whose
    placeholder is in the command, or that an option names; ``--all-knobs`` names every one
    that can reach the program. What changes the numerics is there only if it is named.

    Args:
        file: The study.
        typed: What was typed of knobs: ``knobs``, ``env_knobs``, ``fixes``, ``baselines``,
            ``all_knobs``.
        template: The command.
        is_typed: The command was typed, so that a knob the file lists may not reach it.

    Raises:
        UsageError: An unknown knob, a value that makes no sense for it, a knob that
            nothing carries to the program, or nothing to tune.
    """
    domains, fixes = _typed(typed)
    named = {*file.knobs, *domains, *fixes}
    placed = templates.knobs_in(template)
    rows = {knob.name: knob for knob in table.KNOBS}
    for name, entry in file.knobs.items():
        rows[name] = entry.knob(name, f"knobs.{name}")
    domains |= _put_variables(rows, typed, domains)
    for name in placed:
        if name in named:  # a placeholder whose values were typed is a knob as well
            rows.setdefault(name, Knob(name, Choice(()), Flag()))
    templates.check(template, rows)
    fixed: dict[str, Value] = {
        name: entry.fix
        for name, entry in file.knobs.items()
        if entry.fix is not None and name not in domains
    }
    fixed |= _put_typed(rows, domains, fixes)
    for name, value in fixed.items():
        rows[name] = replace(rows[name], domain=Choice((value,)))
    _put_baselines(rows, typed, fixed, placed)
    for name in placed:  # what changes the numerics stays as it is unless it is asked for
        default = rows[name].default
        if rows[name].changes_numerics and name not in named and default is not None:
            fixed[name] = default
            rows[name] = replace(rows[name], domain=Choice((default,)))
    used_names = {*file.knobs, *placed, *domains, *fixes}
    for row in table.KNOBS:
        joins = typed.get("all_knobs") or (row.usual and not file.knobs)
        if joins and row.name not in file.left_out and not needs_placeholder(row):
            used_names.add(row.name)
    used = [
        row
        for name, row in rows.items()
        if name in used_names and not (row.changes_numerics and name not in {*named, *fixed})
    ]
    used, doubled = _one_a_variable(used, {*named, *domains}, placed)
    lost = {row.name for row in used if needs_placeholder(row) and row.name not in placed}
    for name in lost:
        if not is_typed or name in {*domains, *fixes}:
            raise UsageError(
                f"{name}: nothing carries it to the program",
                f"put {{{name}}} into the command where the program takes it, such as "
                f"--option {{{name}}}",
            )
    knobs = tuple(row for row in used if row.name not in lost)
    if not knobs:
        raise UsageError(
            "there is nothing to tune: no knob is left", "add one, such as --knob omp_threads=1..4"
        )
    names = {knob.name for knob in knobs}
    own = {name for name, entry in file.knobs.items() if entry.has_own_values}
    own |= {name for name, text in domains.items() if text is not None} | set(fixes)
    return Selection(
        knobs,
        frozenset(named & names),
        frozenset(own & names),
        Setting.of({name: value for name, value in fixed.items() if name in names}),
        _left_out(file, names, lost, placed, doubled),
    )


def _one_a_variable(
    rows: Sequence[Knob], named: Set[str], placed: Sequence[str]
) -> tuple[list[Knob], dict[str, str]]:
    """The knobs of which no two set one variable in the same launch, and why others are left out.

    Raises:
        UsageError: The user asked for two that do.
    """
    kept: list[Knob] = []
    doubled: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: row.name not in named):
        for other in kept:
            variable = _shared_variable(row, other)
            if variable and not {row.name, other.name} & {*placed}:
                if row.name in named:
                    raise UsageError(
                        f"the knobs {other.name} and {row.name} both set {variable}",
                        f"keep one of them: {_sets(other)}; {_sets(row)}",
                    )
                doubled[row.name] = f"the knob {other.name} sets {variable}"
                break
        else:
            kept.append(row)
    return [row for row in rows if row.name not in doubled], doubled


def _shared_variable(one: Knob, other: Knob) -> str:
    """A variable that both knobs set in some setting; empty if there is none."""
    conditions = dict(other.when)
    if any(set(conditions.get(name, values)).isdisjoint(values) for name, values in one.when):
        return ""
    return next((name for name in _variables(one) if name in _variables(other)), "")


def _variables(knob: Knob) -> tuple[str, ...]:
    if isinstance(knob.route, LauncherOption):
        return (f"the launcher's {knob.route.option}",)
    if isinstance(knob.route, Env):
        return (*knob.route.names, *dict(knob.route.also))
    return ()


def _sets(knob: Knob) -> str:
    return f"{knob.name} sets {', '.join(_variables(knob))}"


def _left_out(
    file: Study,
    used: set[str],
    lost: set[str],
    placed: Sequence[str],
    doubled: Mapping[str, str],
) -> tuple[tuple[str, str], ...]:
    """Why known knobs are not tuned; those that nobody expects to be are not mentioned."""
    reasons = {**doubled, **file.left_out}
    for row in table.KNOBS:
        if row.changes_numerics and row.name in placed:
            reasons.setdefault(row.name, f"it changes the numerics: --knob {row.name} asks for it")
        elif row.name in lost or (row.name in _EXPECTED and needs_placeholder(row)):
            reasons.setdefault(row.name, f"the command has no {{{row.name}}}")
        elif row.usual and row.name in table.ROLES:
            reasons.setdefault(row.name, "the study file does not list it")
    return tuple((name, reason) for name, reason in reasons.items() if name not in used)


def check_job(job: Sequence[str], chosen: Selection, source: str) -> None:
    """Raise ``UsageError`` if the whole job cannot be given the best setting."""
    numerics = (knob.name for knob in table.KNOBS if knob.changes_numerics)  # not asked for
    templates.check(job, [*(knob.name for knob in chosen.knobs), *numerics])
    placed = templates.knobs_in(job)
    for knob in chosen.knobs:
        if job and needs_placeholder(knob) and knob.name not in placed:
            raise UsageError(
                f"{source}: job has no {{{knob.name}}}, so the whole job could not be given "
                "the best value",
                f"put {{{knob.name}}} into job where the program takes it",
            )


def needs_placeholder(knob: Knob) -> bool:
    """True for a knob that reaches the program by a placeholder only."""
    return isinstance(knob.route, Flag) and knob.route.option is None


# --- what is typed ---------------------------------------------------------------------------


def _typed(typed: Mapping[str, Any]) -> tuple[dict[str, str | None], dict[str, str]]:
    """(``--knob``, ``--fix``) by name; a knob without values takes those of the tables."""
    texts = typed.get("knobs", ())
    plain = [text.strip() for text in texts if "=" not in text]
    domains: dict[str, str | None] = dict.fromkeys(plain)
    if "" in domains:
        raise UsageError("--knob is empty", "--knob omp_threads=1..16")
    pairs = _pairs("--knob", [text for text in texts if "=" in text])
    for name in {*pairs.keys() & domains, *(n for n in plain if plain.count(n) > 1)}:
        raise UsageError(f"--knob {name} is given twice", "keep one of them")
    domains |= pairs
    fixes = _pairs("--fix", typed.get("fixes", ()))
    for name in fixes:
        if name in domains:
            raise UsageError(f"{name} is given by --knob and by --fix", "keep one of them")
    return domains, fixes


def _put_typed(
    rows: dict[str, Knob], domains: Mapping[str, str | None], fixes: Mapping[str, str]
) -> dict[str, Value]:
    """Put the domains of ``--knob`` into the rows; returns the values of ``--fix``."""
    for option, given in (("--knob", domains), ("--fix", fixes)):
        for name in given:
            _check_known(option, name, rows)
    for name, text in domains.items():
        if text is not None:
            where = f"--knob {name}={text}"
            domain = _sensible(rows[name], parse_domain(text, where=f"--knob {name}"), where)
            rows[name] = replace(rows[name], domain=domain)
        elif rows[name].domain == Choice(()):
            raise UsageError(
                f"--knob {name}: which values?", f"name them, such as --knob {name}=1..8"
            )
    fixed = {}
    for name, text in fixes.items():
        where = f"--fix {name}={text}"
        if "," in text or ".." in text:
            raise UsageError(f"{where}: is more than one value", f"--knob {name}={text} tunes it")
        fixed[name] = parse_value(text)
        _sensible(rows[name], Choice((fixed[name],)), where)
    return fixed


def _put_variables(
    rows: dict[str, Knob], typed: Mapping[str, Any], domains: Mapping[str, str | None]
) -> dict[str, str]:
    """``--env-knob``: put a row for each variable; returns their domains as they were typed."""
    typed_domains = _pairs("--env-knob", typed.get("env_knobs", ()))
    for name in typed_domains:
        if name in domains or name in rows:
            raise UsageError(
                f"--env-knob {name}: there is a knob of that name", f"--knob {name}=… tunes it"
            )
        if not name.isidentifier():
            raise UsageError(f"--env-knob {name}: is not the name of a variable", "NAME=1,2,4")
        rows[name] = Knob(name, Choice(()), Env((name,)))
    return typed_domains


def _put_baselines(
    rows: dict[str, Knob],
    typed: Mapping[str, Any],
    fixed: Mapping[str, Value],
    placed: Sequence[str],
) -> None:
    """``--baseline``; a fixed knob's own value is its baseline if it has a placeholder."""
    for name, value in fixed.items():
        if name in placed and rows[name].default is None:
            rows[name] = replace(rows[name], default=value)
    for name, text in _pairs("--baseline", typed.get("baselines", ())).items():
        _check_known("--baseline", name, rows)
        if name not in placed:
            raise UsageError(
                f"--baseline {name}={text}: the command has no {{{name}}}",
                f"write {{{name}}} where the program takes it, or leave --baseline out",
            )
        rows[name] = replace(rows[name], default=parse_value(text))


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """``NAME=TEXT`` of a repeated option, by name."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            example = "omp_threads=1..16" if option.endswith("knob") else "iterator_workers=2"
            raise UsageError(f"{option} {text!r}: is not NAME=VALUE", f"{option} {example}")
        if name in pairs:
            raise UsageError(f"{option} {name} is given twice", "keep one of them")
        if not value:
            raise UsageError(f"{option} {name}=: the value is empty", f"{option} {name}=1")
        pairs[name] = value
    return pairs


def _check_known(option: str, name: str, rows: Mapping[str, Knob]) -> None:
    if name not in rows:
        raise UsageError(
            f"{option} {name}: there is no such knob",
            f"for a knob of your own, put {{{name}}} into the command; {suggestion(name, rows)}",
        )


def _sensible(row: Knob, domain: Domain, where: str) -> Domain:
    """The typed domain, checked against what the tool, and the file's list, allow the knob."""
    if not table.is_known(row.name):
        if isinstance(row.route, Flag) and row.route.switch:
            check_against(replace(row, domain=Choice((OFF, ON))), domain, where=where)
        return domain
    allowed = table.knob(row.name).domain
    if isinstance(allowed, Choice) and isinstance(row.domain, Choice):
        allowed = Choice(tuple(dict.fromkeys((*allowed.values, *row.domain.values))))
    return check_against(replace(row, domain=allowed), domain, where=where)


# --- what applies on the host ----------------------------------------------------------------


def applying(
    chosen: Selection, host: TargetHost
) -> tuple[tuple[Knob, ...], tuple[tuple[str, str], ...]]:
    """The knobs of the study, their values cut to the host, and why the others are left out.

    Raises:
        UsageError: One that the user named cannot be set here, exists in no setting, or depends
            on a knob that there is not; or none is left.
    """
    kept: dict[str, Knob] = {}
    lost: dict[str, str] = {}
    for row in chosen.knobs:
        got = answer(row, host, own=row.name in chosen.own)
        if got.why_not and row.name in chosen.named and not got.possible:
            raise UsageError(f"{row.name}: {got.why_not}", got.hint)
        if got.why_not and row.name not in chosen.named:
            if "hosts" in row.needs and len(host.layout.hosts) == 1:
                continue  # nobody misses it
            lost[row.name] = got.why_not
        else:
            kept[row.name] = got.knob
    _check_conditions(kept)
    while reasons := _never_there(kept):
        for name, (why, hint) in reasons.items():
            if name in chosen.named:
                raise UsageError(f"{name}: {why}", hint)
            lost[name] = why
            del kept[name]
    _check_size(kept)
    if not kept:
        reasons_text = "; ".join(f"{name}: {why}" for name, why in lost.items())
        raise UsageError(
            f"there is nothing to tune: no knob is left ({reasons_text})",
            "add one, such as --knob omp_threads=1..4",
        )
    return tuple(kept.values()), (*chosen.left_out, *lost.items())


def _check_conditions(knobs: Mapping[str, Knob]) -> None:
    for knob in knobs.values():
        for parent, _ in knob.when:
            if parent not in knobs and not table.is_known(parent):
                raise UsageError(
                    f"knobs.{knob.name}.when: there is no knob {parent!r}",
                    suggestion(parent, [*knobs, *table.names()]),
                )
    circle = conditions.cycle({knob.name: knob.when for knob in knobs.values()})
    if circle:
        raise UsageError(
            f"knobs.{circle[0]}.when: it depends on itself ({', '.join(circle)})",
            "let one of them stand without a condition",
        )


def _never_there(kept: Mapping[str, Knob]) -> dict[str, tuple[str, str]]:
    """The knobs with a condition that holds in no setting: why, and what to do."""
    problems: dict[str, tuple[str, str]] = {}
    for name, knob in kept.items():
        for parent, values in knob.when:
            if parent in kept:
                holds = not set(space.values(kept[parent].domain)).isdisjoint(values)
            else:
                neutral = table.knob(parent).neutral  # left as it is, if that is known
                holds = bool(values) if neutral is None else neutral in values
            if not holds:
                why = f"it exists only if {parent} is {_listed(values)}"
                problems.setdefault(name, (why, _hint(parent, values, kept)))
    return problems


def _hint(parent: str, values: Sequence[Value], kept: Mapping[str, Knob]) -> str:
    """What to do about a condition that holds in no setting."""
    if parent not in kept:
        return f"leave it out, or tune it with --knob {parent}"
    texts = {str(value) for value in values}
    for value in space.values(kept[parent].domain):
        if str(value) in texts:
            kind = "a number" if isinstance(value, int) else "a text"
            return f"{value!r} is {kind} there: write when = {{{parent} = {value!r}}}."
    return f"leave it out, or add {_listed(values)} to {parent}'s values"


def _check_size(kept: Mapping[str, Knob]) -> None:
    """Raise ``UsageError`` if conditions split the space into more parts than can be walked."""
    knobs = tuple(kept.values())
    if any(number == MAX_WORLDS for number, _ in enumerate(conditions.worlds(space.axes(knobs)))):
        names = {parent for knob in knobs for parent, _ in knob.when}
        parents = [knob.name for knob in knobs if knob.name in names]
        listed = ", ".join(parents[:6]) + (", …" if len(parents) > 6 else "")
        raise UsageError(
            f"the conditions (when) split the settings into more than {MAX_WORLDS} parts: so many"
            " are not searched",
            f"fix some knobs that others depend on ({listed}), as with --fix {parents[0]}=VALUE,"
            " or leave out some conditions",
        )


def _listed(values: Sequence[Value]) -> str:
    return " or ".join(str(value) for value in values)
