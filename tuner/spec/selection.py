"""Which knobs a study has, from where: the tool's table, the study file, the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tuner import command as templates
from tuner import knobs as table
from tuner import space
from tuner.errors import UsageError, suggestion
from tuner.model import BASELINE, Choice, Env, Flag, IntRange, Knob, Setting, Value

if TYPE_CHECKING:
    from tuner.spec import RunOptions
    from tuner.study_file import StudyFile


@dataclass(frozen=True)
class Selection:
    """The knobs of a study, not yet cut to the machine.

    ``own`` are those whose values the user named; ``left_out`` says why a known knob is
    not among them.
    """

    knobs: tuple[Knob, ...]
    own: frozenset[str] = frozenset()
    fixed: Setting = BASELINE
    left_out: tuple[tuple[str, str], ...] = ()


def select(
    file: StudyFile, options: RunOptions, template: Sequence[str], *, typed: bool
) -> Selection:
    """Choose the knobs.

    In the study are those that the file lists (without a list: every knob that goes by
    environment), whose placeholder stands in the command, or that an option names.

    Args:
        file: The study file; an empty one where there is none.
        options: The command line: ``--knob``, ``--fix``, ``--default``.
        template: The command.
        typed: The command was typed, so that a knob the file lists may not reach it.

    Raises:
        UsageError: An unknown knob, a value that makes no sense for it, a knob that
            nothing carries to the program, or nothing to tune.
    """
    domains, fixes = _asked(options)
    placed = templates.knobs_in(template)
    rows = _rows(file, placed, {**domains, **fixes})
    templates.check(template, rows)
    for option, given in (("--knob", domains), ("--fix", fixes)):
        for name in given:
            _check_known(option, name, rows)
    fixed = _typed(rows, domains, fixes, _file_fixes(file, domains))
    _set_defaults(rows, options, fixed, placed)
    used = _used(file, placed, [*domains, *fixes], rows)
    forgiven = set(rows) - {*domains, *fixes} if typed else set()
    knobs, lost = _reachable(used, rows, placed, forgiven)
    if not knobs:
        raise UsageError(
            "There is nothing to tune: no knob is left.",
            "Add one, such as --knob omp_threads=1..4.",
        )
    names = {knob.name for knob in knobs}
    return Selection(
        tuple(knobs),
        frozenset((_file_domains(file) | set(domains) | set(fixes)) & names),
        Setting.of({name: value for name, value in fixed.items() if name in names}),
        _left_out(file, names, lost),
    )


def check_job(job: Sequence[str], chosen: Selection, source: str) -> None:
    """Raise ``UsageError`` where the whole job cannot be given the best setting."""
    templates.check(job, [knob.name for knob in chosen.knobs])
    placed = templates.knobs_in(job)
    for knob in chosen.knobs:
        if job and knob.route == Flag() and knob.name not in placed:
            raise UsageError(
                f"{source}: job has no {{{knob.name}}}, so the whole job could not be given "
                "the best value.",
                f"Put {{{knob.name}}} into job where the program takes it.",
            )


def _asked(options: RunOptions) -> tuple[dict[str, str], dict[str, str]]:
    """(``--knob``, ``--fix``) by name."""
    domains = _pairs("--knob", options.knobs)
    fixes = _pairs("--fix", options.fixes)
    for name in fixes:
        if name in domains:
            raise UsageError(f"{name} is given by --knob and by --fix.", "Keep one of them.")
    return domains, fixes


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    """``NAME=TEXT`` of a repeated option, by name."""
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            example = "omp_threads=1..16" if option == "--knob" else "iterator_workers=2"
            raise UsageError(f"{option} {text!r}: is not NAME=VALUE.", f"{option} {example}")
        if name in pairs:
            raise UsageError(f"{option} {name} is given twice.", "Keep one of them.")
        if not value:
            raise UsageError(f"{option} {name}=: the value is empty.", f"{option} {name}=1")
        pairs[name] = value
    return pairs


def _rows(file: StudyFile, placed: Sequence[str], asked: Mapping[str, str]) -> dict[str, Knob]:
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


def _typed(
    rows: dict[str, Knob],
    domains: Mapping[str, str],
    fixes: Mapping[str, str],
    fixed: dict[str, Value],
) -> dict[str, Value]:
    """Put the typed domains and every fixed value into ``rows``; returns what is fixed."""
    for name, text in domains.items():
        domain = space.parse_domain(text, where=f"--knob {name}")
        where = f"--knob {name}={text}"
        rows[name] = replace(rows[name], domain=_sensible(rows[name], domain, where))
    fixed = fixed | {name: _single(rows[name], text) for name, text in fixes.items()}
    for name, value in fixed.items():
        rows[name] = replace(rows[name], domain=Choice((value,)))
    return fixed


def _check_known(option: str, name: str, rows: Mapping[str, Knob]) -> None:
    if name not in rows:
        raise UsageError(
            f"{option} {name}: there is no such knob.",
            f"{suggestion(name, rows)} One of your own needs {{{name}}} in the command.",
        )


def _file_domains(file: StudyFile) -> set[str]:
    """The knobs whose values the file names."""
    return {
        name
        for name, entry in file.knobs.items()
        if entry.range is not None or entry.values is not None or entry.fix is not None
    }


def _file_fixes(file: StudyFile, domains: Mapping[str, str]) -> dict[str, Value]:
    return {
        name: entry.fix
        for name, entry in file.knobs.items()
        if entry.fix is not None and name not in domains
    }


def _sensible(row: Knob, domain: Choice | IntRange, where: str) -> Choice | IntRange:
    """The typed domain, checked against what the tool, and the file's list, allow the knob."""
    if not table.is_known(row.name):
        return domain
    allowed = table.knob(row.name).domain
    if isinstance(allowed, Choice) and isinstance(row.domain, Choice):
        allowed = Choice(tuple(dict.fromkeys((*allowed.values, *row.domain.values))))
    return space.check_against(replace(row, domain=allowed), domain, where=where)


def _single(row: Knob, text: str) -> Value:
    where = f"--fix {row.name}={text}"
    if "," in text or ".." in text:
        raise UsageError(f"{where}: is more than one value.", f"--knob {row.name}={text} tunes it.")
    value = space.parse_value(text)
    _sensible(row, Choice((value,)), where)
    return value


def _set_defaults(
    rows: dict[str, Knob],
    options: RunOptions,
    fixed: Mapping[str, Value],
    placed: Sequence[str],
) -> None:
    """``--default``; a fixed knob's own value is its default where it has a placeholder."""
    for name, value in fixed.items():
        if name in placed and rows[name].default is None:
            rows[name] = replace(rows[name], default=value)
    for name, text in _pairs("--default", options.defaults).items():
        _check_known("--default", name, rows)
        if name not in placed:
            raise UsageError(
                f"--default {name}={text}: the command has no {{{name}}}.",
                "A default is the value of a placeholder in the baseline.",
            )
        rows[name] = replace(rows[name], default=space.parse_value(text))


def _used(
    file: StudyFile, placed: Sequence[str], asked: Sequence[str], rows: Mapping[str, Knob]
) -> list[str]:
    """The names of the knobs that take part, the tool's own first, in the table's order."""
    if file.knobs:
        listed = list(file.knobs)
    else:
        listed = [
            knob.name
            for knob in table.KNOBS
            if isinstance(knob.route, Env) and knob.name not in file.left_out
        ]
    wanted = {*listed, *placed, *asked}
    return [name for name in rows if name in wanted]


def _reachable(
    used: Sequence[str], rows: Mapping[str, Knob], placed: Sequence[str], forgiven: set[str]
) -> tuple[list[Knob], list[str]]:
    """(knobs that reach the program, names of the forgiven ones that do not)."""
    knobs, lost = [], []
    for name in used:
        if rows[name].route != Flag() or name in placed:
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


def _left_out(file: StudyFile, used: set[str], lost: Sequence[str]) -> tuple[tuple[str, str], ...]:
    reasons = dict(file.left_out)
    for name in (*lost, *table.names()):
        by_flag = name in lost or isinstance(table.knob(name).route, Flag)
        default = f"the command has no {{{name}}}" if by_flag else "the study file does not list it"
        reasons.setdefault(name, default)
    return tuple((name, reason) for name, reason in reasons.items() if name not in used)
