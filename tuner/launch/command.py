"""Reads and fills command templates: words of a command with placeholders (pure).

``{out}`` is the folder of the program's log, ``{python}`` the interpreter of ``tune``,
``{workloads}`` the folder of the shipped trainers, ``{ranks}`` the number of MPI ranks,
``{batch_per_rank}`` a rank's share of ``--global-batch``, any other name a knob. ``{{`` and ``}}``
are literal braces.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Formatter

from tuner.model import RANKS
from tuner.model.errors import UsageError, shown, suggestion

OUT = "out"
#: The share of a rank in ``--global-batch``.
BATCH_PER_RANK = "batch_per_rank"
RESERVED = (OUT, "python", "workloads", RANKS, BATCH_PER_RANK)

#: Stands for a placeholder's value if its option takes none: only the option is left.
BARE = "\0"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Doubled braces, or a placeholder, whose name is the group.
_BRACES = re.compile(rf"\{{\{{|\}}\}}|\{{({_NAME.pattern})\}}")
_OPTION = re.compile(r"--?[A-Za-z][^=]*")
_OPTION_WITH_VALUE = re.compile(r"--?[A-Za-z][\w.-]*=")


def shipped_dir(name: str) -> Path:
    """Return a folder that ships with the tool (``workloads``, ``studies``)."""
    spec = importlib.util.find_spec(f"tuner.{name}")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"tuner.{name} is not installed")
    return Path(spec.origin).parent


def names_in(token: str) -> tuple[str, ...]:
    """Return the placeholders of one token, in order."""
    try:
        fields = [field for _, *field in Formatter().parse(token) if field[0] is not None]
    except ValueError:  # a brace has no partner: a field without a name is refused below
        fields = [["", "", None]]
    names = [name or "" for name, form, conversion in fields if not form and conversion is None]
    if len(names) < len(fields) or not all(map(_NAME.fullmatch, names)):
        raise UsageError(
            f"the command has braces in {token!r} that are no placeholder",
            "write {{ and }} for literal braces",
        )
    return tuple(names)


def placeholders(template: Sequence[str]) -> tuple[str, ...]:
    """Return the placeholders of a template, each once, in order."""
    return tuple(dict.fromkeys(name for token in template for name in names_in(token)))


def knobs_in(template: Sequence[str]) -> tuple[str, ...]:
    """Return the placeholders that may be knobs; other braces are passed over."""
    names = dict.fromkeys(name for token in template for name in _BRACES.findall(token))
    return tuple(name for name in names if name and name not in RESERVED)  # "": doubled braces


def check(template: Sequence[str], knobs: Iterable[str]) -> None:
    """Raise ``UsageError`` for a placeholder that is neither reserved nor one of the knobs."""
    allowed = [*RESERVED, *knobs]
    for name in placeholders(template):
        if name not in allowed:
            raise UsageError(
                f"the command has {{{name}}}, and there is no such knob",
                f"{suggestion(name, allowed)} A knob of your own needs its values: "
                f"--knob {name}=1..8. Write a literal brace as {{{{",
            )


def fill(token: str, values: Mapping[str, str]) -> str:
    """Return a token with its placeholders replaced; each must be in ``values``."""
    return token.format_map(values)


def substitute(template: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the template with its placeholders replaced; those without a value are left out.

    A token with a placeholder that has no value is dropped; if the token is nothing but
    the placeholder, the option right before it (``-j``, ``--workers``) goes as well.
    """
    result: list[str] = []
    for index, token in enumerate(template):
        missing = [name for name in names_in(token) if name not in values]
        if not missing:
            result += _filled(template, index, values)
            continue
        is_alone = token == f"{{{missing[0]}}}"
        # Several words, for a shell; ``--name=two words`` is an option, whatever its value is.
        is_script = len(token.split()) > 1 and not _OPTION_WITH_VALUE.match(token)
        if is_script or (is_alone and not option_before(template, index)):
            why = "" if is_script else " without an option before it"
            needed = " ".join(f"--baseline {name}=VALUE" for name in dict.fromkeys(missing))
            raise UsageError(
                f"the command has {{{missing[0]}}} in {shown(token)}{why}, which cannot be left out"
                " for the baseline",
                f"say what it is by default: {needed}",
            )
        if is_alone:
            result.pop()  # the option before it
    return tuple(result)


def _filled(template: Sequence[str], index: int, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return a word with its values; ``--amp={amp}`` becomes ``--amp`` if the option takes none."""
    token = template[index]
    bare_names = [name for name in names_in(token) if values[name] == BARE]
    if not bare_names:
        return (fill(token, values),)
    placeholder = f"{{{bare_names[0]}}}"
    if token == placeholder and option_before(template, index):
        return ()
    option = token.removesuffix(f"={placeholder}")
    if option == token or not _OPTION.fullmatch(option):
        raise UsageError(
            f"the command has {placeholder} in {shown(token)}: it is an option without a value",
            f"put it after the option that it belongs to: --option {placeholder}",
        )
    return (option,)


def words_with_values(template: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return only the words whose placeholders get a value, each with the option before it."""
    result: list[str] = []
    for index, token in enumerate(template):
        names = names_in(token)
        if not names or any(name not in values for name in names):
            continue
        if token == f"{{{names[0]}}}" and option_before(template, index):
            result.append(template[index - 1])
        result += _filled(template, index, values)
    return tuple(result)


def can_leave_out(template: Sequence[str], name: str) -> bool:
    """Return whether a template can do without one placeholder, and keep all other ones."""
    words_with_it = [names for token in template if name in (names := names_in(token))]
    if any(set(names) != {name} for names in words_with_it):
        return False
    try:  # with some value, its name, for each of the others
        substitute(template, {other: other for other in placeholders(template) if other != name})
    except UsageError:
        return False
    return True


def options_of_placeholders(template: Sequence[str]) -> dict[str, str]:
    """Return the option whose whole value a placeholder is, by the placeholder's name."""
    options = {}
    for index, token in enumerate(template):
        option, _, value = token.rpartition("=")
        if (match := _BRACES.fullmatch(value)) and match[1]:
            if not option and option_before(template, index):
                option = template[index - 1]
            if _OPTION.fullmatch(option):
                options[match[1]] = option
    return options


def option_before(template: Sequence[str], index: int) -> bool:
    """Return whether the token before ``index`` is an option that takes this one as its value."""
    previous = template[index - 1] if index else ""
    return _OPTION.fullmatch(previous) is not None and not names_in(previous)
