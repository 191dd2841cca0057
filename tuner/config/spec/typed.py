"""What the command line says of knobs: which are tuned over what, which are fixed, defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tuner import knobs as table
from tuner.config.spec.options import RunOptions
from tuner.knobs.domains import check_against, parse_domain, parse_value
from tuner.model import OFF, ON, Choice, Flag, IntRange, Knob, Value
from tuner.model.errors import UsageError, suggestion


def of_options(options: RunOptions) -> tuple[dict[str, str | None], dict[str, str]]:
    """(``--knob``, ``--fix``) by name; a knob without values takes those of the tables."""
    plain = [text.strip() for text in options.knobs if "=" not in text]
    domains: dict[str, str | None] = dict.fromkeys(plain)
    if "" in domains:
        raise UsageError("--knob is empty.", "--knob omp_threads=1..16")
    pairs = _pairs("--knob", [text for text in options.knobs if "=" in text])
    for name in {*pairs.keys() & domains, *(n for n in plain if plain.count(n) > 1)}:
        raise UsageError(f"--knob {name} is given twice.", "Keep one of them.")
    domains |= pairs
    fixes = _pairs("--fix", options.fixes)
    for name in fixes:
        if name in domains:
            raise UsageError(f"{name} is given by --knob and by --fix.", "Keep one of them.")
    return domains, fixes


def put_values(
    rows: dict[str, Knob],
    domains: Mapping[str, str | None],
    fixes: Mapping[str, str],
    fixed: dict[str, Value],
) -> dict[str, Value]:
    """Put the typed domains and every fixed value into ``rows``; returns what is fixed."""
    for name, text in domains.items():
        if text is None:
            _check_has_values(rows[name])
            continue
        domain = parse_domain(text, where=f"--knob {name}")
        where = f"--knob {name}={text}"
        rows[name] = replace(rows[name], domain=_sensible(rows[name], domain, where))
    fixed = fixed | {name: _single(rows[name], text) for name, text in fixes.items()}
    for name, value in fixed.items():
        rows[name] = replace(rows[name], domain=Choice((value,)))
    return fixed


def put_defaults(
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
        check_known("--default", name, rows)
        if name not in placed:
            raise UsageError(
                f"--default {name}={text}: the command has no {{{name}}}.",
                "A default is the value of a placeholder in the baseline.",
            )
        rows[name] = replace(rows[name], default=parse_value(text))


def check_known(option: str, name: str, rows: Mapping[str, Knob]) -> None:
    """Raise ``UsageError`` for a knob that there is not, with the nearest name."""
    if name not in rows:
        raise UsageError(
            f"{option} {name}: there is no such knob.",
            f"{suggestion(name, rows)} One of your own needs {{{name}}} in the command.",
        )


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


def _check_has_values(row: Knob) -> None:
    if row.domain == Choice(()):
        raise UsageError(
            f"--knob {row.name}: which values?", f"Name them, such as --knob {row.name}=1..8."
        )


def _sensible(row: Knob, domain: Choice | IntRange, where: str) -> Choice | IntRange:
    """The typed domain, checked against what the tool, and the file's list, allow the knob."""
    if isinstance(row.route, Flag) and row.route.switch and not table.is_known(row.name):
        return check_against(replace(row, domain=Choice((OFF, ON))), domain, where=where)
    if not table.is_known(row.name):
        return domain
    allowed = table.knob(row.name).domain
    if isinstance(allowed, Choice) and isinstance(row.domain, Choice):
        allowed = Choice(tuple(dict.fromkeys((*allowed.values, *row.domain.values))))
    return check_against(replace(row, domain=allowed), domain, where=where)


def _single(row: Knob, text: str) -> Value:
    where = f"--fix {row.name}={text}"
    if "," in text or ".." in text:
        raise UsageError(f"{where}: is more than one value.", f"--knob {row.name}={text} tunes it.")
    value = parse_value(text)
    _sensible(row, Choice((value,)), where)
    return value
